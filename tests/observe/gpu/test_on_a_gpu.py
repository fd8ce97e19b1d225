"""The same questions to a real driver; skipped where there is none."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.fakes.nvml import VARIABLE
from harness.observe.gpu.nvml import Field, NoDriver, Nvml, Unreadable, open_nvml
from harness.observe.gpu.watch import GpuSampler

pytestmark = pytest.mark.gpu


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    monkeypatch.delenv(VARIABLE, raising=False)
    try:
        return open_nvml()
    except NoDriver as e:
        pytest.skip(str(e))


def test_memory_adds_up_and_every_field_is_a_number_or_unreadable(nvml: Nvml) -> None:
    for uuid in nvml.uuids():
        device = nvml.device(uuid)
        facts, missing = device.facts()
        assert facts.name or "name" in missing
        memory = device.memory()
        assert memory.total == memory.free + memory.used + (memory.reserved or 0)
        for field in Field:
            with contextlib.suppress(Unreadable):
                assert device.read(field) >= 0
    nvml.close()


def test_the_sampler_keeps_its_pace_and_keeps_what_it_read(nvml: Nvml, tmp_path: Path) -> None:
    uuid = nvml.uuids()[0]
    nvml.close()
    sampler = GpuSampler([uuid], tmp_path / "gpu.parquet", tmp_path / "gpu.jsonl", 20)
    time.sleep(2)
    [state] = sampler.look()
    assert state.used_bytes is not None
    sampling = sampler.finish()
    assert sampling.achieved_period_ms == pytest.approx(50, rel=0.1)
    assert pq.read_table(tmp_path / "gpu.parquet").num_rows >= 30
