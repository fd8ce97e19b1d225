"""The comment: its order, its size, and that strangers' text can do nothing in it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from harness.judge.case import Case, read_case
from harness.judge.verdict import judge, judge_case
from harness.records import Row, Verdict
from harness.report.about import About
from harness.report.blocks import LIMIT, Block, block, fitted, length
from harness.report.details import CONSTANTS
from harness.report.markdown import comment
from harness.words import Arm, Warmup, Word
from tests.judge.bundles import Session
from tests.report.bundles import make_bundle, plan
from tests.report.conftest import CANDIDATE, HOSTILE
from tests.report.gfm import render
from tests.report.locks import PREWARM, stack_lock
from tests.report.test_escape import HOSTILE as ANYTHING
from tests.report.writing import Faults

NAMES = (
    "late JIT (engine's monitor)",
    "KV tokens",
    "lowest free",
    "prefill",
    "identity, candidate vs control",
    "other",
)
Judged = tuple[Case, Verdict]
GITHUB_LIMIT = 65_536


def table(text: str) -> list[list[str]]:
    """Cells of the main table, without its head."""
    lines = [line for line in text.partition("<details>")[0].splitlines() if line.startswith("| ")]
    return [line.replace("\u00a0", " ").replace("\u200b", "").strip("| ").split(" | ") for line in lines[1:]]


def with_rows(judged: Judged, *rows: Row) -> list[list[str]]:
    case, verdict = judged
    return table(comment(case, verdict.model_copy(update={"rows": rows})))


def row(name: str, cache: str | None = "warm", context: int | None = None, **more: object) -> Row:
    fields: dict[str, object] = {"control": "1.0", "candidate": "1.0", "word": Word.PASS, "reason": "r"}
    fields |= {"mode": "mtp1", "warmup": Warmup.ENGINE}
    return Row.model_validate({"name": name, "cache": cache, "context_tokens": context, **fields, **more})


# --- order ------------------------------------------------------------------------------------------


def test_rows_stand_in_the_reviewers_order(sound: Judged) -> None:
    rows = (
        row("decode steps", context=32_768, unit="steps/s, id prompts"),
        row("decode", context=32_768, unit="tok/s, id prompts"),
        row("decode", context=2048, unit="tok/s, id prompts"),
        row("prefill", context=32_768),
        row("prefill", context=2048),
        row("start-up"),
        row("start-up", "cold"),
        row("identity, measured outputs", context=2048),
        row("identity, candidate vs control"),
        row("accepted / drafted, decode", context=2048, control="1/2 = 0.5", candidate="1/2 = 0.5"),
        row("lowest free", control="900", candidate="900"),
        row("residency", control="100", candidate="102"),
        row("KV tokens", control="1,000", candidate="990"),
        row("specialisation mismatch", control="none", candidate="none"),
        row("late compiles (caches)", control="none", candidate="none"),
        row("late JIT (engine's monitor)", control="none", candidate="none"),
    )
    assert [cells[0] for cells in with_rows(sound, *rows)] == [
        "late JIT, engine's monitor",
        "late JIT, compile caches",
        "specialisation mismatch",
        "KV tokens",
        "residency, MiB/rank",
        "free MiB/rank: idle → first prompt → end",
        "accepted / drafted",
        "MAL",
        "identity",
        "identity, timed requests",
        "cold start, s",
        "warm start, s",
        "PP 2K, tok/s",
        "PP 32K, tok/s",
        "TG 2K, tok/s",
        "TG 32K, tok/s",
        "TG 32K, steps/s",
    ]


def test_parts_come_in_order_and_it_closes_with_what_is_not_claimed_and_the_sessions(sound: Judged) -> None:
    case, verdict = sound
    text = comment(case, verdict, About(sessions="3 sessions of these locks here: 1 pass, 1 void, 1 aborted"))
    parts = [
        f"### {verdict.verdict.upper()}: patched against base, profile tiny",
        "| late JIT",
        "**Not tested**",
        "**Exact heads**",
        f"**Manifest root** `{verdict.evidence_root_sha256}`",
        "<details>",
        "#### What is not claimed",
        "- Speed, faster or slower: one pair shows no spread",
        "- Anything beyond the rows above",
        "#### This evidence",
        "3 sessions of these locks here: 1 pass, 1 void, 1 aborted",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_what_is_not_known_about_the_evidence_is_said(sound: Judged) -> None:
    text = comment(*sound)
    assert "- no session ledger\n- statements: `unsigned`\n- evidence: no link given\n" in text
    told = comment(
        *sound, About(challenge="see #7", signature="ed25519 key 1f2e", evidence_url="https://a.example/b.zip")
    )
    assert "- challenge `see #7` seeded the prompts\n- statements: `ed25519 key 1f2e`\n" in told
    assert "- evidence: <https://a.example/b.zip>\n" in told
    assert "<javascript" not in comment(*sound, About(evidence_url="javascript:alert(1)"))


# --- one line per subject and mode ------------------------------------------------------------------


def test_states_that_came_to_the_same_share_a_line_and_modes_too(sound: Judged) -> None:
    states = [row("KV tokens", cache, mode=mode) for mode in ("mtp0", "mtp1") for cache in ("cold", "warm")]
    assert [cells[-1] for cells in with_rows(sound, *states)] == ["mtp0 + mtp1 cold + warm"]


def test_the_gravest_state_is_shown_and_the_others_named(sound: Judged) -> None:
    rows = (
        row("KV tokens", "cold", control="1,000", candidate="1,000"),
        row("KV tokens", "warm", control="1,000", candidate="900", word=Word.FAIL),
    )
    [cells] = with_rows(sound, *rows)
    assert cells == ["KV tokens", "**fail**", "1,000", "900", "-100 (-10.000 %)", "mtp1 warm (cold: pass)"]


def test_warm_ups_are_named_where_there_are_several(sound: Judged) -> None:
    rows = [row("KV tokens", warmup=warmup) for warmup in (Warmup.NONE, Warmup.ENGINE)]
    assert [cells[-1] for cells in with_rows(sound, *rows)] == ["mtp1 none + engine warm"]


def test_of_states_as_grave_one_that_users_meet_is_shown(sound: Judged) -> None:
    rows = [
        row("KV tokens", warmup=warmup, control="1,000", candidate=value)
        for warmup, value in ((Warmup.NONE, "1,000"), (Warmup.ENGINE, "1,001"))
    ]
    [cells] = with_rows(sound, *rows)
    assert (cells[3], cells[-1]) == ("1,001", "mtp1 engine warm (none warm: pass)")
    rows[0] = row("KV tokens", warmup=Warmup.NONE, control="1,000", candidate="900", word=Word.FAIL)
    [cells] = with_rows(sound, *rows)
    assert (cells[3], cells[-1]) == ("900", "mtp1 none warm (engine warm: pass)"), "a graver one is never hidden"


def test_a_state_that_was_not_measured_is_not_named_by_those_that_were(sound: Judged) -> None:
    """`engine + none cold + warm` names four; an unfinished session was read as if it had the fourth."""
    cold = [row("KV tokens", "cold", mode=mode, warmup=Warmup.ENGINE) for mode in ("mtp0", "mtp1")]
    warm = [row("KV tokens", "warm", mode=mode, warmup=Warmup.NONE) for mode in ("mtp0", "mtp1")]
    assert [cells[-1] for cells in with_rows(sound, *cold, *warm)] == ["mtp0 + mtp1 engine cold, none warm"]
    more = row("KV tokens", "warm", mode="mtp0", warmup=Warmup.ENGINE)
    states = [cells[-1] for cells in with_rows(sound, *cold, *warm, more)]
    assert states == ["mtp0 engine cold + warm, none warm", "mtp1 engine cold, none warm"]


def test_speed_is_shown_of_warm_caches_and_of_cold_ones_only_by_itself(sound: Judged) -> None:
    cold, warm = (row("prefill", cache, 2048, control=control) for cache, control in (("cold", "9.0"), ("warm", "8.0")))
    assert [cells[2] for cells in with_rows(sound, cold, warm)] == ["8.0"]
    assert [cells[2] for cells in with_rows(sound, cold)] == ["9.0"]


def test_free_memory_is_the_worst_rank_with_the_range_over_ranks_never_a_mean(sound: Judged) -> None:
    rows = (
        row("free at idle", control="2,400 (2,400-2,412)", candidate="2,300 (2,300-2,310)"),
        row("lowest free in first prompt", context=2048, control="2,000", candidate="2,000"),
        row("lowest free in first prompt", context=32_768, control="245 (245-255)", candidate="2,250 (2,250-2,260)"),
        row("free at the end", control="250 (250-262)", candidate="2,251 (2,251-2,262)"),
        row("lowest free", control="240 (240-255)", candidate="2,249 (2,249-2,260)", word=Word.PASS),
    )
    [cells] = with_rows(sound, *rows)
    assert cells == [
        "free MiB/rank: idle → first 32K prompt → end",
        "pass",
        "2,400 (2,400-2,412) → 245 (245-255) → 250 (250-262); lowest 240 (240-255)",
        "2,300 (2,300-2,310) → 2,250 (2,250-2,260) → 2,251 (2,251-2,262); lowest 2,249 (2,249-2,260)",
        "-100 → +2,005 → +2,001",
        "mtp1 warm",
    ]


def test_free_memory_warns_where_a_first_prompt_kept_some_for_good(sound: Judged) -> None:
    rows = (
        row("free at idle", control="900", candidate="900"),
        row("lowest free in first prompt", context=32_768, control="900", candidate="600"),
        row("memory kept by first prompt", context=2048, control="0", candidate="300", word=Word.WARN),
        row("memory kept by first prompt", context=32_768, control="0", candidate="0", word=Word.PASS),
        row("free at the end", control="900", candidate="600"),
        row("lowest free", control="900", candidate="600", word=Word.PASS),
    )
    assert [cells[:2] for cells in with_rows(sound, *rows)] == [
        ["free MiB/rank: idle → first 32K prompt → end", "**warn**"]
    ]


def test_launches_come_together_as_the_worst_or_the_middle_one_with_their_range(sound: Judged) -> None:
    rows = (
        row("residency", control="100 / 104", candidate="103 (101-103) / 102 (100-102)"),
        row("prefill", context=2048, control="10.0 / 12.0 / 11.0", candidate="11.0 / - / 12.0"),
    )
    first, second = with_rows(sound, *rows)
    assert first[2:5] == ["104 (100-104)", "103 (100-103)", "-1"]
    assert second[2:5] == ["11.0 (10.0-12.0)", "11.0 / - / 12.0", "?"], "a launch without a figure is not passed over"


def test_a_change_of_start_up_is_that_of_the_seconds(sound: Judged) -> None:
    [cells] = with_rows(sound, row("start-up", "cold", control="30.3", candidate="43.0"))
    assert cells[4] == "+12.7 s; +41.9 %"


def test_claims_stand_beside_their_subject_with_what_they_came_to(sound: Judged) -> None:
    claim = row("claim kv_tokens_min_change", None, mode=None, warmup=None, reason="HELD: -192 tokens")
    assert [cells[0] for cells in with_rows(sound, claim, row("KV tokens"), row("prefill"))] == [
        "KV tokens",
        "claim kv_tokens_min_change",
        "PP, tok/s",
    ]


def test_rows_without_figures_are_named_as_not_tested(sound: Judged) -> None:
    case, verdict = sound
    silent = row("needles", control=None, candidate=None, word=Word.NOT_TESTED, reason="the course has none")
    text = comment(case, verdict.model_copy(update={"rows": (silent,)}))
    assert "**Not tested**: needles\n" in text
    assert "- needles (1 row): the course has none\n" in text
    assert "No row of the table was judged." in text


# --- what strangers wrote ---------------------------------------------------------------------------


def test_identities_name_both_arms_without_paths(sound: Judged) -> None:
    text = comment(*sound)
    assert "- candidate: stack patched, vLLM 0.32.0, tiny-mtp, model.safetensors sha256 `c0ffeec0ffee`" in text
    assert "--max-num-seqs 4" in text
    assert "/home/somebody" not in text


def test_a_log_can_leave_no_fence_mention_nobody_and_bring_no_html(hostile: Judged) -> None:
    rendered = render(text := comment(*hostile))
    [log] = rendered.blocks
    assert "</pre><script>alert(1)</script> @\u200bsomeone" in log
    assert "```\n````text\n</details>" in log
    assert list(rendered.links()) == []
    assert not {"script", "a", "img", "b", "pre "} & set(rendered.tags)
    assert {tag for tag, _, _ in rendered.attributes} <= {"th", "td", "pre", "code"}
    assert not re.search("[\x1b\u202e]", text)
    assert "/home/somebody" not in text


def test_reason_cannot_format_mention_or_break_the_table(sound: Judged) -> None:
    case, verdict = sound
    evil = (
        "a | b\n| c @team/x **bold** [l](https://github.com/o/r/issues/1) www.x.org $x$ GH-7 &#64;you _i_ `c` "
        "snake_case ![i](http://a.b/c.png) </td><script>"
    )
    names = ("prefill", "KV tokens", evil)
    rows = tuple(row(n, control=evil, candidate=evil, word=Word.WARN, reason=evil) for n in names)
    rendered = render(comment(case, verdict.model_copy(update={"rows": rows})))
    assert list(rendered.links()) == []
    assert not {"script", "a", "img", "em"} & set(rendered.tags)
    assert {len(cells) for cells in rendered.rows} == {6, 7}
    [cells] = [cells for cells in rendered.rows if cells[0] == "KV tokens" and len(cells) == 7]
    assert cells[2] == cells[3]
    assert cells[2].replace("\u200b", "") == " ".join(evil.split())


class Sound:
    """A session without a fault; hypothesis prints a test's arguments, and a session is long."""

    def __init__(self, judged: Judged) -> None:
        self.judged = judged


@pytest.fixture(scope="session")
def short(sound: Judged) -> Sound:
    return Sound(sound)


@settings(max_examples=15)
@given(text=ANYTHING)
def test_whatever_strangers_wrote_anywhere_the_comment_has_the_same_shape(short: Sound, text: str) -> None:
    def shape(evil: str) -> list[str]:
        case, verdict = short.judged
        pull = replace(PREWARM, title=evil, head="1" * 40)
        locks = {arm: stack_lock(evil or "s", (pull,)) for arm in Arm}
        arms = {arm: case.locks[arm].model_copy(update={"engine_version": evil, "model": evil}) for arm in Arm}
        host = case.run.host.model_copy(update={"processor": evil, "gpus": (evil,)})
        run = case.run.model_copy(update={"host": host, "interrupted": f"by {evil}"})
        rows = tuple(row(name, control=evil, candidate=evil, word=Word.WARN, reason=evil) for name in NAMES)
        about = About(evil, evil, evil, "https://a.example/ @team")
        hostile_case = replace(case, stack_locks=locks, locks=arms, run=run)
        rendered = render(comment(hostile_case, verdict.model_copy(update={"rows": rows}), about))
        assert list(rendered.links()) == []
        return [tag for tag in rendered.tags if tag not in {"code", "/code"}]

    assert shape(text) == shape("x")


def test_what_a_kernel_is_specialised_for_is_cut_where_it_is_long(tmp_path: Path) -> None:
    """A kernel of B12X holds 28 attributes, and a session may name dozens of kernels."""
    held = ", ".join(f"'attribute{n}': {n}" for n in range(28))
    line = f"[b12x cute.compile] miss target=b12x.mla.K status=disk-cache-miss cache_key=1 attrs={{{held}}} spec_hash=1"
    case = read_case(Session(tmp_path).candidate(late_lines=(line,)).build())
    [told] = [
        row for row in comment(case, judge_case(case)).splitlines() if row.startswith("| candidate | mtp1 | b12x")
    ]
    constants = told.rstrip("| ").rpartition(" | ")[2]
    assert constants.startswith("attribute0=0 attribute1=1 ")
    assert constants.endswith(" …")
    assert len(constants) <= CONSTANTS


def test_failed_launch_is_told_with_stage_reason_and_exit(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle", Faults(failed=CANDIDATE))
    text = comment(read_case(bundle), judge(bundle))
    assert (
        f"**{CANDIDATE}**: failed at health: the server ended by itself (exit code 1) (exit code 1, by itself" in text
    )
    assert "```text\nTraceback (most recent call last):\nValueError: no\n```" in text
    assert text.startswith("### FAIL: patched against base, profile tiny")


def test_interrupted_session_without_rows(tmp_path: Path) -> None:
    everything = tuple(x.id for x in plan().launches)
    bundle = make_bundle(tmp_path / "bundle", Faults(not_started=everything, interrupted="Ctrl-C"))
    empty = Verdict(session="s", verdict=Word.INCONCLUSIVE, exit_code=10, evidence_root_sha256="0" * 64, rows=())
    text = comment(read_case(bundle), empty)
    assert text.startswith("### INCONCLUSIVE: patched against base, profile tiny")
    assert "the session was interrupted: Ctrl-C" in text
    assert f"never started: {everything[0]}; {everything[1]}" in text


# --- size -------------------------------------------------------------------------------------------


def test_too_long_a_comment_loses_whole_blocks_and_names_them(hostile: Judged) -> None:
    case, verdict = hostile
    rows = tuple(row(f"check {n}", word=Word.NOTE, reason=f"{n}: {HOSTILE}") for n in range(300))
    text = comment(case, verdict.model_copy(update={"rows": rows}))
    assert length(text) <= LIMIT < GITHUB_LIMIT
    assert "**Cut, for GitHub's limit on a comment:** rows of the verdict. The bundle's report has it all." in text
    assert "- 292 more such findings in the folded rows" in text
    for kept in ("### FAIL", verdict.evidence_root_sha256, "<summary>What ran", "#### This evidence"):
        assert kept in text
    assert list(render(text).links()) == []


@pytest.mark.parametrize("letter", ["x", "é", "漢", "\U0001f600"])
def test_every_part_is_bounded_whatever_a_stranger_wrote(sound: Judged, letter: str) -> None:
    case, verdict = sound
    long = letter * 900
    names = ("KV tokens", "late JIT (engine's monitor)", "prefill", "identity, candidate vs control")
    rows = [
        row(name, mode=f"mtp{n}", control=long, candidate=f"{long}{n}", word=word, reason=long)
        for name in (*names, *(f"{long}{n}" for n in range(20)))
        for n in range(9)
        for word in (Word.FAIL, Word.NOT_TESTED)
    ]
    text = comment(case, verdict.model_copy(update={"rows": tuple(rows)}), About(*[long] * 4))
    assert length(text) <= LIMIT
    assert "#### This evidence" in text


def test_blocks_go_by_rank_and_the_later_first() -> None:
    blocks = [Block(name, name * 400, rank) for name, rank in (("a", 0), ("b", 2), ("c", 1), ("d", 2))]
    note = "**Cut, for GitHub's limit on a comment:** {}. The bundle's report has it all.\n\n"
    a, b, c, d = (block.text for block in blocks)
    assert fitted(blocks, 1_600) == a + b + c + d
    assert fitted([*blocks, Block("e", "e" * 3_000, 3)], 2_000) == a + b + c + d + note.format("e")
    tail = Block("e", "e" * 900)
    assert fitted([*blocks, tail], 2_499) == a + b + c + note.format("d") + tail.text
    assert fitted([*blocks, tail], 2_000) == a + note.format("b, d") + c + tail.text


def test_a_block_that_is_too_long_keeps_no_shorter_one_out() -> None:
    text = fitted([Block("a", "a"), Block("b", "b" * 500, 1), Block("c", "c" * 40, 2)], 200)
    assert (text[0], text.count("b" * 9), text[-40:]) == ("a", 0, "c" * 40)


def test_what_must_stay_is_not_cut_in_silence() -> None:
    with pytest.raises(ValueError, match="what must stay is longer than 10 bytes"):
        fitted([Block("a", "a" * 11)], 10)


def test_a_block_without_items_is_none() -> None:
    assert block("a", [], "head", "foot") == Block("a", "")
