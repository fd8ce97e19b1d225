"""One escalation: two pairs more where the first look is inconclusive, and only by that rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import SetupFailure
from harness.evidence.bundle import Bundle, write_record
from harness.judge.case import read_case
from harness.judge.looks import first_look
from harness.records.statistics import Look
from harness.session.conductor import Conductor, NotNeeded
from harness.words import Warmup, Word

from .bundles import WARM, Judged, Session

TWO_LOOKS: dict[str, object] = {"plan.pairs": 2, "plan.escalate_by": 2, "plan.caches": ["warm"]}
OPEN = (0.90, 1.05)
"""Speeds of two pairs that leave the question open."""


def session(root: Path, *speeds: float, **overrides: object) -> Session:
    """A session of so many warm pairs; those of the second look did not run unless they have a speed."""
    made = Session(root, TWO_LOOKS | overrides)
    for pair, speed in enumerate(speeds):
        made.candidate(where=WARM | {"pair": pair}, speed=speed)
    if len(speeds) <= 2:
        made.both(where={"look": 2}, begins=False)
    return made


def decided(bundle: Bundle, *, goes_on: bool | None = None) -> Bundle:
    """With the decision that its evidence gives, or another one."""
    look = first_look(bundle, "mtp1")
    write_record(bundle.look_file("mtp1"), look if goes_on is None else look.model_copy(update={"goes_on": goes_on}))
    return bundle


def test_a_conclusive_session_is_complete_without_its_second_look(tmp_path: Path) -> None:
    bundle = decided(session(tmp_path, 1.0, 1.0).build())
    judged = Judged.of(bundle)
    row = judged.row("second look")
    assert (row.word, row.control) == (Word.PASS, "0 of 4 launches")
    assert row.reason == "not needed: no primary metric was inconclusive after the first pairs"
    assert judged.row("session complete").word is Word.PASS
    assert judged.row("decode steps", cache="warm", context_tokens=96).word is Word.PASS
    assert len(read_case(bundle).launches) == 6
    assert judged.verdict.verdict is Word.PASS


def test_an_inconclusive_first_look_asks_for_the_second_and_names_why(tmp_path: Path) -> None:
    bundle = session(tmp_path, *OPEN).build()
    found = first_look(bundle, "mtp1")
    assert found.goes_on
    assert "mtp1 engine warm decode steps 96" in found.inconclusive
    judged = Judged.of(decided(session(tmp_path / "both", *OPEN, 1.0, 1.0).build()))
    assert judged.row("second look").word is Word.PASS
    assert judged.row("second look").control == "4 of 4 launches"
    steps = judged.row("decode steps", cache="warm", context_tokens=96).tested
    assert steps is not None
    assert (steps.pairs, steps.confidence_pct) == (4, 94)


def test_the_first_look_does_not_see_the_second(tmp_path: Path) -> None:
    early, late = (session(tmp_path / n, *speeds).build() for n, speeds in (("a", OPEN), ("b", (*OPEN, 0.5, 0.5))))
    assert first_look(early, "mtp1") == first_look(late, "mtp1")


def test_launches_that_were_asked_for_and_did_not_run_are_missing(tmp_path: Path) -> None:
    judged = Judged.of(decided(session(tmp_path, *OPEN).build()))
    assert judged.row("session complete").word is Word.VOID
    assert judged.verdict.verdict is Word.VOID


def test_a_session_that_went_on_against_its_rule_is_void(tmp_path: Path) -> None:
    """Going on because one does not like the answer is how a false pass is made."""
    bundle = decided(session(tmp_path, 1.0, 1.0, 1.0, 1.0).build(), goes_on=True)
    judged = Judged.of(bundle)
    assert judged.row("second look").word is Word.VOID
    assert "ran although the first look was conclusive" in judged.row("second look").reason
    assert judged.verdict.verdict is Word.VOID


def test_a_session_that_stopped_against_its_rule_is_void(tmp_path: Path) -> None:
    judged = Judged.of(decided(session(tmp_path, *OPEN).build(), goes_on=False))
    assert judged.row("second look").word is Word.VOID
    assert "does not say what the evidence of the first look says" in judged.row("second look").reason


def test_a_session_that_ended_before_its_first_look_says_so(tmp_path: Path) -> None:
    judged = Judged.of(session(tmp_path, 1.0, 1.0).build())
    assert (judged.row("second look").word, judged.row("session complete").word) == (Word.NOT_TESTED, Word.PASS)


def test_a_plan_with_one_look_has_no_row_for_another(tmp_path: Path) -> None:
    assert not Session(tmp_path, TWO_LOOKS | {"plan.escalate_by": 0}).judge().rows("second look")


@pytest.mark.parametrize("goes_on", [True, False])
def test_the_conductor_decides_once_per_mode_and_writes_it_down_first(tmp_path: Path, *, goes_on: bool) -> None:
    asked: list[str] = []

    def look(_: Bundle, mode: str) -> Look:
        asked.append(mode)
        return Look(mode=mode, goes_on=goes_on, inconclusive=("x",) if goes_on else ())

    bundle = session(tmp_path, 1.0, 1.0, 1.0, 1.0, **{"plan.warmups": ["engine", "primed"]}).build()
    conductor = Conductor(bundle, {}, look)
    second = [x for x in conductor.plan.launches if x.look == 2]
    assert {x.warmup for x in second} == {Warmup.ENGINE, Warmup.PRIMED}
    for launch in second:
        # It has a record already, so going on ends at the next hurdle: that it has run.
        with pytest.raises(
            SetupFailure if goes_on else NotNeeded, match="has run already" if goes_on else "no primary"
        ):
            conductor.enter(launch)
    conductor.close(None)
    assert asked == ["mtp1"]
    assert bundle.look_file("mtp1").is_file()
