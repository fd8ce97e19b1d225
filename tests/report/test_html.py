"""The page: what it says, that nothing is loaded, and that strangers' text stays text."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from harness.evidence.bundle import Bundle
from harness.judge.case import Case, read_case
from harness.judge.verdict import judge
from harness.records import Verdict
from harness.report import write_report
from harness.report.html import page
from harness.words import Word
from tests.report.bundles import ENDED, make_bundle, plan
from tests.report.conftest import CANDIDATE
from tests.report.pages import Page
from tests.report.writing import CONTEXT, PASSES, Faults

Judged = tuple[Case, Verdict]


def test_page_loads_nothing_and_runs_nothing(sound: Judged) -> None:
    text = page(*sound)
    found = Page(text)
    assert not found.of("script")
    assert not [t for t, _ in found.elements if t in ("link", "img", "iframe", "object", "embed", "form")]
    assert not re.search(r"url\((?!#)|@import|javascript:|\bon\w+=", text)
    assert all(
        a["href"].startswith(("#", "../launches/", "../plan.json", "../run.json", "tables/")) for a in found.of("a")
    )
    assert all(u["href"].startswith("#") for u in found.of("use"))


def test_identifiers_are_unique_and_references_lead_somewhere(sound: Judged) -> None:
    found = Page(text := page(*sound))
    ids = Counter(a["id"] for _, a in found.elements if "id" in a)
    assert [i for i, n in ids.items() if n > 1] == []
    wanted = {a["href"][1:] for a in found.of("use")} | set(re.findall(r"url\(#([^)]+)\)", text))
    wanted |= {a["href"][1:] for a in found.of("a") if a["href"].startswith("#")}
    assert wanted <= ids.keys()


def test_every_row_stands_with_its_figures_and_sources(sound: Judged) -> None:
    case, verdict = sound
    found = Page(page(case, verdict))
    body = [[c.strip() for c in r] for r in found.rows if len(r) == 9 and r[0].strip() in ("mtp1", "-")]
    assert len(body) == len(verdict.rows)
    [kv] = [r for r in body if "4,096" in r]
    assert kv[:8] == ["mtp1", "engine", "cold", "-", "4,096", "4,096", "tokens", "pass"]
    links = {a["href"] for a in found.of("a")}
    assert f"../launches/{CANDIDATE}/metrics/001.prom" in links
    assert f"../launches/{CANDIDATE}/server.log" in links
    assert "server.log</a>:5<" in page(case, verdict)
    assert "metrics/006.prom</a>..007.prom" in page(case, verdict)


def test_phases_and_unexplained_add_up_to_the_total_as_shown(sound: Judged) -> None:
    found = Page(page(*sound))
    phases = [r for r in found.rows if len(r) == 3 and re.fullmatch(r"[\d.]+|-", r[1].strip())]
    for column in (1, 2):
        *parts, total = (float(r[column].strip()) for r in phases if r[column].strip() != "-")
        assert round(sum(parts), 2) == total
    assert [r[0].strip() for r in phases][-2:] == ["unexplained", "total"]
    assert found.table_row("model and weights")[1:] == ["0.62", "0.62"]
    # 6.12 to 6.5 s, between the weights and the compiler, belongs to no phase.
    assert float(found.table_row("unexplained")[1]) >= 0.38


def test_phases_name_the_lines_that_bound_them(sound: Judged) -> None:
    case, verdict = sound
    shown = page(case, verdict).partition('id="start-up"')[2].partition('id="throughput"')[0]
    for line, kind in ((1, "engine banner"), (3, "weights loaded"), (5, "kv tokens"), (7, "http ready")):
        assert (
            f'<a href="../launches/{CANDIDATE}/server.log">launches/{CANDIDATE}/server.log</a>:{line}: {kind}' in shown
        )


def test_there_is_one_mark_per_pass_and_one_median_per_launch(sound: Judged) -> None:
    found = Page(page(*sound))
    panels = 3  # prefill, steps/s, tok/s, at one context
    assert len(found.of("g", "pass")) == panels * PASSES * 2
    assert len(found.of("g", "median")) == panels * 2
    assert not found.of("g", "void")


def test_void_pass_is_marked_and_leaves_no_median(faulty: Judged) -> None:
    found = Page(text := page(*faulty))
    assert len(found.of("g", "void")) == 1
    assert len(found.of("g", "pass")) == 3 * PASSES * 2 - 1
    assert len(found.of("g", "median")) == 3 * 2 - 1
    assert "prefix_hits: the client counts 0, the server 1" in text
    assert "pass 1: no figure" in text


def test_what_was_compared_is_named_without_where_it_lies(sound: Judged) -> None:
    case, verdict = sound
    text = page(case, verdict)
    expected = ("tiny-mtp", "--max-num-seqs 4", "nothing changed", "0.32.0", "a CPU", "seed 5", ENDED, "a" * 40)
    assert [e for e in (*expected, case.plan.session, verdict.evidence_root_sha256) if e not in text] == []
    assert "dirty" not in text
    assert "/home/somebody" not in text
    assert str(case.bundle.root) not in text


@pytest.mark.parametrize(
    ("commit", "dirty", "mark"), [("a" * 40, True, "dirty"), (None, None, "no commit"), ("a" * 40, None, "unknown")]
)
def test_doubtful_harness_is_marked(tmp_path: Path, commit: str | None, dirty: bool | None, mark: str) -> None:
    bundle = make_bundle(tmp_path / "bundle", Faults(commit=commit, dirty=dirty))
    assert f"harness: {mark}" in page(read_case(bundle), judge(bundle))


def test_equal_arms_are_called_an_a_a_session(tmp_path: Path) -> None:
    stack = plan().control
    bundle = make_bundle(tmp_path / "bundle", of=plan((stack, stack.model_copy(update={"name": "same"}))))
    assert "A/A session" in page(read_case(bundle), judge(bundle))


def test_failed_launch_stands_with_its_tail_as_text(hostile: Judged) -> None:
    case, verdict = hostile
    text = page(case, verdict)
    found = Page(text)
    [tail] = [b for b in found.blocks if "</pre>" in b]
    assert "red </pre><script>alert(1)</script> @someone" in tail
    assert not found.of("script")
    assert not re.search("[\x1b\u202e]", text)
    assert "100% done" in tail
    assert "50%" not in tail
    assert "…/site-packages/vllm/engine.py" in tail
    assert "…/model.bin and http://127.0.0.1:8000/v1/models with [token]" in tail
    assert "/home/somebody" not in text
    assert [r for r in found.rows if CANDIDATE in "".join(r) and "failed at health" in "".join(r)]
    assert "8.00 s, not ready" in text


def test_verdict_and_its_deciding_rows_come_first(hostile: Judged) -> None:
    case, verdict = hostile
    text = page(case, verdict)
    assert verdict.verdict is Word.FAIL
    assert (
        text.index("<h1>FAIL</h1>") < text.index("served to the end [mtp1 engine cold]") < text.index("What stands out")
    )


def test_launch_that_never_started_is_listed(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle", Faults(not_started=(CANDIDATE,)))
    found = Page(text := page(read_case(bundle), judge(bundle)))
    assert f"never started: {CANDIDATE}" in text
    [row] = [r for r in found.rows if len(r) == 9 and CANDIDATE in r[1]]
    assert [c.strip() for c in row[2:]] == ["not started", "-", "-", "cold", "-", "-", "-"]


def test_interrupted_session_without_rows(tmp_path: Path) -> None:
    everything = tuple(x.id for x in plan().launches)
    bundle = make_bundle(tmp_path / "bundle", Faults(not_started=everything, interrupted="Ctrl-C <b>"))
    empty = Verdict(session="s", verdict=Word.INCONCLUSIVE, exit_code=10, evidence_root_sha256="0" * 64, rows=())
    text = page(read_case(bundle), empty)
    Page(text)
    assert "the session was interrupted: Ctrl-C &lt;b&gt;" in text
    assert "The verdict has no rows." in text
    assert "no recorded end" in text
    assert "No launch was started." in text


def test_what_is_not_claimed_comes_from_the_rows_not_tested(sound: Judged) -> None:
    case, verdict = sound
    rows = tuple(r for r in verdict.rows if r.word is not Word.NOT_TESTED)
    assert "one pair shows no spread, use --pairs 4 or more" in page(case, verdict).partition('id="not-claimed"')[2]
    without = page(case, verdict.model_copy(update={"rows": rows})).partition('id="not-claimed"')[2]
    assert "no row that was left untested" in without
    assert "one pair shows no spread" not in without


def test_same_bundle_gives_the_same_bytes_wherever_it_lies(tmp_path: Path) -> None:
    written = []
    for name in ("one", "two"):
        bundle = make_bundle(tmp_path / name / "bundle")
        target = write_report(bundle, judge(bundle))
        written.append([(target.parent / f).read_bytes() for f in ("report.html", "report.md")])
        write_report(Bundle(bundle.root), bundle_verdict := judge(bundle), read_case(bundle))
        assert bundle_verdict == judge(bundle)
        assert [(target.parent / f).read_bytes() for f in ("report.html", "report.md")] == written[-1]
    assert written[0] == written[1]
    assert f"prefill {CONTEXT // 1024}K" in written[0][0].decode()
