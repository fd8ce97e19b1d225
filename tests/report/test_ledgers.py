"""Late kernels in the page, the comment and jit.json: per arm and source, and whatever a kernel is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.judge.case import Case, read_case
from harness.judge.verdict import judge_case
from harness.report import write_report
from harness.report.html import page
from harness.report.ledgers import LINES, arm_ledgers
from harness.report.markdown import comment
from harness.words import Arm
from tests.judge.bundles import TRACED, Kernel, Session
from tests.report.pages import Page

NAME = "_map_global_topk_to_gathered_ckv_kernel"
NEEDED: Kernel = (NAME, {"DCP_SIZE": 4, "DCP_INTERLEAVE": 64})
HOSTILE = "</td><script>alert(1)</script> @octocat `x` | #1 \n```"


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


def case_of(folder: Path, **does: Any) -> Case:
    return read_case(Session(folder, TRACED).both(armed=True).candidate(**does).build())


def table(case: Case, first: str) -> list[list[str]]:
    found = Page(page(case, judge_case(case)))
    return [[c.strip() for c in row] for row in found.rows if len(row) == 11 and row[1].strip() == first]


def test_each_source_has_a_line_of_its_own(tmp_path: Path) -> None:
    case = case_of(tmp_path, late_kernels=(NAME,), served=(NEEDED,))
    rows = table(case, "mtp1")
    assert [(row[0], row[2], row[4], row[5]) for row in rows] == [
        ("candidate", NAME, "monitor", "late JIT"),
        ("candidate", f"{NAME}DCP_SIZE=4 DCP_INTERLEAVE=64", "tracer", "compiled"),
    ]
    assert all(row[3].startswith("first-prompt 96") for row in rows)
    assert rows[1][6:10] == ["rank 0", "1", "0.050", "50.0"]
    assert "and in 1 launch more" in rows[0][10], "the trace launch's monitor speaks too"


def test_an_arm_without_a_late_kernel_says_so(tmp_path: Path) -> None:
    case = case_of(tmp_path)
    assert [(a.arm, a.lines) for a in arm_ledgers(case)] == [(Arm.CONTROL, ()), (Arm.CANDIDATE, ())]
    assert "No source saw a late kernel" in page(case, judge_case(case))


def test_what_each_launch_could_see_stands_beside_it(tmp_path: Path) -> None:
    text = page(case := case_of(tmp_path), judge_case(case))
    for told in ("the monitor was armed", "not traced", "<td>seen</td>", "48: 0.0"):
        assert told in text


def test_a_hostile_name_stays_text(tmp_path: Path) -> None:
    case = case_of(tmp_path, served=((HOSTILE, {"<b>": 1}),))
    verdict = judge_case(case)
    found, text = Page(page(case, verdict)), comment(case, verdict)
    assert len(found.of("script")) == 1, "ours"
    assert not found.of("b")
    line = next(x for x in text.splitlines() if "alert" in x and "first-prompt 96" in x)
    assert "<script" not in line
    assert "@octocat" not in line
    assert "```" not in line


def test_jit_json_holds_every_ledger(tmp_path: Path) -> None:
    case = case_of(tmp_path, served=(NEEDED,), warmed=((NAME, {"DCP_SIZE": 1}),))
    write_report(case.bundle, judge_case(case), case)
    found = json.loads((case.bundle.report_dir / "jit.json").read_text("utf-8"))
    assert list(found) == [x.id for x in case.plan.launches]
    traced = found["004-candidate-mtp1-engine-cold-trace"]
    lines = [(x["phase"], x["late"]) for x in traced["lines"] if x["source"] == "tracer"]
    assert lines == [("start-up, before KV sizing", False), ("first-prompt 96", True)]


def test_a_page_shows_so_many_lines_and_says_how_many_more(tmp_path: Path) -> None:
    case = case_of(tmp_path, served=tuple((f"kernel_{n}", {}) for n in range(LINES + 5)))
    [_, candidate] = arm_ledgers(case)
    assert (len(candidate.lines), candidate.left_out) == (LINES, 5)
    assert "300 lines, 5 more in jit.json" in page(case, judge_case(case))
