"""KV tokens from start to start. The figures of a cold and a warm start are those of the field's reports."""

from __future__ import annotations

from pathlib import Path

from harness.words import ExitCode, Word

from .bundles import COLD, WARM, WARM_TOO, Judged, Session

NAME = "KV tokens between starts"
TWO_PAIRS = WARM_TOO | {"plan.pairs": 2}


def test_a_cold_start_that_sizes_less_than_the_warm_ones_of_both_arms_is_named(tmp_path: Path) -> None:
    judged = Session(tmp_path, WARM_TOO).both(where=COLD, kv_tokens=353_000).both(where=WARM, kv_tokens=603_000).judge()
    row = judged.row(NAME)
    assert (row.word, judged.verdict.exit_code) == (Word.WARN, ExitCode.PASS)
    assert row.control == row.candidate == "cold 353,000; warm 603,000"
    assert "-candidate-mtp1-engine-cold (cold) has 353,000 tokens, 41.46 % less than " in row.reason
    assert "the control's differ by 41.46 %" in row.reason
    assert {r.word for r in judged.rows("KV tokens")} == {Word.PASS}, "arms that are alike in each state"


def test_a_rank_that_held_memory_for_a_moment_shows_among_warm_starts(tmp_path: Path) -> None:
    judged = Session(tmp_path, TWO_PAIRS).candidate(where=WARM | {"pair": 1}, kv_tokens=1_956_000).judge()
    row = judged.row(NAME)
    assert row.word is Word.WARN
    assert row.candidate == "cold 2,097,152; warm 2,097,152 / 1,956,000"
    assert row.reason.endswith("one command, and not one size")


def test_what_only_the_controls_starts_do_is_a_note(tmp_path: Path) -> None:
    row = Session(tmp_path, WARM_TOO).control(where=COLD, kv_tokens=1_000_000).judge().row(NAME)
    assert (row.word, row.reason.partition(":")[0]) == (Word.NOTE, "in the control alone")


def test_starts_within_the_margin_pass_and_the_margin_is_the_profiles(tmp_path: Path) -> None:
    def word(root: Path, margin: float) -> Word:
        session = Session(root, WARM_TOO | {"gates.kv_tokens_pct": margin}).both(where=COLD, kv_tokens=2_060_000)
        return session.judge().row(NAME).word

    assert (word(tmp_path / "a", 1.0), word(tmp_path / "b", 2.0)) == (Word.WARN, Word.PASS)


def test_single_starts_have_no_row_and_starts_without_a_figure_are_not_tested(tmp_path: Path) -> None:
    assert not Session(tmp_path / "single").judge().rows(NAME)
    row = Session(tmp_path / "silent", WARM_TOO).candidate(kv_tokens=None, kv_log=0).judge().row(NAME)
    assert row.word is Word.NOT_TESTED


def test_warm_ups_that_are_switched_off_are_another_command(tmp_path: Path) -> None:
    both = TWO_PAIRS | {"plan.warmups": ["none", "engine"]}
    judged = Session(tmp_path, both).both(where={"warmup": "none"}, kv_tokens=1_000_000).judge()
    assert {r.word for r in judged.rows(NAME)} == {Word.PASS}


class TestALossThatTheControlHasByItself:
    """What a start loses by chance is not held against the candidate; the pair says nothing."""

    def judged(self, root: Path, control: int, candidate: int) -> Judged:
        session = Session(root, {"plan.caches": ["warm"], "plan.pairs": 2})
        session.control(where=WARM | {"pair": 1}, kv_tokens=control)
        return session.candidate(where=WARM | {"pair": 0}, kv_tokens=candidate).judge()

    def test_is_inconclusive(self, tmp_path: Path) -> None:
        judged = self.judged(tmp_path, 1_956_000, 1_957_000)
        row = judged.row("KV tokens", cache="warm")
        assert (row.word, judged.verdict.exit_code) == (Word.INCONCLUSIVE, ExitCode.INCONCLUSIVE)
        assert "the control's own starts differ by 6.731 %" in row.reason

    def test_a_greater_one_still_fails(self, tmp_path: Path) -> None:
        assert self.judged(tmp_path, 1_956_000, 1_900_000).row("KV tokens", cache="warm").word is Word.FAIL
