"""Whatever a server under test writes: in a comment it formats nothing, links nothing, and leaves no fence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.escape import breakable, code, fenced, inline
from tests.report.gfm import INVISIBLE, Rendered, render

FRAGMENTS = (
    *("@octocat", "@org/team", "x@y.example", "user@1a2b3c4d", "#12", "GH-7", "org/repo#3", "gh-12", "1a2b3c4d5e6f"),
    *("DEADBEEF0123", "https://evil.example/x", "http://a.b", "ftp://a.b", "www.evil.example", "mailto:a@b.c"),
    *("xmpp:a@b.c", "![i](http://a.b/c.png)", "[l](/x)", "[l]: http://a.b", "[^1]", "<https://a.b>", "<b>", "</td>"),
    *("</details>", "<!--", "-->", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;", "&#64;you"),
    *(
        "|",
        "\\",
        "\\|",
        "`",
        "``",
        "```",
        "````",
        "~~~",
        "~~",
        "**",
        "__",
        "_a_",
        "*a*",
        "$x$",
        "$$",
        "- ",
        "+ ",
        "1. ",
    ),
    *(
        "# ",
        "> ",
        "===",
        "---",
        "    ",
        "\t",
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "\x00",
        "\x1b[31m",
        "\u202e",
        "\u2066",
        "\u200b",
    ),
    *(
        "\ud800",
        "\U000e0041",
        ":shipit:",
        ":+1:",
        ":100:",
        "12:30:45",
        "[x]",
        "[ ] ",
        "!",
        "/retest",
        "a_b_c",
        "é",
        "漢",
    ),
)
HOSTILE = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=12).map("".join)


def shape(rendered: Rendered) -> list[str]:
    """Tags without those that set a hash as code."""
    return [tag for tag in rendered.tags if tag not in {"code", "/code"}]


def without_links(rendered: Rendered) -> None:
    assert list(rendered.links()) == []
    assert not {"a", "img"} & set(rendered.tags)
    assert not INVISIBLE.search(rendered.html.replace("\n", ""))


@pytest.mark.parametrize(
    "template",
    [
        "| a | b |\n|:--|:--|\n| {} | end |\n| x | y |\n",
        "- **word** {}: after\n- next\n",
        "- {}\n- next\n",
        "say {} so\n",
    ],
    ids=["table", "list", "list-start", "paragraph"],
)
@given(text=HOSTILE)
def test_text_in_a_line_is_only_text(template: str, text: str) -> None:
    rendered = render(template.format(inline(text)))
    without_links(rendered)
    harmless = render(template.format("x" if inline(text) else ""))
    assert shape(rendered) == shape(harmless)
    assert [len(row) for row in rendered.rows] == [len(row) for row in harmless.rows]


@given(text=HOSTILE)
def test_a_log_stays_inside_its_fence(text: str) -> None:
    rendered = render(f"<details><summary>log</summary>\n\n{fenced(text)}\n</details>\n\nafter\n")
    without_links(rendered)
    assert rendered.tags == ["details", "summary", "/summary", "pre", "code", "/code", "/pre", "/details", "p", "/p"]
    assert len(rendered.blocks) == 1


@given(text=HOSTILE)
def test_a_long_word_may_be_broken_and_is_still_only_text(text: str) -> None:
    rendered = render(f"| a |\n|:--|\n| {breakable(inline(text), 3)} |\n")
    without_links(rendered)
    assert shape(rendered) == shape(render("| a |\n|:--|\n| x |\n"))


@given(text=HOSTILE)
def test_an_identity_is_one_span_of_code(text: str) -> None:
    rendered = render(f"- {code(text)} after\n")
    without_links(rendered)
    assert rendered.tags == ["ul", "li", "code", "/code", "/li", "/ul"]


@given(text=HOSTILE)
def test_what_is_too_long_is_cut_before_it_is_escaped(text: str) -> None:
    without_links(render(f"- {inline(text, 20)} after\n"))


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("_map_kernel[BLOCK=4] | 3 * 2", "_map_kernel[BLOCK=4] | 3 * 2"),
        ("+0 (+0.000 %)", "+0 (+0.000 %)"),
        ("-2.2 s", "-2.2 s"),
        ("1. first", "1. first"),
        ("a & b < c > d", "a & b < c > d"),
        ("sha256 749e1f30f04e (first)", "sha256 749e1f30f04e (first)"),
    ],
)
def test_honest_text_reads_as_it_was(text: str, seen: str) -> None:
    [_, [cell]] = render(f"| a |\n|:--|\n| {inline(text)} |\n").rows
    assert cell == seen


def test_a_hash_can_be_copied() -> None:
    assert inline("head 63b77c803149 moved") == "head `63b77c803149` moved"


def test_robots_find_no_name_in_a_fence() -> None:
    assert "@dependabot" not in fenced("@dependabot merge")


def test_a_fence_is_longer_than_any_inside() -> None:
    assert fenced("````\nx").startswith("`````text\n")
