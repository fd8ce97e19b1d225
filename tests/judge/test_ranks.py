"""Rank by rank: who told what, the worst one and the range, and a rank that does not tell is not none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.evidence.bundle import Bundle, LaunchDir
from harness.judge import ranks
from harness.judge.case import read_case
from harness.judge.read import LaunchEvidence
from harness.judge.samples import process_readings
from harness.observe.jit.trace import TraceEvent
from harness.observe.log import Kind
from harness.observe.phases import LogClock
from harness.records import Row
from harness.words import Arm, Word

from .bundles import Judged, Session

NAMED, MISSES = "late JIT by rank (engine's monitor)", "compile misses by rank"
MIB = 1 << 20


def worker(rank: int, text: str) -> str:
    return f"(Worker_TP{rank} pid={100 + rank}) INFO 11-30 01:57:55 [x.py:1] {text}"


def traced(*, pid: int, rank: int | None) -> TraceEvent:
    return TraceEvent(event="compile", backend="triton", kernel="_k", begin_ns=1, end_ns=2, pid=pid, rank=rank)


def kv(*gib: float) -> tuple[str, ...]:
    return tuple(worker(n, f"Available KV cache memory: {g} GiB") for n, g in enumerate(gib))


def armed(*on: int) -> tuple[str, ...]:
    return tuple(worker(n, "Kernel JIT monitor activated; x will use mode=warn.") for n in on)


def late(rank: int, kernel: str) -> str:
    return worker(rank, f"Triton kernel JIT compilation during inference: {kernel}. This causes a latency spike")


def b12x(rank: int, outcome: str, target: str) -> str:
    return worker(rank, f"[b12x cute.compile] {outcome} reason=x target=b12x.{target} status=y")


def loud(tmp_path: Path) -> Session:
    return Session(tmp_path, {"serve.flags.jit-monitor-verbose": True})


def launch(bundle: Bundle, arm: Arm) -> LaunchEvidence:
    [found] = [x for x in read_case(bundle).launches.values() if x.record and x.record.launch.arm is arm]
    return found


def names(judged: Judged) -> set[str]:
    return {r.name for r in judged.verdict.rows if "by rank" in r.name}


def figures(row: Row) -> tuple[str | None, str | None]:
    return row.control, row.candidate


def test_a_launch_of_one_rank_has_no_such_row(tmp_path: Path) -> None:
    assert names(Session(tmp_path).both(start_lines=kv(3.5)).judge()) == set()


def test_the_least_kv_memory_of_all_ranks_is_shown_with_the_range_and_named(tmp_path: Path) -> None:
    judged = Session(tmp_path).control(start_lines=kv(3.5, 3.5)).candidate(start_lines=kv(3.5, 2.25)).judge()
    row = judged.row("KV memory by rank")
    assert (*figures(row), row.unit) == ("3.50 (3.50-3.50)", "2.25 (2.25-3.50)", "GiB/rank")
    assert "worst of the candidate: TP1 in 001-candidate-mtp1-engine-cold" in row.reason
    assert row.sources[0].endswith("/server.log")


def test_a_rank_that_does_not_tell_its_kv_memory_may_have_less(tmp_path: Path) -> None:
    lines = (*kv(3.5), worker(1, "Starting to load model /m..."))
    row = Session(tmp_path).both(start_lines=lines).judge().row("KV memory by rank")
    assert (row.word, *figures(row)) == (Word.NOT_TESTED, None, None)
    assert "not told by TP1 in" in row.reason


def test_a_kernel_that_one_rank_names_late_is_new_and_the_rank_is_named(tmp_path: Path) -> None:
    every = armed(0, 1, 2, 3)
    arms = loud(tmp_path).both(start_lines=every).candidate(late_lines=(late(2, "_k"), late(2, "_k")))
    judged = arms.judge()
    row = judged.row("late JIT (engine's monitor)")
    assert (row.word, row.reason) == (Word.FAIL, "new against control: _k (TP2)")
    row = judged.row(NAMED)
    assert figures(row) == ("0 (0-0)", "1 (0-1)")
    assert "worst of the candidate: TP2" in row.reason


def test_silence_of_other_ranks_is_none_only_where_all_are_told_to_speak(tmp_path: Path) -> None:
    bundle = Session(tmp_path / "quiet").both(start_lines=armed(0, 1)).build()
    quiet = launch(bundle, Arm.CONTROL)
    assert ranks.late_named(quiet, ranks.ranks(quiet)) == {"TP0": 0.0, "TP1": None}
    spoken = launch(loud(tmp_path / "loud").both(start_lines=armed(0, 1)).build(), Arm.CONTROL)
    assert ranks.late_named(spoken, ranks.ranks(spoken)) == {"TP0": 0.0, "TP1": 0.0}
    unarmed = launch(loud(tmp_path / "off").both(start_lines=(*armed(0), *kv(1, 1))).build(), Arm.CONTROL)
    assert ranks.late_named(unarmed, ranks.ranks(unarmed)) == {"TP0": 0.0, "TP1": None}


def test_compile_misses_are_counted_on_the_rank_that_prints_them(tmp_path: Path) -> None:
    start = (*kv(1, 1, 1), b12x(0, "miss", "a"), b12x(1, "disk-hit", "a"), *armed(0, 1, 2))
    bundle = Session(tmp_path).both(start_lines=start).candidate(late_lines=(b12x(1, "miss", "b"),)).build()
    candidate = launch(bundle, Arm.CANDIDATE)
    known = ranks.ranks(candidate)
    assert ranks.compile_misses(candidate, known) == {"TP0": 1.0, "TP1": 1.0, "TP2": None}
    assert ranks.late_compiles(candidate, known) == {"TP0": 0.0, "TP1": 1.0, "TP2": None}
    row = Judged.of(bundle).row(MISSES)
    assert figures(row) == ("1 (0-1)", "1 (1-1)")
    assert "not told by TP2" in row.reason


def test_a_slow_rank_shows_at_the_line_where_ranks_are_furthest_apart(tmp_path: Path) -> None:
    loads = tuple(worker(n, "Starting to load model /m...") for n in range(2))
    found = launch(Session(tmp_path).both(start_lines=(*loads, *kv(1, 1))).build(), Arm.CONTROL)
    begin = found.mark_ns("process started")
    assert begin is not None
    seconds = {("TP0", Kind.LOAD_BEGIN): 3, ("TP1", Kind.LOAD_BEGIN): 9, ("TP0", Kind.KV_MEMORY): 9.5}
    known, now = ranks.ranks(found), 0.0
    offsets, times = [], []
    for event in found.log:
        now = max(now, seconds.get((known.of(event) or "", event.kind), now))
        offsets.append(event.end_offset)
        times.append(begin + round(now * 1e9))
    slow = replace(found, clock=LogClock(offsets, times))
    assert ranks.started_s(slow, known) == {"TP0": 3.0, "TP1": 9.0}


# --- CPU time of each rank's process ------------------------------------------------------------------


def busy(found: LaunchEvidence, cores: dict[str, float], *, begin: float = -1.0, end: float = 1.0) -> None:
    """Samples of processes that use so many cores, from before the first timed pass to after the last one."""
    timed = [w.window for w in found.windows if w.window.step in ranks.TIMED]
    first, last = min(w.begin_ns for w in timed) + round(begin * 1e9), max(w.end_ns for w in timed) + round(end * 1e9)
    rows = [[t, p, MIB, None, round(n * (t - first))] for t in (first, last) for p, n in cores.items()]
    found.folder.host_samples_file.unlink()
    found.folder.host_samples_file.with_suffix(".journal").write_text("".join(f"{json.dumps(r)}\n" for r in rows))


def timed_s(found: LaunchEvidence) -> float:
    return sum(w.window.end_ns - w.window.begin_ns for w in found.windows if w.window.step in ranks.TIMED) / 1e9


FULL, HALF_OF_IT = "VLLM::Worker_TP0:55", "VLLM::Worker_TP1:56"


def test_cpu_time_is_that_of_each_rank_in_the_timed_passes(tmp_path: Path) -> None:
    found = launch(Session(tmp_path).both(start_lines=kv(1, 1)).build(), Arm.CONTROL)
    busy(found, {FULL: 1.0, HALF_OF_IT: 0.5, "vllm:7": 9.0})
    known, seconds = ranks.ranks(found), timed_s(found)
    assert ranks.cpu_s(found, known) == pytest.approx({"TP0": seconds, "TP1": seconds / 2}, rel=1e-6)
    assert ranks.core_share(found, known) == pytest.approx({"TP0": 100, "TP1": 50}, rel=1e-6)


def test_a_child_that_has_still_the_ranks_title_does_not_hide_it(tmp_path: Path) -> None:
    found = launch(Session(tmp_path).both(start_lines=kv(1, 1)).build(), Arm.CONTROL)
    busy(found, {FULL: 1.0, HALF_OF_IT: 0.5, "VLLM::Worker_TP0:99": 0.01})
    assert ranks.core_share(found, ranks.ranks(found))["TP0"] == pytest.approx(100, rel=1e-6)


@pytest.mark.parametrize(("begin", "end"), [(0.001, 1.0), (-1.0, -0.001)], ids=["begins late", "ends early"])
def test_cpu_time_of_passes_that_samples_do_not_cover_is_not_told(tmp_path: Path, begin: float, end: float) -> None:
    found = launch(Session(tmp_path).both(start_lines=kv(1, 1)).build(), Arm.CONTROL)
    busy(found, {FULL: 1.0, HALF_OF_IT: 0.5}, begin=begin, end=end)
    assert ranks.cpu_s(found, ranks.ranks(found)) == {"TP0": None, "TP1": None}
    assert ranks.core_share(found, ranks.ranks(found)) == {"TP0": None, "TP1": None}


def test_the_rank_with_the_least_cpu_time_is_shown_with_the_range_and_gates_nothing(tmp_path: Path) -> None:
    bundle = Session(tmp_path).both(start_lines=kv(1, 1)).build()
    control, candidate = launch(bundle, Arm.CONTROL), launch(bundle, Arm.CANDIDATE)
    busy(control, {FULL: 1.0, HALF_OF_IT: 1.0})
    busy(candidate, {FULL: 1.0, HALF_OF_IT: 0.5})
    row = Judged.of(bundle).row("CPU time by rank")
    one, two = f"{timed_s(candidate) / 2:,.2f}", f"{timed_s(candidate):,.2f}"
    assert (row.word, row.unit, row.candidate) == (Word.NOT_TESTED, "s/rank", f"{one} ({one}-{two})")
    assert "CPU time of the rank in the measured windows" in row.reason
    assert "worst of the candidate: TP1 in" in row.reason
    assert row.reason.endswith("; no gate")
    assert all(source.endswith("/host.parquet") for source in row.sources)


def test_samples_of_a_harness_that_read_no_cpu_time_tell_none(tmp_path: Path) -> None:
    bundle = Session(tmp_path).both(start_lines=kv(1, 1)).build()
    for arm in Arm:
        found = launch(bundle, arm)
        times = [m.mono_ns for m in found.marks]
        sampled(found.folder, *((t, process, 10, 9) for t in times for process in (FULL, HALF_OF_IT)))
        assert ranks.cpu_s(found, ranks.ranks(found)) == {"TP0": None, "TP1": None}
    row = Judged.of(bundle).row("CPU time by rank")
    assert (row.word, *figures(row)) == (Word.NOT_TESTED, None, None)
    assert Judged.of(bundle).row("host memory by rank").control is not None


# --- ranks of more than one parallelism ---------------------------------------------------------------

DCP = ("TP0 DCP0", "TP1 DCP1")
ONE, TWO = "VLLM::Worker_TP0_DCP0:8926", "VLLM::Worker_TP1_DCP1:8927"
ENDS = ((1, "VLLM::Worker", 10), (3, "VLLM::Worker_TP", 0))
"""Before they have a place, and as zombies, which keep 15 characters of a title and no memory."""


def named(names: tuple[str, ...]) -> tuple[str, ...]:
    """A line of each, as vLLM 0.25.1 wrote them on two H200s."""
    text = "Kernel JIT monitor activated; monitored JIT compilations during inference will use mode=warn."
    form = "(Worker_{} pid={}) INFO 11-30 08:51:31 [jit_monitor.py:73] " + text
    return tuple(form.format(name.replace(" ", "_"), 410 + n) for n, name in enumerate(names))


def test_ranks_that_share_a_context_have_their_processes_cpu_time_and_memory(tmp_path: Path) -> None:
    found = launch(Session(tmp_path).both(start_lines=named(DCP)).build(), Arm.CONTROL)
    busy(found, {ONE: 1.0, TWO: 0.5})
    assert ranks.core_share(found, ranks.ranks(found)) == pytest.approx({DCP[0]: 100, DCP[1]: 50}, rel=1e-6)
    found = launch(Session(tmp_path / "memory").both(start_lines=named(DCP)).build(), Arm.CONTROL)
    early, ended = ([(t, f"{title}:{pid}", mib, None) for pid in (8926, 8927)] for t, title, mib in ENDS)
    sampled(found.folder, *early, (2, ONE, 500, 450), (2, TWO, 700, 650), *ended)
    known = ranks.ranks(found)
    assert ranks.host_mib(found, known, lambda s: s.last_before(3)) == {DCP[0]: 450, DCP[1]: 650}
    assert ranks.host_mib(found, known, lambda s: s.last_before(2), "RSS") == {DCP[0]: 500, DCP[1]: 700}


def test_ranks_that_share_a_context_are_told_by_their_lines_and_by_torchs_number(tmp_path: Path) -> None:
    known = ranks.ranks(launch(Session(tmp_path).both(start_lines=named(DCP)).build(), Arm.CONTROL))
    assert (known.names, known.by_pid) == (DCP, {410: DCP[0], 411: DCP[1]})
    assert [known.of_trace(traced(pid=n, rank=n)) for n in (0, 1, 2)] == [*DCP, None]
    assert known.of_trace(traced(pid=411, rank=0)) == DCP[1], "the process is the better witness"


def test_torchs_number_is_no_place_in_a_pipeline(tmp_path: Path) -> None:
    names = tuple(f"PP{pp} TP{tp} EP{tp}" for pp in (0, 1) for tp in (0, 1))
    known = ranks.ranks(launch(Session(tmp_path).both(start_lines=named(names)).build(), Arm.CONTROL))
    assert known.names == names
    assert [known.of_trace(traced(pid=410 + n, rank=None)) for n in range(4)] == list(names)
    assert known.of_trace(traced(pid=1, rank=2)) is None


# --- memory of each rank's process -------------------------------------------------------------------


def sampled(folder: LaunchDir, *samples: tuple[int, str, int, int | None]) -> None:
    """What the sampler wrote before the harness was killed; time, process, RSS and PSS in MiB."""
    folder.host_samples_file.unlink()
    rows = [[t, process, rss * MIB, None if pss is None else pss * MIB] for t, process, rss, pss in samples]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    folder.host_samples_file.with_suffix(".journal").write_text(text, "utf-8")


def test_a_process_is_its_rank_by_its_title_and_by_the_pid_that_the_log_names(tmp_path: Path) -> None:
    found = launch(Session(tmp_path).both(start_lines=kv(1, 1)).build(), Arm.CONTROL)
    worker_0, worker_1, early = "VLLM::Worker_TP0:55", "VLLM::Worker_TP:101", "VLLM::Worker:55"
    sampled(found.folder, (1, early, 10, 9), (2, worker_0, 500, 450), (2, worker_1, 700, 650), (2, "vllm:7", 90, 80))
    known = ranks.ranks(found)
    assert ranks.host_mib(found, known, lambda s: s.last_before(2)) == {"TP0": 450, "TP1": 650}
    assert ranks.host_mib(found, known, lambda s: s.last_before(2), "RSS") == {"TP0": 500, "TP1": 700}


@pytest.mark.parametrize("child", [9, 99], ids=["a smaller pid", "a greater pid"])
def test_a_child_that_bears_the_ranks_title_does_not_replace_its_memory(tmp_path: Path, child: int) -> None:
    """The rank was there first, in a container too, where the log's pids are of no help."""
    found = launch(Session(tmp_path).both(start_lines=kv(1, 1)).build(), Arm.CONTROL)
    rank, forked = "VLLM::Worker_TP1:55", f"VLLM::Worker_TP1:{child}"
    sampled(found.folder, (1, rank, 500, 450), (2, rank, 500, 225), (2, forked, 400, 225), (3, rank, 700, 650))
    known = ranks.ranks(found)
    assert ranks.host_mib(found, known, lambda s: s.last_before(3))["TP1"] == 650
    assert ranks.host_mib(found, known, lambda s: s.peak(1, 3), "RSS")["TP1"] == 700
    assert ranks.cpu_s(found, known)["TP1"] is None


def test_in_a_container_a_pid_of_the_log_is_somebody_elses(tmp_path: Path) -> None:
    found = launch(Session(tmp_path).both(start_lines=kv(1, 1)).build(), Arm.CONTROL)
    assert found.record is not None
    inside = replace(found, record=found.record.model_copy(update={"container": object()}))
    sampled(found.folder, (2, "somebody:100", 500, 450), (2, "VLLM::Worker_TP1:9", 700, 650))
    known = ranks.ranks(inside)
    assert ranks.host_mib(inside, known, lambda s: s.last_before(2)) == {"TP0": None, "TP1": 650}


@pytest.mark.parametrize("process", ["", ":", ":x", "a:-1", "a:99999999999999", "²:²"])
def test_what_is_no_process_has_no_memory(tmp_path: Path, process: str) -> None:
    found = launch(Session(tmp_path).build(), Arm.CONTROL)
    sampled(found.folder, (1, process, 10, 9), (2, ":1", 10, 9))
    assert [(p.pid, p.name, p.pss.mib) for p in process_readings(found.folder)] == [(1, "", (9.0,))]


def test_a_name_that_lost_its_end_does_not_replace_the_whole_one(tmp_path: Path) -> None:
    found = launch(Session(tmp_path).build(), Arm.CONTROL)
    series = ("VLLM::Worker:5", "VLLM::Worker_TP3:5", "VLLM::Worker_TP:5")
    sampled(found.folder, *((n, name, 10 + n, None) for n, name in enumerate(series)))
    [process] = process_readings(found.folder)
    assert (process.name, process.rss.mib, process.pss.mib) == ("VLLM::Worker_TP3", (10.0, 11.0, 12.0), ())
