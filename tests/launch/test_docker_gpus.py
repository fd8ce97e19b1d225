"""GPUs as device nodes in a real container: it sees those of its own GPUs, can use them, and can make no others."""

from __future__ import annotations

import json
import os
import stat
from functools import partial
from pathlib import Path

import pytest

from harness.fakes import nvml
from harness.launch.docker import launcher
from harness.launch.docker.devices import device_nodes
from tests.containers.bench import Bench

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]

ONE, OTHER = "GPU-one", "GPU-other"

LOOK = """
import json, os, stat

def attempt(what):
    try:
        what()
    except OSError as e:
        return type(e).__name__
    return "done"

print(json.dumps({
    "nodes": sorted(n for n in os.listdir("/dev") if n.startswith("nvidia")),
    "use": attempt(lambda: os.write(os.open("/dev/nvidia1", os.O_RDWR), b"x")),
    "make": attempt(lambda: os.mknod("/tmp/nvidia0", 0o666 | stat.S_IFCHR, os.makedev(195, 0))),
    "cuda": os.environ.get("CUDA_VISIBLE_DEVICES"),
}))
"""


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver with two GPUs, whose nodes are /dev/null by other names."""
    nvml.write_host(tmp_path / "nvml", nvml.Host((nvml.Gpu(ONE, minor=1), nvml.Gpu(OTHER, minor=0))))
    monkeypatch.setenv(nvml.VARIABLE, str(tmp_path / "nvml"))
    folder = tmp_path / "dev"
    folder.mkdir()
    for name in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"):
        try:
            os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("making device nodes takes root")
    monkeypatch.setattr(launcher, "device_nodes", partial(device_nodes, folder=folder))
    return folder


def test_a_container_has_the_nodes_of_its_gpu_alone_and_the_record_says_so(containers: Bench, nodes: Path) -> None:
    running = containers.start(LOOK, gpus=(ONE,), gpu_access="device-nodes")
    assert running.ended().code == 0, running.log
    found = json.loads(running.log)
    assert found["nodes"] == ["nvidia-uvm", "nvidia1", "nvidiactl"]
    assert (found["use"], found["make"]) == ("done", "PermissionError")
    assert found["cuda"] == ONE
    facts = running.server.container()
    assert facts is not None
    assert facts.devices == tuple(str(nodes / name) for name in ("nvidiactl", "nvidia-uvm", "nvidia1"))
    assert [d["PathInContainer"] for d in running.description["HostConfig"]["Devices"]][-1] == "/dev/nvidia1"


def test_a_server_that_asks_for_no_gpu_gets_no_node(containers: Bench, nodes: Path) -> None:
    del nodes
    running = containers.start(LOOK.replace("/dev/nvidia1", "/dev/null"), gpu_access="device-nodes")
    assert running.ended().code == 0, running.log
    assert json.loads(running.log)["nodes"] == []
