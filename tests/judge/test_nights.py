"""Rows of a nightly session: what the frozen nights and tonight's own pairs say together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.evidence.bundle import Bundle, write_record
from harness.judge.case import read_case
from harness.judge.cell_identity import identity_sha256, planned_identity
from harness.judge.verdict import judge
from harness.records import Plan
from harness.records.history import Calibration, Night, Point, Series
from harness.words import Cache, Warmup, Word

from .bundles import WARM, Judged, Session

FOUR: dict[str, object] = {"plan.pairs": 4, "plan.caches": ["warm"]}
QUIET = (1.001, 0.999, 1.002, 0.998)
FLAT = (0.001, -0.0006, 0.0003, -0.001, 0.0005, -0.0002, 0.0008)
SLOW = math.log(0.98)
GAINED = [*FLAT[:5], *(x - 2 * SLOW for x in FLAT[:5]), 0.0]
"""An improvement of 4 % for five nights, and one night without it."""
LOST = Calibration(trusted=False, sessions=0, rows=0, alarms=0, low_pct=None, high_pct=None, lost_in="s", lost_at="x")


def with_nights(
    root: Path,
    means: Sequence[float],
    *,
    tonight: float = 1.0,
    cell: str = "",
    overrides: Mapping[str, object] | None = None,
    **plan: object,
) -> Bundle:
    """A session with so many nights before it, for decode steps at 96."""
    made = Session(root, FOUR | dict(overrides or {}))
    for pair, speed in enumerate(QUIET):
        made.candidate(where=WARM | {"pair": pair}, speed=speed * tonight)
    bundle = made.build()
    case = read_case(bundle)
    [warm] = [c for c in case.cells if c.cache is Cache.WARM]
    series = Series(
        mode="mtp1",
        warmup=Warmup.ENGINE,
        cache=Cache.WARM,
        name="decode steps",
        context_tokens=96,
        cell_sha256=cell or identity_sha256(planned_identity(case, warm, 96)),
        points=tuple(
            Point(night=f"2026-11-{n:02d}", session=f"n{n}", root_sha256=f"{n:064x}", mean=mean, pairs=4, own_sd=0.002)
            for n, mean in enumerate(means, 1)
        ),
    )
    night = Night(date=f"2026-11-{len(means) + 1:02d}", anchor=None, anchor_session=None, series=(series,))
    found: Plan = bundle.plan()
    write_record(bundle.plan_file, found.model_copy(update={"night": night, **plan}))
    return bundle


def judged(root: Path, means: Sequence[float], *, tonight: float = 1.0, cell: str = "", **plan: object) -> Judged:
    return Judged.of(with_nights(root, means, tonight=tonight, cell=cell, overrides=None, **plan))


def test_a_change_that_lasts_fails_the_night_though_tonights_a_b_passes(tmp_path: Path) -> None:
    found = judged(tmp_path, [*FLAT, SLOW], tonight=0.98)
    row = found.row("nights, decode steps")
    assert row.word is Word.FAIL
    assert row.reason.startswith("regressed: -2.0 % since 2026-11-08, 2 nights (9 nights, noise ")
    assert row.control is not None
    assert row.candidate == "-2.0 %"
    assert row.cell_sha256 is not None
    assert found.row("decode steps", cache="warm", context_tokens=96).word is Word.INCONCLUSIVE
    assert found.verdict.verdict is Word.FAIL


def test_the_first_night_of_it_is_a_note(tmp_path: Path) -> None:
    found = judged(tmp_path, FLAT, tonight=0.985)
    row = found.row("nights, decode steps")
    assert row.word is Word.NOTE
    assert row.reason.startswith("tonight stands apart by ")
    assert "a change counts from its second night on" in row.reason


def test_nights_without_a_change_pass(tmp_path: Path) -> None:
    row = judged(tmp_path, FLAT).row("nights, decode steps")
    assert (row.word, row.reason.partition(" (")[0]) == (Word.PASS, "no lasting change")


def test_an_improvement_that_lasts_is_one(tmp_path: Path) -> None:
    row = judged(tmp_path, [*FLAT, -SLOW], tonight=1.02).row("nights, decode steps")
    assert (row.word, row.reason.partition(",")[0]) == (Word.IMPROVED, "+2.0 % since 2026-11-08")


def test_an_improvement_that_was_lost_is_a_warning(tmp_path: Path) -> None:
    row = judged(tmp_path, GAINED).row("nights, decode steps")
    assert row.word is Word.WARN
    assert "since 2026-11-11: an improvement over the anchor was lost" in row.reason


def test_below_five_nights_only_the_a_b_speaks(tmp_path: Path) -> None:
    row = judged(tmp_path, FLAT[:3]).row("nights, decode steps")
    assert row.word is Word.NOT_TESTED
    assert row.reason == "4 nights against this anchor, change points need 5: only the A/B speaks"
    assert judged(tmp_path / "five", FLAT[:4]).row("nights, decode steps").word is Word.PASS


def test_nights_of_another_cell_say_nothing_of_this_one(tmp_path: Path) -> None:
    row = judged(tmp_path, FLAT, cell="0" * 64).row("nights, decode steps")
    assert row.word is Word.NOT_TESTED
    assert row.reason == "the nights before are of another cell: only tonight's A/B speaks"


def test_a_host_without_the_right_judges_no_nights(tmp_path: Path) -> None:
    row = judged(tmp_path, [*FLAT, SLOW], tonight=0.98, calibration=LOST).row("nights, decode steps")
    assert row.word is Word.REFUSED
    assert "would say fail: regressed: -2.0 % since 2026-11-08" in row.reason


def test_the_same_bundle_gives_the_same_answer(tmp_path: Path) -> None:
    bundle = with_nights(tmp_path, [*FLAT, SLOW], tonight=0.98)
    assert judge(bundle).model_dump_json() == judge(bundle).model_dump_json()


def test_other_sessions_have_no_such_rows(tmp_path: Path) -> None:
    assert not [r for r in Session(tmp_path, FOUR).judge().verdict.rows if r.name.startswith("nights")]
