"""The pace of the readings, and what is written when they fail."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.fakes.gpu_user import Registration, alive, register
from harness.fakes.nvml import FakeNvml, Gpu, Host, write_host
from harness.observe.gpu.journal import COLUMNS, Journal, lines, to_parquet
from harness.observe.gpu.nvml import Field
from harness.observe.gpu.sampler import Pace, Sampler

MS = 1_000_000


class Clock:
    """Time that goes on only when told to."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns

    def seconds(self) -> float:
        return self.ns / 1e9


class Bench:
    """A sampler of a fake host whose time stands still between steps."""

    def __init__(self, folder: Path, *gpus: Gpu, hz: float = 20.0) -> None:
        write_host(folder, Host(gpus))
        self.folder = folder
        self.clock = Clock()
        self.nvml = FakeNvml(folder, self.clock.seconds)
        self.events: list[dict[str, Any]] = []
        self.journal = folder / "gpu.journal"
        devices = [self.nvml.device(gpu.uuid) for gpu in gpus]
        journal = Journal(self.journal)
        self.sampler = Sampler(self.nvml, devices, journal, self.events.append, hz, now_ns=self.clock.now_ns)
        self._stream = journal

    def close(self) -> None:
        self._stream.close()

    def sample(self, seconds: float) -> list[int]:
        """Free MiB of the first GPU at each reading that falls due."""
        found = []
        pace = Pace(round(1e9 / self.sampler.hz), self.clock.ns)
        while self.clock.seconds() < seconds:
            pace.taken(self.clock.ns)
            [memory, *_] = self.sampler.read_memory()
            assert memory is not None
            found.append(memory.free >> 20)
            self.clock.ns += round(pace.wait_s(self.clock.ns) * 1e9)
        return found

    def rows(self) -> list[dict[str, Any]]:
        self.close()
        target = self.folder / "gpu.parquet"
        to_parquet(self.journal, [d.uuid for d in self.sampler.devices], target)
        rows: list[dict[str, Any]] = pq.read_table(target).to_pylist()
        return rows


@pytest.fixture
def sampling(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Makes a bench of these GPUs."""
    made: list[Bench] = []

    def make(*gpus: Gpu, hz: float = 20.0) -> Bench:
        made.append(Bench(tmp_path, *gpus, hz=hz))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


# --- pace --------------------------------------------------------------------------------------------


def test_late_readings_do_not_add_up() -> None:
    pace = Pace(50 * MS, 0)
    now = 0
    for late in (0, 7, 3, 12, 1):
        now = pace.due_ns + late * MS
        pace.taken(now)
    assert pace.due_ns == 250 * MS
    assert (pace.readings, pace.missed) == (5, 0)
    assert pace.worst_gap_ns == (150 + 12 - 100 - 3) * MS
    assert pace.achieved_ns == pytest.approx(201 * MS / 4)


def test_what_was_missed_is_counted_and_not_made_good_in_a_burst() -> None:
    pace = Pace(50 * MS, 0)
    pace.taken(0)
    pace.taken(230 * MS)
    assert (pace.missed, pace.due_ns) == (3, 250 * MS)
    assert pace.worst_gap_ns == 230 * MS
    assert pace.wait_s(240 * MS) == pytest.approx(0.01)
    assert pace.wait_s(260 * MS) == 0


def test_one_reading_has_no_period() -> None:
    pace = Pace(50 * MS, 0)
    assert pace.achieved_ns is None
    pace.taken(0)
    assert pace.achieved_ns is None


def test_a_driver_that_answers_late_widens_the_gap(
    sampling: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a server made its context an H200 took 109 ms to answer: samples lay 158 ms apart, and 109 were told."""
    bench = sampling(Gpu("GPU-0"))
    sampler, clock, slow = bench.sampler, bench.clock, iter((1, 1, 109, 1))

    def passes(seconds: float) -> None:
        clock.ns += round(seconds * 1e9)

    def answers() -> list[Any]:
        clock.ns += next(slow) * MS
        if sampler.pace.readings == 4:
            sampler.stopping.set()
        return []

    monkeypatch.setattr("time.sleep", passes)
    monkeypatch.setattr(sampler, "read_memory", answers)
    sampler.watch_memory()
    assert sampler.pace.worst_gap_ns == (50 + 109) * MS


# --- the blind spot ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hz", "dip_ms", "seen"),
    [(20, 49, False), (20, 51, True), (50, 19, False), (50, 21, True), (100, 9, False), (100, 11, True)],
    ids=str,
)
def test_a_dip_longer_than_the_period_is_seen_and_a_shorter_one_is_not(
    sampling: Callable[..., Bench], hz: float, dip_ms: int, seen: bool
) -> None:
    period_s = 1 / hz
    begin = 10 * period_s + 0.0005  # right after a reading: the worst case
    series = ((0.0, 1000.0), (begin, 52.0), (begin + dip_ms / 1000, 1000.0))
    free = sampling(Gpu("GPU-0", series=series), hz=hz).sample(1.0)
    assert (52 in free) == seen
    assert len(free) == hz


# --- what is written ----------------------------------------------------------------------------------


def test_a_value_that_cannot_be_read_is_null_and_said_once(sampling: Callable[..., Bench]) -> None:
    bench = sampling(Gpu("GPU-0", unreadable={"ecc_corrected": "NOT_SUPPORTED", "memory": "NO_PERMISSION"}))
    for _ in range(3):
        bench.sampler.read_memory()
        bench.sampler.read_state()
    told = [(e["reading"], e["code"]) for e in bench.events if e["kind"] == "unreadable"]
    assert sorted(told) == [("ecc_corrected", "NOT_SUPPORTED"), ("memory", "NO_PERMISSION")]
    rows = bench.rows()
    assert len(rows) == 6
    for name in ("total_bytes", "free_bytes", "used_bytes", "reserved_bytes", "ecc_corrected"):
        assert {r[name] for r in rows} == {None}, name
    assert [r["temperature_c"] for r in rows if r["wall_ns"]] == [41, 41, 41]


def test_a_driver_without_the_newer_structure_counts_reserved_as_used(sampling: Callable[..., Bench]) -> None:
    old, new = Gpu("GPU-old", reserved_mib=None), Gpu("GPU-new", reserved_mib=500)
    [first, second] = sampling(old, new).sampler.read_memory()
    assert first is not None
    assert second is not None
    assert first.reserved is None
    assert (second.reserved or 0) >> 20 == 500
    assert second.total == second.free + second.used + (second.reserved or 0)


def test_columns_are_typed_and_gpus_are_told_apart(sampling: Callable[..., Bench], tmp_path: Path) -> None:
    bench = sampling(Gpu("GPU-a", memory_mib=1000), Gpu("GPU-b", memory_mib=2000))
    bench.sampler.read_memory()
    bench.sampler.read_state()
    rows = bench.rows()
    assert [(r["gpu"], r["total_bytes"]) for r in rows[:2]] == [("GPU-a", 1000 << 20), ("GPU-b", 2000 << 20)]
    types = {f.name: str(f.type) for f in pq.read_schema(tmp_path / "gpu.parquet")}
    assert types == {name: "string" if name == "gpu" else "int64" for name in COLUMNS}
    assert not bench.journal.exists()


def test_processes_are_written_when_they_change(sampling: Callable[..., Bench], tmp_path: Path) -> None:
    bench = sampling(Gpu("GPU-0"))
    bench.sampler.read_state()
    bench.sampler.read_state()
    register(tmp_path, os.getpid(), ("GPU-0",), 100)
    bench.sampler.read_state()
    bench.sampler.read_state()
    events = [e["processes"] for e in bench.events if e["kind"] == "processes"]
    assert [len(p) for p in events] == [0, 1]
    assert events[1][0]["used_bytes"] == 100 << 20


def test_an_xid_is_told_once(sampling: Callable[..., Bench], tmp_path: Path) -> None:
    bench = sampling(Gpu("GPU-0"))
    register(tmp_path, os.getpid(), ("GPU-0",), 100, settings={"xid": 79})
    bench.sampler.read_state()
    bench.sampler.read_state()
    assert [e["code"] for e in bench.events if e["kind"] == "xid"] == [79]


def test_a_lost_gpu_is_one_event_and_not_one_per_reading(sampling: Callable[..., Bench], tmp_path: Path) -> None:
    bench = sampling(Gpu("GPU-0"))
    register(tmp_path, os.getpid(), ("GPU-0",), 100, settings={"lost": 1})
    bench.sampler.read_memory()
    bench.sampler.read_state()
    assert [(e["kind"], e["reading"], e["code"]) for e in bench.events] == [("unreadable", "gpu", "GPU_IS_LOST")]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    journal = tmp_path / "gpu.journal"
    whole = ["memory", 5, 0, 4, 3, 1, None]
    journal.write_text(json.dumps(whole) + '\n["memory", 6, 0, 4', "ascii")
    assert list(lines(journal)) == [whole]
    to_parquet(journal, ["GPU-0"], tmp_path / "gpu.parquet")
    [row] = pq.read_table(tmp_path / "gpu.parquet").to_pylist()
    assert (row["mono_ns"], row["free_bytes"], row["reserved_bytes"]) == (5, 3, None)


def test_a_journal_without_a_line_becomes_a_file_without_a_row(tmp_path: Path) -> None:
    (tmp_path / "gpu.journal").touch()
    to_parquet(tmp_path / "gpu.journal", [], tmp_path / "gpu.parquet")
    assert pq.read_table(tmp_path / "gpu.parquet").num_rows == 0


def test_every_field_has_a_reading_in_the_fake(sampling: Callable[..., Bench]) -> None:
    device = sampling(Gpu("GPU-0")).nvml.device("GPU-0")
    assert all(device.read(f) >= 0 for f in Field)


def test_a_pid_that_was_given_again_is_no_user() -> None:
    assert not alive(Registration(1, -1.0, ("GPU-0",), 5))
