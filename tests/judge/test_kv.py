"""KV tokens: how much may be lost, and when two figures may not be compared at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.words import ExitCode, Word

from .bundles import KV_TOKENS, WARM, Session, stack

NAME = "KV tokens"


@pytest.mark.parametrize(
    ("candidate", "word", "told"),
    [
        (1_000_000, Word.PASS, "equal"),
        (995_000, Word.NOTE, "candidate -5,000 tokens (-0.500 %): within the margin of 1 %"),
        (990_000, Word.NOTE, "within the margin"),
        (989_999, Word.FAIL, "candidate -10,001 tokens (-1.000 %): beyond the margin of 1 %"),
        (980_000, Word.FAIL, "candidate -20,000 tokens (-2.000 %): beyond the margin of 1 %"),
        (1_005_000, Word.PASS, "candidate +5,000 tokens (+0.500 %)"),
        (1_020_000, Word.IMPROVED, "candidate +20,000 tokens (+2.000 %)"),
    ],
)
@pytest.mark.parametrize("source", ["metrics and log", "metrics", "log"])
def test_a_loss_beyond_the_margin_fails(tmp_path: Path, candidate: int, word: Word, told: str, source: str) -> None:
    session = Session(tmp_path)
    for change, tokens in ((session.control, 1_000_000), (session.candidate, candidate)):
        if source == "metrics and log":
            change(kv_tokens=tokens)
        elif source == "metrics":
            change(kv_tokens=tokens, kv_log=0)
        else:
            change(kv_tokens=None, kv_log=tokens)
    judged = session.judge()
    row = judged.row(NAME)
    assert row.word is word
    assert told in row.reason
    assert (row.control, row.candidate) == ("1,000,000", f"{candidate:,}")
    assert judged.verdict.exit_code == (ExitCode.FAIL if word is Word.FAIL else ExitCode.PASS)


def test_a_candidate_without_any_room_fails_and_a_control_without_any_is_no_measure(tmp_path: Path) -> None:
    row = Session(tmp_path / "candidate").candidate(kv_tokens=0).judge().row(NAME)
    assert (row.word, row.candidate) == (Word.FAIL, "0")
    assert Session(tmp_path / "control").control(kv_tokens=0).judge().row(NAME).word is Word.NOT_TESTED


def test_the_margin_is_the_profiles(tmp_path: Path) -> None:
    judged = Session(tmp_path, {"gates.kv_tokens_pct": 5.0}).candidate(kv_tokens=int(KV_TOKENS * 0.97)).judge()
    assert judged.row(NAME).word is Word.NOTE


@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_metrics_and_log_that_disagree_void_the_figure(tmp_path: Path, arm: str) -> None:
    judged = getattr(Session(tmp_path), arm)(kv_log=KV_TOKENS - 128).judge()
    row = judged.row(NAME)
    assert (row.word, judged.verdict.exit_code) == (Word.VOID, ExitCode.VOID)
    assert "/metrics says 2,097,152 tokens, the log says 2,097,024" in row.reason


def test_figures_of_different_sources_are_never_mixed(tmp_path: Path) -> None:
    # An engine of before 0.24 against one of after: the words mean different things.
    session = Session(tmp_path).control(kv_tokens=None, kv_log=KV_TOKENS).candidate(kv_tokens=KV_TOKENS // 2, kv_log=0)
    row = session.judge().row(NAME)
    assert row.word is Word.NOT_TESTED
    assert "same place" in row.reason


def test_an_arm_without_a_figure_is_not_tested(tmp_path: Path) -> None:
    row = Session(tmp_path).candidate(kv_tokens=None, kv_log=0).judge().row(NAME)
    assert (row.word, row.candidate, row.reason) == (Word.NOT_TESTED, "-", "an arm shows no KV-cache size")


def test_a_torn_scrape_is_no_figure_and_no_crash(tmp_path: Path) -> None:
    judged = Session(tmp_path).candidate(first_scrape='vllm:prompt_tokens_total{engine="0",mod').judge()
    assert judged.row(NAME).word is Word.PASS, "the log has it"
    assert judged.row("counts agree").word is Word.VOID


def test_different_limits_make_different_figures(tmp_path: Path) -> None:
    judged = Session(tmp_path, candidate=stack("longer", max_model_len=512)).candidate(kv_tokens=1_000_000).judge()
    row = judged.row(NAME)
    assert row.word is Word.NOT_TESTED
    assert "--max-model-len" in row.reason


def test_the_worst_pair_decides_and_is_the_one_that_is_shown(tmp_path: Path) -> None:
    session = Session(tmp_path, {"plan.caches": ["warm"], "plan.pairs": 2})
    judged = session.candidate(where=WARM | {"pair": 1}, kv_tokens=KV_TOKENS - 52_429).judge()
    row = judged.row(NAME, cache="warm")
    assert row.word is Word.FAIL
    assert "candidate -52,429 tokens (-2.500 %)" in row.reason


def test_every_figure_names_its_source(tmp_path: Path) -> None:
    session = Session(tmp_path)
    sources = session.judge().row(NAME).sources
    assert len(sources) == 4
    for source in sources:
        file, line = source.split(": ")[0].rsplit(":", 1) if source.endswith(tuple("0123456789")) else (source, "")
        path = session.root / "bundle" / file.split(":")[0]
        assert path.is_file()
        assert not line or "KV cache size" in path.read_text("utf-8").splitlines()[int(line) - 1]
