"""Nights as a timer starts them: against the anchor, once per date, missed and aborted ones caught up with."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from pathlib import Path

import pytest

from harness.evidence.bundle import Bundle
from harness.evidence.manifest import root_hash
from harness.history.freezing import freeze
from harness.history.importing import opened
from harness.judge.case import read_case
from harness.judge.cell_identity import identity_sha256, planned_identity
from harness.judge.verdict import judge
from harness.records import Plan, Row
from harness.records.history import Calibration, Night, Point
from harness.words import Arm, Cache, ExitCode, Word

from .sessions import Finished, fake_profile, left_running, run, stack, start, wait_for

PROGRAM = ("-m", "harness.cli")


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """One short context, and margins that no machine is busy enough to cross."""
    path = fake_profile(tmp_path)
    text = path.read_text("utf-8").replace('caches = ["cold"]', 'caches = ["warm"]')
    head, _, tail = text.partition("contexts = [")
    _, _, tail = tail.partition("\n]\n")
    gates = "\n[gates]\nthroughput_pct = 1e30\nsteps_pct = 1e30\nstartup_pct = 1e30\n[nightly]\npairs = 2\n"
    path.write_text(f"{head}contexts = [{{ prompt_tokens = 64 }}]\n{tail}{gates}", "utf-8")
    return str(path)


def nightly(results: Path, profile: str, date: str, *arguments: str) -> Finished:
    return run(results, "nightly", "--profile", profile, "--night", date, *arguments, program=PROGRAM, timeout_s=240)


def sessions(results: Path) -> list[Bundle]:
    return [Bundle(p.parent) for p in sorted(results.glob("2*/plan.json"))]


def test_a_night_without_an_anchor_a_second_start_and_a_night_against_the_anchor(
    results: Path, profile: str, tmp_path: Path
) -> None:
    hook = tmp_path / "hook.py"
    got = tmp_path / "got.txt"
    hook.write_text(f"import sys, pathlib\npathlib.Path({str(got)!r}).write_text(sys.stdin.read())\n", "utf-8")
    summary = tmp_path / "summary.json"
    telling = ("--summary", str(summary), "--hook", f"{sys.executable} {hook}", "--hook", "/no/such/hook")

    # The first night has no anchor, and says so. Its pairs are those of [nightly].
    first = nightly(results, profile, "2026-11-01", *telling)
    assert first.code == ExitCode.PASS, first.out
    one = first.bundle
    assert "against the control of the profile, as-is: no anchor was accepted yet" in first.out
    assert "hook `/no/such/hook`: cannot be run" in first.out
    plan: Plan = one.plan()
    assert plan.night is not None
    assert (plan.night.date, plan.night.anchor, plan.profile.plan.pairs) == ("2026-11-01", None, 2)
    assert json.loads(summary.read_bytes())["exit_code"] == 0
    assert got.read_text("utf-8").startswith("fake, night of 2026-11-01: pass (exit code 0)\n")
    assert len(got.read_text("utf-8").splitlines()) <= 20
    assert root_hash(one.root) == one.verdict().evidence_root_sha256, "what was said is in the evidence"

    # A second start of the same night does nothing, and keeps the night's exit code.
    got.unlink()
    second = nightly(results, profile, "2026-11-01", *telling)
    assert second.code == ExitCode.PASS
    assert f"night 2026-11-01 has a finished session, {one.root.name} (pass)" in second.out
    assert len(sessions(results)) == 1
    assert not got.exists(), "a mail was sent already"

    # Its candidate becomes the anchor; the next night is measured against that.
    done = run(results, "history", "accept", one.root.name, "--reason", "release 1", "--by", "us", program=PROGRAM)
    assert done.code == ExitCode.PASS, done.out
    third = nightly(results, profile, "2026-11-02")
    assert third.code == ExitCode.PASS, third.out
    assert f"against anchor 1: as-is of {one.root.name}, accepted " in third.out
    assert "(release 1)" in third.out
    plan = third.bundle.plan()
    assert plan.night is not None
    assert plan.night.anchor_session == one.root.name
    points = next(s.points for s in plan.night.series if s.name == "start-up")
    assert [p.session for p in points] == [one.root.name]
    assert [r.word for r in third.rows("nights, start-up")] == [Word.NOT_TESTED]
    assert third.row("nights, start-up").reason.startswith("2 nights against this anchor, change points need 5")
    assert plan.history, "noise of the first night was pooled"
    assert plan.history[0].sources == (root_hash(one.root),)


def test_missed_nights_are_no_matter_and_an_aborted_one_is_run_again(results: Path, profile: str) -> None:
    once = ("--pairs", "1")
    first = nightly(results, profile, "2026-11-01", *once)
    assert first.code == ExitCode.PASS, first.out

    process = start(results, "nightly", "--profile", profile, "--night", "2026-11-04", *once, program=PROGRAM)
    wait_for(lambda: len(sessions(results)) == 2 and bool(left_running(results)), 120)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == ExitCode.VOID, out
    again = nightly(results, profile, "2026-11-04", *once)
    assert again.code == ExitCode.PASS, again.out
    fourth = again.bundle
    assert len(sessions(results)) == 3
    with opened() as index:
        found = index.sql.execute("SELECT night, verdict FROM sessions ORDER BY started_wall").fetchall()
    assert [tuple(r) for r in found] == [("2026-11-01", "pass"), ("2026-11-04", "void"), ("2026-11-04", "pass")]
    points = series(again, "2026-11-05")
    assert [p.night for p in points] == ["2026-11-01", "2026-11-04"], "nights that were missed, or void, are no points"
    assert points[1].session == fourth.root.name

    # --again runs a night that is over once more; retention only says what it would do.
    more = nightly(results, profile, "2026-11-04", *once, "--again", "--set", "nightly.keep=1")
    assert more.code == ExitCode.PASS, more.out
    assert len(sessions(results)) == 4
    assert f"would delete {fourth.root.name}: nothing refers to it (nightly.delete = true does it)" in more.out


def series(done: Finished, date: str) -> tuple[Point, ...]:
    """Nights of the start-up that a session of this date would be given."""
    locks = {arm: done.bundle.lock(arm) for arm in Arm}
    night = Night(date=date, anchor=None, anchor_session=None)
    plan, _ = freeze(done.bundle.plan(), done.bundle.run().host, locks, night=night)
    assert plan.night is not None
    return next(s.points for s in plan.night.series if s.name == "start-up")


LOST = Calibration(
    trusted=False, sessions=6, rows=60, alarms=12, low_pct=13, high_pct=30, lost_in="s", lost_at="12 of 60 rows"
)


def test_what_the_nights_together_say_is_judged_from_the_bundle_alone(
    results: Path, profile: str, tmp_path: Path
) -> None:
    """A night as it is, and with other nights before it: far enough from tonight that no busy machine matters."""
    quick = ("--pairs", "1", "--set", "nightly.smallest_change_pct=900")
    bundle = nightly(results, profile, "2026-11-20", *quick).bundle
    case = read_case(bundle)
    [cell] = [c for c in case.cells if c.cache is Cache.WARM]
    measured_in = identity_sha256(planned_identity(case, cell, None))  # a first night only hopes for warm caches

    def said(*before: float, calibration: Calibration | None = None) -> dict[str, Row]:
        points = tuple(
            Point(night=f"2026-11-{n:02d}", session=f"n{n}", root_sha256=f"{n:064x}", mean=mean, pairs=2, own_sd=1.0)
            for n, mean in enumerate(before, 1)
        )
        plan: Plan = bundle.plan()
        assert plan.night is not None
        [start_up] = [s for s in plan.night.series if s.name == "start-up"]
        before_tonight = start_up.model_copy(update={"points": points, "cell_sha256": measured_in})
        night = plan.night.model_copy(update={"series": (before_tonight,)})
        copy = tmp_path / "copy" / bundle.root.name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(bundle.root, copy)
        changed = plan.model_copy(update={"night": night, "calibration": calibration})
        Bundle(copy).plan_file.write_text(changed.model_dump_json(), "utf-8")
        return {r.name: r for r in judge(Bundle(copy)).rows}

    level, better = (0.0,), (50.0,)
    assert said(*level * 8)["nights, start-up"].word is Word.PASS

    row = said(*better * 7, *level)["nights, start-up"]
    assert (row.word, row.reason.partition(" (")[0]) == (Word.FAIL, "regressed: -100.0 % since 2026-11-08, 2 nights")

    row = said(*level * 5, *better * 5, *level)["nights, start-up"]
    assert row.word is Word.WARN, row
    assert row.reason.startswith("-100.0 % since 2026-11-11: an improvement over the anchor was lost")

    rows = said(*better * 7, *level, calibration=LOST)
    assert (rows["host calibration"].word, rows["host calibration"].control) == (Word.REFUSED, "12 of 60")
    assert rows["nights, start-up"].word is Word.REFUSED
    assert "would say fail: regressed: -100.0 % since 2026-11-08" in rows["nights, start-up"].reason


def test_a_night_that_fails_tells_its_hook_and_keeps_its_exit_code(results: Path, profile: str, tmp_path: Path) -> None:
    today = str(stack(tmp_path, "today", QUALIFY_FAKE_FAULTS="die-at-first-request"))
    got = tmp_path / "summary.txt"
    done = nightly(results, profile, "2026-11-01", "--pairs", "1", "--candidate", today, "--summary", str(got))
    assert done.code == ExitCode.FAIL, done.out
    assert got.read_text("utf-8").startswith("fake, night of 2026-11-01: fail (exit code 1)\ntoday against the control")
    assert nightly(results, profile, "2026-11-01", "--candidate", today).code == ExitCode.FAIL, (
        "still, and not run again"
    )
    assert len(sessions(results)) == 1


def test_a_night_that_cannot_begin_is_told_of_and_leaves_nothing(results: Path, profile: str, tmp_path: Path) -> None:
    got = tmp_path / "summary.txt"
    missing = ("--set", 'engine.command=["/no/such/vllm"]', "--summary", str(got))
    done = nightly(results, profile, "2026-11-01", *missing)
    assert done.code == ExitCode.SETUP_FAILURE
    assert "setup failure (exit code 3)" in got.read_text("utf-8")
    assert "/no/such/vllm is not installed" in got.read_text("utf-8")
    assert not sessions(results)


def test_a_date_is_written_as_one(results: Path, profile: str) -> None:
    done = nightly(results, profile, "yesterday")
    assert done.code == ExitCode.USAGE
    assert "--night yesterday: write a date as YYYY-MM-DD" in done.out


def test_a_session_without_history_neither_reads_nor_adds(results: Path, profile: str) -> None:
    quick = ("--profile", profile, "--caches", "cold", "--pairs", "1")
    done = run(results, *quick, "--no-history")
    assert done.code == ExitCode.PASS, done.out
    assert (done.bundle.plan().history, done.bundle.plan().calibration) == ((), None)
    with opened() as index:
        assert index.sql.execute("SELECT count(*) FROM sessions").fetchone()[0] == 0
