"""Where a session stands, read from the bundle while it is being written."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from harness.evidence.bundle import Bundle, append_record, write_json
from harness.records import Mark, Plan
from harness.session.plan import make_plan
from harness.session.progress import snapshot
from harness.words import Step
from tests.judge.bundles import small_profile, stack

S = 1_000_000_000


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Bundle(tmp_path)


def plan(**overrides: object) -> Plan:
    values = {"plan.caches": ["cold", "warm"]} | {k.replace("__", "."): v for k, v in overrides.items()}
    return make_plan("s", small_profile(values), stack("one"), stack("two"))


def ended(bundle: Bundle, launch: str, seconds: float, status: str = "completed") -> None:
    folder = bundle.launch(launch)
    folder.root.mkdir(parents=True)
    write_json(folder.record_file, {"status": status, "begin_ns": 5 * S, "end_ns": round((5 + seconds) * S)})


def running(
    bundle: Bundle, launch: str, begun_s_ago: float, *marks: tuple[str, float, Step | None, int | None]
) -> None:
    folder = bundle.launch(launch)
    folder.root.mkdir(parents=True)
    now = time.monotonic_ns()
    begin = now - round(begun_s_ago * S)
    write_json(folder.record_file, {"status": "interrupted", "begin_ns": begin, "end_ns": None})
    for name, ago_s, step, context in marks:
        mono_ns = now - round(ago_s * S)
        mark = Mark(mark=name, mono_ns=mono_ns, wall="", source="course", step=step, context_tokens=context)
        append_record(folder.timeline_file, mark)


def test_before_the_first_launch_the_plans_estimate_counts_down(bundle: Bundle) -> None:
    planned = plan()
    seen = snapshot(bundle, planned, elapsed_s=30)
    assert (seen.done, seen.failed, seen.total, seen.current) == (0, (), 4, ())
    assert seen.remaining_s == planned.estimate_s - 30
    assert snapshot(bundle, planned, elapsed_s=1e6).remaining_s == 0


def test_launches_that_have_ended_tell_how_long_the_others_take(bundle: Bundle) -> None:
    planned = plan()
    ended(bundle, planned.launches[0].id, 40)
    ended(bundle, planned.launches[1].id, 60, status="failed")
    seen = snapshot(bundle, planned, elapsed_s=101)
    assert (seen.done, seen.failed) == (2, (planned.launches[1].id,))
    assert seen.remaining_s == pytest.approx(2 * 50)


def test_the_estimate_falls_while_a_launch_runs(bundle: Bundle) -> None:
    planned = plan()
    ended(bundle, planned.launches[0].id, 60)
    running(bundle, planned.launches[1].id, 45)
    assert snapshot(bundle, planned, elapsed_s=105).remaining_s == pytest.approx(3 * 60 - 45, abs=2)


def test_a_launch_that_takes_longer_than_the_others_counts_as_nearly_done(bundle: Bundle) -> None:
    planned = plan()
    ended(bundle, planned.launches[0].id, 60)
    running(bundle, planned.launches[1].id, 500)
    assert snapshot(bundle, planned, elapsed_s=560).remaining_s == pytest.approx(2 * 60, abs=2)


def test_lanes_share_what_is_left(bundle: Bundle) -> None:
    planned = plan(host__lanes=2, plan__modes=["mtp0", "mtp1"])
    by_lane = {x.lane: x.id for x in planned.launches[::-1]}
    for launch in by_lane.values():
        ended(bundle, launch, 60)
    assert snapshot(bundle, planned, elapsed_s=61).remaining_s == pytest.approx(6 * 60 / 2)


@pytest.mark.parametrize(
    ("mark", "step", "context", "phase"),
    [
        ("process started", None, None, "starting"),
        ("health", None, None, "healthy"),
        ("model", None, None, "first request"),
        ("first request", None, None, "ready"),
        ("step begins", Step.PREFILL, 32_768, "prefill 32768"),
        ("step begins", Step.IDENTITY, None, "identity"),
        ("step ends", Step.IDENTITY, None, "between steps"),
        ("stop asked", None, None, "stopping"),
        ("stopped", None, None, "stopped"),
    ],
)
def test_the_last_mark_is_the_phase(
    bundle: Bundle, mark: str, step: Step | None, context: int | None, phase: str
) -> None:
    planned = plan()
    running(bundle, planned.launches[0].id, 10, ("process started", 10, None, None), (mark, 3, step, context))
    [current] = snapshot(bundle, planned, elapsed_s=10).current
    assert (current.launch, current.phase) == (planned.launches[0].id, phase)
    assert current.since_s == pytest.approx(3, abs=2)


def test_a_launch_without_a_mark_is_being_prepared(bundle: Bundle) -> None:
    planned = plan()
    bundle.launch(planned.launches[0].id).root.mkdir(parents=True)
    [current] = snapshot(bundle, planned, elapsed_s=1).current
    assert (current.phase, current.since_s) == ("preparing", 0.0)


@pytest.mark.parametrize("torn", [b"", b'{"status": "compl', b"\xff"])
def test_a_file_that_is_being_written_is_no_error(bundle: Bundle, torn: bytes) -> None:
    planned = plan()
    folder = bundle.launch(planned.launches[0].id)
    folder.root.mkdir(parents=True)
    folder.record_file.write_bytes(torn)
    folder.timeline_file.write_bytes(json.dumps({"mark": "health", "mono_ns": 1}).encode() + b"\n" + torn)
    seen = snapshot(bundle, planned, elapsed_s=1)
    assert (seen.done, len(seen.current)) == (0, 1)


def test_a_source_check_is_shown_while_it_runs(bundle: Bundle) -> None:
    for arm, name in (("control", "check.json"), ("candidate", "output.log")):
        folder = bundle.checks_dir / "types" / arm
        folder.mkdir(parents=True)
        (folder / name).write_text("", "utf-8")
    [current] = snapshot(bundle, plan(), elapsed_s=1).current
    assert (current.launch, current.phase) == ("source check types", "candidate")
    assert current.since_s >= 0
