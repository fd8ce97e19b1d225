"""A real GPU that somebody else computes on is not measured on; skipped where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.evidence.bundle import LaunchDir
from harness.fakes.nvml import VARIABLE
from harness.launch.launcher import LaunchFailed
from harness.observe.gpu.nvml import NoDriver, open_nvml
from harness.session.gpus import GpuGuard
from tests.judge.bundles import small_profile

pytestmark = pytest.mark.gpu

REFUSED = "{} (is in use by|has .* MiB more in use than when it is free)"
HOLDER = """
import sys, torch
kept = torch.zeros(2 << 30, dtype=torch.uint8, device={!r})
print(1, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Number and UUID of one that nobody computes on; a visit has the others in use."""
    monkeypatch.delenv(VARIABLE, raising=False)
    pytest.importorskip("torch")
    try:
        nvml = open_nvml()
    except NoDriver as e:
        pytest.skip(str(e))
    ours = os.environ.get("QUALIFY_GPUS", "").split(",")
    unused = [
        (number, uuid)
        for number, uuid in enumerate(nvml.uuids())
        if (ours == [""] or uuid in ours) and nvml.device(uuid).memory().used < 1 << 30
    ]
    nvml.close()
    if not unused:
        pytest.skip("every GPU here is in use")
    return unused[0]


@contextmanager
def holding(number: int) -> Iterator[None]:
    argv = [sys.executable, "-c", HOLDER.format(f"cuda:{number}")]
    ordered = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # as the driver numbers them
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ordered) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline() == "1\n"
        yield
        holder.stdin.close()


def test_one_with_two_gib_of_somebody_else_is_refused_until_they_are_gone(tmp_path: Path, gpu: tuple[int, str]) -> None:
    number, uuid = gpu
    baseline: dict[str, int] = {}
    profile = small_profile({"timeouts.gpu_release_s": 3.0})

    def guard(name: str) -> GpuGuard:
        (tmp_path / name).mkdir()
        return GpuGuard(profile, [uuid], LaunchDir(tmp_path / name), baseline)

    refused, free = guard("refused"), guard("free")
    with (
        holding(number),
        pytest.raises(LaunchFailed, match=REFUSED.format(uuid)) as told,
    ):
        refused.begin()
    print(told.value)  # noqa: T201  # which of the two ways this driver allows
    refused.finish()
    free.begin()
    assert free.finish() is not None
    assert baseline[uuid] < 1 << 30
