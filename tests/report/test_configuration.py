"""The full configuration: what differs between the arms, and what both share."""

from __future__ import annotations

from pathlib import Path

from harness.judge.case import read_case
from harness.judge.verdict import judge_case
from harness.report.configuration import Setting, settings
from harness.report.html import page
from tests.judge.bundles import Session, stack


def by_name(session: Session) -> dict[tuple[str, str], Setting]:
    return {(s.group, s.name): s for s in settings(read_case(session.build()))}


def test_a_flag_of_one_arm_differs_and_one_of_the_profile_is_shared(tmp_path: Path) -> None:
    found = by_name(Session(tmp_path, candidate=stack("candidate", max_num_seqs=4, enforce_eager=True)))
    changed = found["flags, mtp1 engine", "--max-num-seqs"]
    assert changed.differs
    assert changed.candidate == "4"
    assert found["flags, mtp1 engine", "--enforce-eager"].candidate == "on"
    shared = found["flags, mtp1 engine", "--max-model-len"]
    assert (shared.control, shared.candidate, shared.differs) == ("256", "256", False)
    assert "num_speculative_tokens" in (found["flags, mtp1 engine", "--speculative-config"].control or "")


def test_what_only_one_engine_resolved_is_none_in_the_other(tmp_path: Path) -> None:
    line = "(EngineCore pid=1) INFO 01-02 03:04:05 [cuda.py:1] Using FLASH_ATTN attention backend"
    found = by_name(Session(tmp_path).candidate(said_at_start=(line,)))
    attention = [s for s in found.values() if s.name == "attention"]
    assert [(s.control, s.candidate) for s in attention] == [(None, "FLASH_ATTN")]


def test_the_page_shows_differences_open_and_the_rest_folded(tmp_path: Path) -> None:
    case = read_case(Session(tmp_path, candidate=stack("candidate", max_num_seqs=4)).build())
    text = page(case, judge_case(case)).partition('id="configuration"')[2].partition('id="launches"')[0]
    different, _, shared = text.partition("<details>")
    assert "--max-num-seqs" in different
    assert "--max-model-len" not in different
    assert "--max-model-len" in shared
