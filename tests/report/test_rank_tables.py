"""The full table of ranks in the page, and the worst rank with its range in the comment."""

from __future__ import annotations

import re
from pathlib import Path

from harness.judge.case import Case, read_case
from harness.judge.verdict import judge_case
from harness.report.html import page
from harness.report.lines import lines
from harness.report.rank_tables import rank_lines
from tests.judge.bundles import Session
from tests.judge.test_ranks import armed, b12x, kv, late, loud


def four(tmp_path: Path) -> Case:
    """One rank of the candidate is late, compiles, and has less memory for its KV cache."""
    arms = loud(tmp_path).control(start_lines=(*kv(3.5, 3.5, 3.5, 3.5), *armed(0, 1, 2, 3)))
    start = (*kv(3.5, 3.5, 2.25, 3.5), *armed(0, 1, 2, 3))
    return read_case(arms.candidate(start_lines=start, late_lines=(late(2, "_k"), b12x(2, "miss", "c"))).build())


def test_every_rank_of_every_launch_has_a_line_and_nothing_is_averaged(tmp_path: Path) -> None:
    case = four(tmp_path)
    found = rank_lines(case)
    assert [r.ranks for r in found] == [("TP0", "TP1", "TP2", "TP3")] * 2
    columns = {figure.name: list(values.values()) for figure, values in found[0].columns}
    assert columns["KV memory by rank"] == [3.5, 3.5, 2.25, 3.5]
    assert columns["late JIT by rank (engine's monitor)"] == [0, 0, 1, 0]
    assert columns["compile misses by rank"] == [None, None, 1, None]


def test_the_page_shows_a_dash_for_a_rank_that_does_not_tell(tmp_path: Path) -> None:
    case = four(tmp_path)
    text = page(case, judge_case(case))
    section = text[text.index('<section id="ranks">') :].partition("</section>")[0]
    cells = {
        rank: re.findall(r'<td class="number">([^<]*)</td>', rest)
        for rank, rest in re.findall(r"<td>(TP\d)</td>(.*)", section.partition("</tbody>")[0])
    }
    assert list(cells) == ["TP0", "TP1", "TP2", "TP3"]
    assert cells["TP2"][:4] == ["1", "1", "1", "2.25"]
    assert cells["TP3"][:4] == ["0", "-", "-", "3.50"]
    assert 'href="#ranks"' in text


def test_a_session_of_single_ranks_has_no_such_section(tmp_path: Path) -> None:
    case = read_case(Session(tmp_path).both(start_lines=kv(3.5)).build())
    text = page(case, judge_case(case))
    assert rank_lines(case) == []
    assert 'id="ranks"' not in text
    assert 'href="#ranks"' not in text


def test_the_comment_has_the_worst_rank_and_the_range(tmp_path: Path) -> None:
    found = {x.subject: (x.control, x.candidate, x.delta) for x in lines(judge_case(four(tmp_path)))}
    assert found["KV memory, GiB/rank"] == ("3.50", "2.25 (2.25-3.50)", "-1.25")
    assert found["late kernels/rank, engine's monitor"] == ("0", "1 (0-1)", "+1")
