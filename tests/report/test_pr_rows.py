"""The reviewers' rows, compact."""

from __future__ import annotations

from harness.records import Row, Verdict
from harness.report.pr_rows import pr_lines
from harness.words import Warmup, Word


def row(name: str, control: str | None, candidate: str | None, **more: object) -> Row:
    fields: dict[str, object] = {
        "mode": "mtp1",
        "warmup": Warmup.ENGINE,
        "cache": "warm",
        "word": Word.PASS,
        "reason": "",
    }
    return Row.model_validate(fields | {"name": name, "control": control, "candidate": candidate} | more)


def lines(*rows: Row) -> list[tuple[str, ...]]:
    verdict = Verdict(session="s", verdict=Word.PASS, exit_code=0, evidence_root_sha256="0" * 64, rows=rows)
    return [(x.subject, x.state, x.control, x.candidate, x.delta) for x in pr_lines(verdict)]


def test_rows_stand_in_the_reviewers_order_whatever_the_verdicts() -> None:
    found = lines(
        row("prefill", "1.0", "1.0"),
        row("KV tokens", "10", "10"),
        row("GPU sampling", "50", "50"),
        row("late JIT (engine's monitor)", "none", "none"),
    )
    assert [x[0] for x in found] == ["late JIT (engine's monitor)", "KV tokens", "prefill"]


def test_several_launches_are_a_median_with_its_range() -> None:
    [found] = lines(row("prefill", "1,000.0 / 1,100.0 / 1,050.0 / 1,060.0", "1,000.0 / - / 990.0 / 980.0"))
    assert found[2] == "1,055.0 (1,000.0 to 1,100.0)"
    assert found[3] == "990.0 (980.0 to 1,000.0, 1 of 4 void)"
    assert found[4] == "-6.2 %"


def test_equal_launches_and_equal_ranks_are_said_once() -> None:
    [found] = lines(row("residency", "29,452 (29,452-29,452) / 29,452 (29,452-29,452)", "29,460 (29,452-29,460)"))
    assert found[2:4] == ("29,452", "29,460 (29,452-29,460)")


def test_free_memory_is_one_course() -> None:
    found = lines(
        row("free at idle", "2,048", "2,048"),
        row("lowest free in first prompt", "2,000", "1,900", context_tokens=2048),
        row("lowest free in first prompt", "1,900", "1,348 / 1,400", context_tokens=32_768),
        row("free at the end", "2,000", "-"),
    )
    assert found == [
        (
            "lowest free: idle → first prompts → end",
            "mtp1 engine warm",
            "2,048 → 1,900 → 2,000",
            "2,048 → 1,348 → -",
            "-",
        )
    ]


def test_cells_that_say_the_same_are_one_line_and_others_are_not() -> None:
    def kv(mode: str, cache: str, tokens: str = "10") -> Row:
        return row("KV tokens", tokens, "10", mode=mode, cache=cache)

    [one] = lines(kv("mtp0", "cold"), kv("mtp0", "warm"), kv("mtp1", "cold"), kv("mtp1", "warm"))
    assert one[1] == "mtp0, mtp1 engine cold, warm"
    two = lines(kv("mtp0", "cold"), kv("mtp0", "warm", "11"), kv("mtp1", "warm"))
    assert [x[1] for x in two] == ["mtp0 engine cold; mtp1 engine warm", "mtp0 engine warm"]


def test_what_was_not_tested_and_has_no_figure_is_left_to_the_full_list() -> None:
    assert lines(row("KV tokens", None, None, word=Word.NOT_TESTED)) == []
    assert lines(row("KV tokens", None, None, word=Word.VOID)) != []


def test_a_unit_stands_beside_its_subject_once() -> None:
    rows = (row("start-up", "1.0", "1.0", unit="s"), row("KV tokens", "1", "1", unit="tokens"))
    assert [x[0] for x in lines(*rows)] == ["KV tokens", "start-up, s"]
