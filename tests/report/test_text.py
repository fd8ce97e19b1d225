"""Text of strangers, and figures that must add up."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.case import Case
from harness.records import Verdict
from harness.report.escape import fenced, inline
from harness.report.memories import thinned
from harness.report.starts import apportioned
from harness.report.summary import summary_lines
from harness.report.text import plural, public, shortened, tokens_text

Judged = tuple[Case, Verdict]


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m and \x1b]8;;http://x\x07link", "red and link"),
        ("a\r\nb", "a\nb"),
        (" 1%\r 2%\rdone", "done"),
        ("nul\x00 bell\x07 tab\t kept", "nul bell tab\t kept"),
        ("abc\u202edef\u200b", "abcdef"),
        ("lone \ud800 surrogate", "lone ? surrogate"),
        ("in /home/me/models/m-7b: no", "in …/m-7b: no"),
        ("~/models/x.bin", "…/x.bin"),
        ("file:///srv/a/b", "file://…/b"),
        ('"/a/lib/python3/site-packages/vllm/x.py"', '"…/site-packages/vllm/x.py"'),
        (
            "http://127.0.0.1:1/v1/models and POST /v1/completions HTTP",
            "http://127.0.0.1:1/v1/models and POST /v1/completions HTTP",
        ),
        ("103/151 and MiB/rank, launches/001/server.log:3", "103/151 and MiB/rank, launches/001/server.log:3"),
        ("GET /health", "GET /health"),
        ("tcp://10.1.2.3:29500 but version 10.1.2", "tcp://[address]:29500 but version 10.1.2"),
        ("the home /home/alice, of whom", "the home …/[user], of whom"),
        ("by jo@example.org, at http://rigel:80", "by [e-mail], at http://[host]:80"),
        ("nvidia-curand 10.4.0.35 in _fwd_kernel_64", "nvidia-curand 10.4.0.35 in _fwd_kernel_64"),
        ("token hf_abcdefghijklmnopqrstuvw!", "token [token]!"),
    ],
)
def test_public(given_text: str, shown: str) -> None:
    assert public(given_text) == shown


@given(st.text())
def test_inline_is_one_line_that_no_cell_or_mention_leaves(text: str) -> None:
    shown = inline(text)
    assert "\n" not in shown
    assert "<" not in shown
    assert not any(a == "@" and b.isalnum() for a, b in pairwise(shown))
    assert not any(b == "|" and a != "\\" for a, b in pairwise(f" {shown}"))


@given(st.text(alphabet="`a\n~"))
def test_fence_is_longer_than_any_run_inside(text: str) -> None:
    first, *inside, last = fenced(text).rstrip("\n").split("\n")
    assert first == f"{last}text"
    assert not any(line.startswith(last) for line in inside)


@given(st.lists(st.integers(0, 10**11), min_size=1, max_size=12))
def test_apportioned_parts_add_up_and_are_off_by_less_than_a_unit(parts: list[int]) -> None:
    unit = 10_000_000
    shown = apportioned(parts, unit)
    assert sum(shown) == round(sum(parts) / unit)
    assert all(abs(a * unit - b) <= unit for a, b in zip(shown, parts, strict=True))


def test_thinned_keeps_a_peak_that_lasted_one_sample() -> None:
    samples = [(float(i), 100.0 + (900.0 if i == 7777 else 0.0)) for i in range(10_000)]
    kept = thinned(samples, limit=300)
    assert len(kept) <= 302
    assert (7777.0, 1000.0) in kept
    assert kept == sorted(kept)


def test_small_words() -> None:
    assert [tokens_text(n) for n in (None, 1000, 2048, 32768)] == ["", "1,000", "2K", "32K"]
    assert plural(1, "row") == "1 row"
    assert plural(1200, "launch", "launches") == "1,200 launches"
    assert shortened(list("abcde")) == "a; b; c; and 2 more"


def test_terminal_codes_of_a_reason_do_not_reach_the_terminal(hostile: Judged) -> None:
    case, verdict = hostile
    lines = summary_lines(verdict, case.bundle.report_dir / "report.html")
    [line] = [x for x in lines if x.startswith("fail: served to the end [mtp1 engine cold]: ")]
    assert "red </pre><script>" in line
    assert not any(c in line for c in "\x1b\n\r\u202e")
    assert lines[-1] == f"report: {case.bundle.report_dir / 'report.html'}"
