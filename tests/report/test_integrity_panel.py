"""Did the measurement work: the panel's answers, each broken once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.judge.case import read_case
from harness.judge.verdict import judge_case
from harness.report.integrity import Answer, answers
from harness.words import Word
from tests.judge.bundles import Session
from tests.judge.gpus import Seen, seen_case


def panel(session: Session) -> dict[str, Answer]:
    case = read_case(session.build())
    return {a.question: a for a in answers(case, judge_case(case))}


def test_of_a_sound_session_nothing_is_void_and_figures_stand_beside_the_words(tmp_path: Path) -> None:
    found = panel(Session(tmp_path).both(armed=True))
    grave = [a for a in found.values() if a.word in (Word.VOID, Word.FAIL, Word.WARN, Word.SETUP_FAILURE)]
    assert grave == []
    assert found["Did foreign requests run?"].says.startswith("0 beside the ")
    assert found["Would a late kernel have been seen?"].says == "armed in 2 of 2 launches"
    assert "(2 of 2 launches)" in found["Is every planned launch there?"].says
    assert "the host's every " in found["How short a dip goes unseen?"].says
    assert found["Do client and server count the same?"].rows == ("counts agree", "draft arithmetic")


@pytest.mark.parametrize(
    ("question", "broken"),
    [
        ("Did foreign requests run?", {"faults": {"decode/48/0": "foreign"}}),
        ("Did a prefix cache answer for the model?", {"faults": {"prefill/48/0": "prefix-hit"}}),
        ("Do client and server count the same?", {"faults": {"decode/48/0": "miscount"}}),
        ("Are the files as they were written?", {"cut_log": True}),
        ("Did they run in the planned order?", {"early_s": 5.0}),
        ("Is every planned launch there?", {"begins": False}),
        ("Did the clocks keep pace?", {"clock_set": ("stop asked", 60.0)}),
    ],
    ids=lambda value: value.split()[1] if isinstance(value, str) else "",
)
def test_what_is_broken_is_void(tmp_path: Path, question: str, broken: dict[str, Any]) -> None:
    assert panel(Session(tmp_path).both(**broken))[question].word is Word.VOID
    assert panel(Session(tmp_path / "sound"))[question].word is not Word.VOID


def test_a_monitor_that_was_not_armed_is_a_warning(tmp_path: Path) -> None:
    found = panel(Session(tmp_path).control(armed=True))["Would a late kernel have been seen?"]
    assert (found.word, found.says) == (Word.WARN, "armed in 1 of 2 launches")


def test_a_scrape_that_failed_is_counted(tmp_path: Path) -> None:
    found = panel(Session(tmp_path).candidate(faults={"decode/48/0": "no-scrape"}))["Did foreign requests run?"]
    assert found.word is Word.WARN
    assert " without a scrape" in found.says


def test_gpus_are_asked_about_only_where_there_are_some(tmp_path: Path) -> None:
    assert not any("GPU" in question for question in panel(Session(tmp_path / "cpu")))
    case = seen_case(tmp_path / "gpus", lambda _arm, _: Seen())
    found = {a.question: a for a in answers(case, judge_case(case))}
    assert "GPU memory was read every " in found["How short a dip goes unseen?"].says
    assert "Was anybody else on the GPUs?" in found
