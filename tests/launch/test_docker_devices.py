"""GPUs as device nodes: which ones belong to a UUID, and what a container then sees of /dev."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import SetupFailure
from harness.fakes import nvml
from harness.launch.docker.devices import device_nodes

ONE, OTHER = "GPU-one", "GPU-other"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs whose nodes are numbered the other way round than the driver lists them."""
    gpus = (
        nvml.Gpu(ONE, minor=1),
        nvml.Gpu(OTHER, minor=0),
        nvml.Gpu("GPU-mute", unreadable={"minor": "NOT_SUPPORTED"}),
    )
    nvml.write_host(tmp_path / "nvml", nvml.Host(gpus))
    monkeypatch.setenv(nvml.VARIABLE, str(tmp_path / "nvml"))


@pytest.fixture
def dev(tmp_path: Path) -> Callable[..., Path]:
    """Makes a /dev with character devices of these names; each is /dev/null by another name."""

    def make(*names: str) -> Path:
        folder = tmp_path / "dev"
        folder.mkdir()
        for name in names:
            try:
                os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            except PermissionError:
                pytest.skip("making device nodes takes root")
        return folder

    return make


EVERY = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1", "nvidia-modeset")


@pytest.mark.usefixtures("host")
def test_a_gpus_node_is_the_one_of_its_minor_number_and_no_other_gpus_is_given(dev: Callable[..., Path]) -> None:
    nodes = device_nodes((ONE,), dev(*EVERY))
    inside = [node["PathInContainer"] for node in nodes]
    assert inside == ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia1"]
    assert {node["CgroupPermissions"] for node in nodes} == {"rw"}, "no server makes nodes"


@pytest.mark.usefixtures("host")
def test_several_gpus_get_a_node_each(dev: Callable[..., Path]) -> None:
    inside = [node["PathInContainer"] for node in device_nodes((ONE, OTHER), dev(*EVERY))]
    assert inside[-2:] == ["/dev/nvidia1", "/dev/nvidia0"]


@pytest.mark.usefixtures("host")
def test_a_missing_node_is_told_with_what_makes_it(dev: Callable[..., Path]) -> None:
    with pytest.raises(SetupFailure, match=r"nvidia-uvm, .*nvidia1 are not there; .*nvidia-modprobe"):
        device_nodes((ONE,), dev("nvidiactl", "nvidia0"))


@pytest.mark.usefixtures("host")
def test_a_file_of_that_name_is_no_node(dev: Callable[..., Path]) -> None:
    folder = dev("nvidiactl", "nvidia-uvm")
    (folder / "nvidia1").write_text("", "utf-8")
    with pytest.raises(SetupFailure, match="nvidia1 is not there"):
        device_nodes((ONE,), folder)


@pytest.mark.usefixtures("host")
def test_a_driver_that_does_not_tell_the_number_is_a_setup_failure(dev: Callable[..., Path]) -> None:
    with pytest.raises(SetupFailure, match=r"does not say which node belongs to a GPU \(NOT_SUPPORTED\)"):
        device_nodes(("GPU-mute",), dev(*EVERY))


def test_without_gpus_nobody_is_asked(tmp_path: Path) -> None:
    assert device_nodes((), tmp_path) == []
