"""The comment: its order, its size, and that strangers' text can do nothing in it."""

from __future__ import annotations

import re
from pathlib import Path

from harness.judge.case import Case, read_case
from harness.judge.verdict import judge
from harness.records import Row, Verdict
from harness.report.blocks import LIMIT, Block, fitted, length
from harness.report.markdown import comment
from harness.words import Word
from tests.report.bundles import make_bundle, plan
from tests.report.conftest import CANDIDATE, HOSTILE
from tests.report.writing import Faults

Judged = tuple[Case, Verdict]
GITHUB_LIMIT = 65_536


def table_names(text: str) -> list[str]:
    """First cells of the tables' rows, each name once."""
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| row |")]
    return list(dict.fromkeys(line.split(" | ")[0].removeprefix("| ") for line in rows))


def test_rows_stand_in_the_reviewers_order(sound: Judged) -> None:
    names = table_names(comment(*sound))
    expected = [
        "late JIT (engine's monitor)",
        "late compiles (caches)",
        "KV tokens",
        "host RSS idle",
        "accepted / drafted, decode",
        "identity, candidate vs control",
        "start-up",
        "first prompt",
        "prefill",
        "decode steps",
        "decode",
        "served to the end",
    ]
    assert [n for n in names if n in expected] == expected


def test_cold_start_stands_before_warm_start_and_2k_before_32k(sound: Judged) -> None:
    case, verdict = sound

    def row(name: str, cache: str, context: int | None) -> Row:
        return Row(name=name, cache=cache, context_tokens=context, control="1", word=Word.PASS, reason="r")

    rows = (
        row("prefill", "cold", 32768),
        row("prefill", "warm", 2048),
        row("start-up", "warm", None),
        row("start-up", "cold", None),
        row("late JIT (tracer)", "cold", None),
    )
    text = comment(case, verdict.model_copy(update={"rows": rows}))
    cells = [line.split(" | ")[:2] for line in text.splitlines() if line.startswith("| ")][1:]
    assert cells == [
        ["| late JIT (tracer)", "cold"],
        ["| start-up", "cold"],
        ["| start-up", "warm"],
        ["| prefill", "warm 2048"],
        ["| prefill", "cold 32768"],
    ]


def test_parts_come_in_order_and_it_closes_with_what_is_not_claimed(sound: Judged) -> None:
    case, verdict = sound
    text = comment(case, verdict)
    parts = [
        verdict.verdict.upper(),
        "| late JIT",
        "### What ran",
        verdict.evidence_root_sha256,
        "### What is not claimed",
    ]
    places = [text.rindex(p) for p in parts]
    assert places == sorted(places)
    assert text.splitlines()[-1].startswith("- Anything beyond the rows above")
    assert "one pair shows no spread" in text.partition("### What is not claimed")[2]


def test_identities_name_both_arms_without_paths(sound: Judged) -> None:
    text = comment(*sound)
    assert "- candidate: stack patched, vLLM 0.32.0, tiny-mtp, model.safetensors sha256 c0ffeec0ffee" in text
    assert "against the profile: --max-num-seqs 4" in text
    assert "/home/somebody" not in text


def test_log_tail_cannot_leave_its_fence(hostile: Judged) -> None:
    text = comment(*hostile)
    opening = text.index("`````text\n")
    inside, _, after = text[opening + len("`````text\n") :].partition("\n`````\n")
    assert "```\n````text\n</details>" in inside
    assert "</pre><script>alert(1)</script> @someone" in inside
    assert not re.search("[\x1b\u202e]", text)
    assert "/home/somebody" not in text
    outside = text[:opening] + after
    assert "<script" not in outside
    assert not re.search(r"@\w|#\d|(?<!\\)`{2}", outside)
    assert outside.count("<details>") == outside.count("</details>") == 1
    assert "@\u200bsomeone" in outside


def test_reason_cannot_format_mention_or_break_the_table(sound: Judged) -> None:
    case, verdict = sound
    evil = (
        "a | b\n| c @team/x **bold** [l](https://github.com/o/r/issues/1) www.x.org $x$ GH-7 &#64;you _i_ `c` "
        "snake_case"
    )
    row = Row(name="prefill", control="1", word=Word.WARN, reason=evil)
    text = comment(case, verdict.model_copy(update={"rows": (row,)}))
    [line] = [x for x in text.splitlines() if x.startswith("| prefill")]
    assert len(re.findall(r"(?<!\\)\|", line)) == 8
    assert "https:/\u200b" not in line
    assert "https://\u200bgithub.com" in line
    for harmless in (
        "@\u200bteam",
        r"\*\*bold\*\*",
        r"\[l\]",
        "www.\u200bx.org",
        r"\$x\$",
        "GH-\u200b7",
        r"\_i\_",
        r"\`c\`",
    ):
        assert harmless in line, harmless
    assert "&amp;#\u200b64;you" in line or "&amp;#64;you" in line
    assert "snake_case" in line


def test_failed_launch_is_told_with_stage_reason_and_exit(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle", Faults(failed=CANDIDATE))
    text = comment(read_case(bundle), judge(bundle))
    assert (
        f"**{CANDIDATE}**: failed at health: the server ended by itself (exit code 1) (exit code 1, by itself" in text
    )
    assert "```text\nTraceback (most recent call last):\nValueError: no\n```" in text
    assert text.startswith("## FAIL: tiny, base vs patched")


def test_too_long_a_report_is_cut_at_its_end_and_says_so(hostile: Judged) -> None:
    case, verdict = hostile
    rows = tuple(
        Row(name=f"check {n}", control="1", candidate="2", word=Word.NOTE, reason=f"{n}: {HOSTILE}") for n in range(300)
    )
    text = comment(case, verdict.model_copy(update={"rows": rows}))
    assert length(text) <= LIMIT < GITHUB_LIMIT
    assert text.startswith("## FAIL")
    assert verdict.evidence_root_sha256 in text
    cut = re.search(r"Not shown: what stands out \((\d+) of 300\), rows \(300 of 300\)", text)
    assert cut
    assert text.count("- **note** check") == 300 - int(cut[1])
    assert "report.html in the bundle holds everything" in text
    assert text.splitlines()[-1].startswith("- Anything beyond the rows above")


def test_blocks_are_cut_between_items_only() -> None:
    blocks = [Block("a", ("x" * 40 + "\n",) * 3), Block("b", ("y" * 30 + "\n",) * 99, head="<d>\n", foot="</d>\n")]
    closing = Block("c", ("end\n",))
    text = fitted([*blocks, Block("z", ("z\n",))], closing, limit=3000)
    shown = text.count("y" * 30 + "\n")
    assert 0 < shown < 99
    assert text.count("<d>") == text.count("</d>") == 1
    assert f"b ({99 - shown} of 99), z (1 of 1)" in text
    assert text.endswith("end\n")
    assert "Cut" not in fitted(blocks, closing)


def test_emoji_count_twice() -> None:
    assert length("a\U0001f600") == 3


def test_interrupted_session_without_rows(tmp_path: Path) -> None:
    everything = tuple(x.id for x in plan().launches)
    bundle = make_bundle(tmp_path / "bundle", Faults(not_started=everything, interrupted="Ctrl-C"))
    empty = Verdict(session="s", verdict=Word.INCONCLUSIVE, exit_code=10, evidence_root_sha256="0" * 64, rows=())
    text = comment(read_case(bundle), empty)
    assert text.startswith("## INCONCLUSIVE: tiny, base vs patched")
    assert "the session was interrupted: Ctrl-C" in text
    assert f"never started: {everything[0]}; {everything[1]}" in text
