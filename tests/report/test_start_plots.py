"""The picture of the start-ups: no gap, the unexplained as a bar of its own, a dead launch up to its end."""

from __future__ import annotations

from harness.judge.case import Case
from harness.records import Verdict
from harness.report.start_plots import start_up
from harness.report.starts import starts
from tests.report.pictures import check, titles

Judged = tuple[Case, Verdict]


def test_start_up_is_drawn_without_a_gap(sound: Judged) -> None:
    case, _ = sound
    found = starts(case)
    for start in found:
        assert start.stretches[0].begin_s == 0
        assert all(a.end_s == b.begin_s for a, b in zip(start.stretches, start.stretches[1:], strict=False))
        assert f"{start.stretches[-1].end_s:.2f}" == start.total
    picture = start_up(found)
    assert picture == start_up(found)
    assert len(titles(picture, "stretch")) == sum(len(s.stretches) for s in found)


def test_what_no_phase_explains_is_a_bar_of_its_own_and_said_in_words(sound: Judged) -> None:
    case, _ = sound
    found = starts(case)
    picture = start_up(found)
    assert picture.count(f"{found[0].unexplained} s") >= len(found), "beside its bar"
    told = check(picture).findtext("desc") or ""
    assert f"{found[0].launch.id} {found[0].total} s, {found[0].unexplained} s of it unexplained" in told


def test_dead_launch_is_drawn_up_to_its_end(hostile: Judged) -> None:
    case, _ = hostile
    served, dead = starts(case)
    assert served.ready
    assert not dead.ready
    assert dead.total == "8.00"
    assert "8.00 s, not ready" in start_up([served, dead])
