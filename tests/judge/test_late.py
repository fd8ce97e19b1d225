"""From when on a kernel is late, in which phase an event stands, and what the ledger's other sources show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.evidence.bundle import Bundle, write_json
from harness.judge.case import read_case
from harness.judge.late import BETWEEN, SIZING, STOPPING, TO_READY, Course, WallClock, late_from
from harness.judge.read import LaunchEvidence, read_launch
from harness.observe.jit.ledger import Ledger, Source
from harness.observe.log import Kind
from harness.observe.phases import HEALTHY, PROCESS
from harness.records import Mark
from harness.words import Word

from .bundles import Session

COMPILES = "late compiles (caches)"
B12X = "[b12x cute.compile] {} reason=post-engine-start target=b12x.mla.UnifiedPrefillMGKernel status=x cache_key=1"


def candidate(folder: Path, **does: Any) -> LaunchEvidence:
    bundle = Session(folder).candidate(**does).build()
    return read_launch(bundle.launch(_id(bundle)))


def _id(bundle: Bundle) -> str:
    return next(x.id for x in bundle.plan().launches if x.arm == "candidate")


def ledger(folder: Path, **does: Any) -> Ledger:
    bundle = Session(folder).candidate(**does).build()
    return read_case(bundle).ledgers[_id(bundle)]


# --- from when on -----------------------------------------------------------------------------------


def test_it_is_the_monitors_arming_where_there_is_a_monitor(tmp_path: Path) -> None:
    launch = candidate(tmp_path, armed=True)
    since, [armed] = late_from(launch), launch.of_kind(Kind.JIT_ARMED)
    assert since.since == "the monitor was armed"
    assert since.time_ns == launch.clock.at(armed.end_offset)


def test_it_is_kv_sizing_where_there_is_none(tmp_path: Path) -> None:
    launch = candidate(tmp_path)
    since, [sized] = late_from(launch), launch.of_kind(Kind.KV_TOKENS)
    assert since.since == "KV sizing, as there is no monitor"
    assert since.time_ns == launch.clock.at(sized.end_offset)
    healthy = launch.mark_ns(HEALTHY)
    assert healthy
    assert since.is_late(healthy - 1), "what is compiled between KV sizing and /health is late too"


def test_it_is_health_where_the_log_shows_neither(tmp_path: Path) -> None:
    launch = candidate(tmp_path, kv_log=0)
    since = late_from(launch)
    assert (since.time_ns, "/health" in since.since) == (launch.mark_ns(HEALTHY), True)


def test_nothing_is_late_in_a_launch_that_never_came_so_far(tmp_path: Path) -> None:
    since = late_from(candidate(tmp_path, stage="health"))
    assert (since.time_ns, since.is_late(1 << 62)) == (None, False)


def test_an_event_without_a_time_is_not_called_late(tmp_path: Path) -> None:
    assert not late_from(candidate(tmp_path)).is_late(None)


# --- phases -----------------------------------------------------------------------------------------


def test_every_moment_has_its_phase(tmp_path: Path) -> None:
    launch = candidate(tmp_path)
    course, [sized] = Course(launch), launch.of_kind(Kind.KV_TOKENS)
    sized_ns, ready = launch.clock.at(sized.end_offset), launch.ready_ns
    assert sized_ns
    assert ready
    moments = {
        launch.mark_ns(PROCESS): SIZING,
        sized_ns: SIZING,
        sized_ns + 1: TO_READY,
        ready + 1: BETWEEN,
        launch.mark_ns("stop asked"): STOPPING,
        None: "unknown time",
    }
    assert {t: course.phase(t) for t in moments} == moments
    for window in launch.windows:
        step = f"{window.window.step} {window.window.context_tokens or ''}".strip()
        assert course.phase(window.window.begin_ns) == step
    assert course.phase(launch.windows[0].window.begin_ns) == "readiness", "a phase of its own"


def test_a_moment_knows_the_request_in_flight(tmp_path: Path) -> None:
    launch = candidate(tmp_path)
    [request] = launch.windows[1].requests
    course = Course(launch)
    assert course.requests(request.begin_ns, request.begin_ns) == (request.request,)
    assert course.requests(request.begin_ns - 10**9, request.begin_ns)[-1] == request.request
    assert course.requests(None, None) == ()


def test_a_files_time_is_put_on_the_launchs_clock() -> None:
    def mark(mono_ns: int, wall: str) -> Mark:
        return Mark(mark="m", mono_ns=mono_ns, wall=wall, source="test")

    # Between the two the clock was set by an hour.
    marks = [mark(5_000, "1970-01-01T00:00:01.000+00:00"), mark(2_000_005_000, "1970-01-01T01:00:03.000+00:00")]
    clock = WallClock(marks)
    assert clock.monotonic_ns(1_000_000_200) == 5_200
    assert clock.monotonic_ns(3_603_000_000_300) == 2_000_005_300
    assert clock.monotonic_ns(None) is None
    assert WallClock([]).monotonic_ns(1) is None
    assert WallClock([mark(1, "")]).monotonic_ns(1) is None


# --- compilers' lines -------------------------------------------------------------------------------


@pytest.mark.parametrize(("armed", "word"), [(True, Word.PASS), (False, Word.FAIL)])
def test_what_is_compiled_after_kv_sizing_is_late_unless_the_monitor_was_armed_later(
    tmp_path: Path, armed: bool, word: Word
) -> None:
    session = Session(tmp_path).both(armed=armed).candidate(start_lines=(B12X.format("miss"),))
    row = session.judge().row(COMPILES)
    assert row.word is word
    if not armed:
        assert (row.candidate or "").startswith("1 compiled (1 in start-up, ")


@pytest.mark.parametrize(
    ("outcome", "word", "text"),
    [
        ("miss", Word.FAIL, "1 compiled (1 in first-prompt 96), 0 loaded, 0 new files"),
        ("disk-hit", Word.WARN, "0 compiled, 1 loaded, 0 new files"),
        ("disk-hit-after-wait", Word.WARN, "0 compiled, 1 loaded, 0 new files"),
    ],
)
@pytest.mark.parametrize("library", ["b12x", "sparkinfer"])
def test_lines_of_the_kernel_library_count(tmp_path: Path, outcome: str, word: Word, text: str, library: str) -> None:
    line = B12X.format(outcome).replace("[b12x", f"[{library}")
    row = Session(tmp_path).candidate(late_lines=(line,)).judge().row(COMPILES)
    assert (row.word, row.candidate) == (word, text)


def test_the_ledger_names_the_kernel_of_such_a_line(tmp_path: Path) -> None:
    found = ledger(tmp_path, late_lines=(B12X.format("miss"),))
    [line] = found.late(Source.COMPILES)
    assert (line.what, line.kernel, line.phase) == ("compiled", "b12x.mla.UnifiedPrefillMGKernel", "first-prompt 96")


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ("{'ranks': 4, 'gated': True, 'mode': 'a, b', 'order': (1, 0)}", "ranks=4 gated=True mode='a, b' order=(1, 0)"),
        ("{'ranks': 4, 'output_str...", "ranks=4"),
        ('{} spec_hash=1 spec={"facts":[["field","arg0",1536]],"kernel":"k"}', "arg0=1536"),
        ("{}", ""),
    ],
    ids=["whole", "cut", "by-its-key", "none"],
)
def test_what_the_kernels_object_holds_is_what_it_is_specialised_for(
    tmp_path: Path, attributes: str, told: str
) -> None:
    [line] = ledger(tmp_path, late_lines=(f"{B12X.format('miss')} attrs={attributes} spec_hash=1",)).late(
        Source.COMPILES
    )
    assert line.specialisation == told


def test_two_specialisations_of_a_kernel_are_two_lines(tmp_path: Path) -> None:
    lines = [f"{B12X.format('miss')} attrs={{'ranks': {n}}} spec_hash={n}" for n in (1, 4, 4)]
    found = ledger(tmp_path, late_lines=tuple(lines)).late(Source.COMPILES)
    assert [(line.specialisation, line.count) for line in found] == [("ranks=1", 1), ("ranks=4", 2)]


def test_a_compilation_that_tells_its_progress_is_one_compilation(tmp_path: Path) -> None:
    of_it = "target=b12x.mla.UnifiedPrefillMGKernel cache_key=1"
    took = f"number=1 duration_s=0.123 total_compile_s=0.123 {of_it}"
    lines = (
        B12X.format("miss"),
        "[b12x cute.compile] python_stack (most recent call last):",
        '  File "/x/b12x/mla.py", line 1, in run',
        f"[b12x cute.compile] compile-start number=1 {of_it}",
        f"[b12x cute.compile] compile-done {took}",
    )
    [line] = ledger(tmp_path / "done", late_lines=lines).late(Source.COMPILES)
    assert (line.what, line.kernel, line.count) == ("compiled", "b12x.mla.UnifiedPrefillMGKernel", 1)
    failed = (lines[0], lines[3], f"[b12x cute.compile] compile-failed {took} error=ValueError: x")
    row = Session(tmp_path / "failed").candidate(late_lines=failed).judge().row(COMPILES)
    assert str(row.candidate).startswith("1 compiled (")


def test_a_miss_before_the_monitor_was_armed_is_not_late(tmp_path: Path) -> None:
    early = B12X.format("miss").replace(" reason=post-engine-start", "")
    row = Session(tmp_path).candidate(armed=True, start_lines=(early,)).judge().row(COMPILES)
    assert row.candidate == "0 compiled, 0 loaded, 0 new files"
    [line] = [x for x in ledger(tmp_path / "a", armed=True, start_lines=(early,)).lines if x.kernel]
    assert (line.what, line.late) == ("compiled", False)


def test_the_monitors_lines_name_kernel_phase_and_constants(tmp_path: Path) -> None:
    kernel = "_topk_kernel (constexprs={BLOCK=1024, SIZE=4}; signature={x=*fp32}; key=1)"
    found = ledger(tmp_path, armed=True, late_kernels=(kernel,))
    [line] = found.late(Source.MONITOR)
    assert (line.kernel, line.specialisation, line.phase) == ("_topk_kernel", "BLOCK=1024 SIZE=4", "first-prompt 96")
    assert (found.monitor, found.tracer, found.late_from) == ("armed", "not traced", "the monitor was armed")


def test_a_monitor_that_is_not_armed_is_called_so(tmp_path: Path) -> None:
    assert ledger(tmp_path).monitor == "not armed"


# --- cache folders ----------------------------------------------------------------------------------


def with_files(folder: Path, *stages: tuple[str, dict[str, Any]]) -> tuple[Bundle, str]:
    """A bundle whose candidate has these listings; times count from its process's start, in seconds."""
    bundle = Session(folder).build()
    launch = bundle.launch(_id(bundle))
    began = read_launch(launch).mark_ns(PROCESS)
    assert began
    mark = Mark(mark="x", mono_ns=began, wall="2026-11-18T10:26:40.000+00:00", source="test")
    with launch.timeline_file.open("a") as stream:
        stream.write(mark.model_dump_json() + "\n")
    begin_ns = 1_794_997_600 * 10**9
    listings = {s: {p: [1, begin_ns + int(t * 1e9)] for p, t in files.items()} for s, files in stages}
    write_json(launch.caches_file, listings)
    return bundle, launch.id


def test_a_new_file_stands_in_the_phase_that_it_was_written_in(tmp_path: Path) -> None:
    early, late = {"triton/a/warm.cubin": 1.0}, {"triton/b/late.cubin": 10.9}
    bundle, launch = with_files(tmp_path, ("start", {}), ("ready", early), ("end", early | late))
    lines = read_case(bundle).ledgers[launch].lines
    found = [(x.kernel, x.phase, x.late) for x in lines if "files in triton" in x.what]
    assert found[0] == ("warm", SIZING, False)
    assert (found[1][0], found[1][2]) == ("late", True)


def test_a_file_that_is_gone_by_the_end_is_found_after_the_first_prompt(tmp_path: Path) -> None:
    gone = {"cute-dsl/x": 10.9}
    bundle, launch = with_files(tmp_path, ("start", {}), ("ready", {}), ("after first-prompt 96", gone), ("end", {}))
    [line] = [x for x in read_case(bundle).ledgers[launch].lines if "files" in x.what]
    assert (line.what, line.late) == ("new files in cute-dsl", True)
    assert line.place.endswith("caches.json: after first-prompt 96: cute-dsl/x")


def test_a_listing_of_an_older_bundle_has_no_times_and_is_read(tmp_path: Path) -> None:
    found = ledger(tmp_path, late_files=2)
    lines = [x for x in found.lines if x.what == "new files in triton"]
    assert [(x.phase, x.late, x.count) for x in lines] == [("unknown time", False, 2)]


# --- first against second, and memory ---------------------------------------------------------------


def test_the_first_prompt_stands_beside_a_later_one_of_its_length(tmp_path: Path) -> None:
    for shape in ledger(tmp_path).first_second:
        assert shape.first_s == pytest.approx(shape.second_s, rel=0.01)
        assert shape.extra_s == pytest.approx(0, abs=0.01)
    assert [s.context_tokens for s in ledger(tmp_path / "2").first_second] == [48, 96]


def test_without_a_later_prompt_nothing_is_said(tmp_path: Path) -> None:
    shapes = ledger(tmp_path, ends_after=1).first_second
    assert [(s.context_tokens, s.second_s, s.extra_s) for s in shapes] == [(48, None, None)]


def test_the_memory_of_the_first_prompt_says_whose_it_is(tmp_path: Path) -> None:
    memory = ledger(tmp_path).memory
    assert [(m.context_tokens, m.kept_mib) for m in memory] == [(48, 0), (96, 0)]
    assert {m.of for m in memory} == {"resident memory of the server's processes on the host"}
