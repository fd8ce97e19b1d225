"""A void pair is run once more, both stay, and only by that rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import SetupFailure
from harness.evidence.bundle import Bundle, write_record
from harness.judge.case import read_case
from harness.judge.reruns import judge_pair
from harness.records import PlannedLaunch
from harness.records.statistics import Rerun
from harness.session.conductor import Conductor, NotNeeded
from harness.words import Warmup, Word

from .bundles import WARM, Judged, Session

PAIRS: dict[str, object] = {"plan.pairs": 2, "plan.caches": ["warm"]}
FOREIGN = {"decode/96/0": "foreign"}
"""A stranger's request in the first decode pass over the long context."""


def pair_of(bundle: Bundle, pair: int) -> tuple[PlannedLaunch, PlannedLaunch]:
    plan = bundle.plan()
    first, second = (x for x in plan.launches if x.measured and x.cache == "warm" and x.pair == pair)
    return first, second


def decided(bundle: Bundle, pair: int, void: tuple[str, ...] | None = None) -> Bundle:
    """With the decision that the pair's evidence gives, or another one."""
    found = judge_pair(bundle, pair_of(bundle, pair))
    record = found if void is None else found.model_copy(update={"void": void})
    write_record(bundle.rerun_file(record.pair[1]), record)
    return bundle


def disturbed(root: Path, *, again: bool, second_too: bool = False) -> Session:
    """A session in whose second warm pair a stranger asked the candidate something."""
    made = Session(root, PAIRS)
    made.candidate(where=WARM | {"pair": 1, "turn": 0}, faults=FOREIGN)
    if second_too:
        made.candidate(where=WARM | {"pair": 1}, faults=FOREIGN)
    made.runs_again = frozenset({1} if again else ())
    return made


def test_every_measured_launch_has_one_that_can_take_its_place_right_after_its_pair(tmp_path: Path) -> None:
    plan = Session(tmp_path, PAIRS).plan
    measured = [x.id for x in plan.launches if x.measured]
    assert [x.again_of for x in plan.reruns] == measured
    lane = [x.id for x in sorted((*plan.launches, *plan.reruns), key=lambda x: x.place)]
    pairs = zip(measured[::2], measured[1::2], strict=True)
    assert lane == [x for pair in pairs for x in (*pair, *(f"{i}-again" for i in pair))]


def test_nothing_is_planned_for_it_where_it_is_switched_off(tmp_path: Path) -> None:
    assert Session(tmp_path, PAIRS | {"plan.rerun_void": False}).plan.reruns == ()


def test_a_pair_that_stands_is_not_run_again(tmp_path: Path) -> None:
    bundle = disturbed(tmp_path, again=False).build()
    assert judge_pair(bundle, pair_of(bundle, 0)).void == ()


def test_a_strangers_request_is_named_as_what_voids_the_pair(tmp_path: Path) -> None:
    bundle = disturbed(tmp_path, again=False).build()
    found = judge_pair(bundle, pair_of(bundle, 1))
    assert found.void
    assert any("requests: the client counts" in x for x in found.void), found.void


def test_a_launch_that_failed_is_a_finding_and_no_reason_to_ask_again(tmp_path: Path) -> None:
    made = disturbed(tmp_path, again=False).candidate(where=WARM | {"pair": 1}, stage="decode", ends_after=3)
    bundle = made.build()
    assert judge_pair(bundle, pair_of(bundle, 1)).void == ()


def test_without_a_second_try_the_session_is_void(tmp_path: Path) -> None:
    assert disturbed(tmp_path, again=False).judge().verdict.verdict is Word.VOID


def test_the_second_try_is_judged_and_the_first_stays(tmp_path: Path) -> None:
    bundle = decided(disturbed(tmp_path, again=True).build(), 1)
    judged = Judged.of(bundle)
    row = judged.row("voided pair")
    assert row.word is Word.NOTE
    assert "requests: the client counts" in row.reason
    assert judged.verdict.verdict is Word.PASS, judged.words()
    case = read_case(bundle)
    first, second = pair_of(bundle, 1)
    assert {first.id, second.id, f"{first.id}-again", f"{second.id}-again"} <= case.launches.keys()
    ids = {x.folder.id for cell in case.cells for _, side in cell.arms() for x in side}
    assert {f"{first.id}-again", f"{second.id}-again"} <= ids
    assert not {first.id, second.id} & ids
    assert judged.row("session complete").word is Word.PASS
    assert judged.row("launch order").word is Word.PASS


def test_a_second_try_that_is_void_too_leaves_the_session_void(tmp_path: Path) -> None:
    judged = Judged.of(decided(disturbed(tmp_path, again=True, second_too=True).build(), 1))
    assert judged.verdict.verdict is Word.VOID
    assert judged.row("voided pair").word is Word.NOTE


def test_one_that_was_decided_and_did_not_run_is_missing(tmp_path: Path) -> None:
    judged = Judged.of(decided(disturbed(tmp_path, again=False).build(), 1))
    assert judged.row("session complete").word is Word.VOID


def test_a_pair_that_was_run_again_though_it_stood_voids_the_session(tmp_path: Path) -> None:
    """Asking again because one does not like the answer is how a false pass is made."""
    made = Session(tmp_path, PAIRS)
    made.runs_again = frozenset({1})
    bundle = made.build()
    for judged in (Judged.of(bundle), Judged.of(decided(bundle, 1, ("decode: I did not like it",)))):
        row = judged.row("voided pair")
        assert row.word is Word.VOID
        assert "run once more although the pair was not void" in row.reason


def test_a_reason_that_the_evidence_does_not_give_voids_the_session(tmp_path: Path) -> None:
    bundle = decided(disturbed(tmp_path, again=True).build(), 1, ("decode 96: another reason",))
    assert Judged.of(bundle).row("voided pair").word is Word.VOID


@pytest.mark.parametrize("is_void", [True, False])
def test_the_conductor_decides_once_per_pair_and_writes_it_down_first(tmp_path: Path, *, is_void: bool) -> None:
    asked: list[str] = []

    def judge(_: Bundle, pair: tuple[PlannedLaunch, PlannedLaunch]) -> Rerun:
        asked.append(pair[1].id)
        return Rerun(pair=(pair[0].id, pair[1].id), void=("a reason",) if is_void else ())

    made = Session(tmp_path, PAIRS | {"plan.warmups": ["engine"]})
    made.runs_again = frozenset({0, 1})
    bundle = made.build()
    conductor = Conductor(bundle, {}, None, judge)
    again = [x for x in conductor.plan.reruns if x.cache == "warm"]
    assert {x.warmup for x in again} == {Warmup.ENGINE}
    for launch in again:
        # It has a record already, so running it again ends at the next hurdle: that it has run.
        with pytest.raises(SetupFailure if is_void else NotNeeded, match="has run already" if is_void else "stands"):
            conductor.enter(launch)
    conductor.close(None)
    assert asked == [x.again_of for x in again if x.turn == 2]
    assert all(bundle.rerun_file(i).is_file() is is_void for i in asked)
