"""The published text: found again by its first line, with its history, marked where the head moved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.publish.body import HISTORY, Entry, compose, is_of, marker, parse, with_head
from harness.report.blocks import LIMIT
from tests.report.gfm import render

HEAD, MOVED = "1" * 40, "2" * 40
ENTRY = Entry(HEAD, "a" * 64, "2026-11-29T18:10:00+00:00", "setup failure", "20261129T180000Z-tiny-abc")
TEXT = "### PASS: x\n\nbody\n"


def entry(number: int) -> Entry:
    return replace(ENTRY, root=f"{number:064x}", verdict="pass")


def chain(count: int) -> str:
    """Published this many times, each time with other evidence."""
    body = compose("tiny", entry(0), TEXT, None, HEAD)
    for number in range(1, count):
        body = compose("tiny", entry(number), TEXT, parse(body), HEAD)
    return body


def test_it_says_what_it_is_and_nobody_sees_it() -> None:
    body = compose("tiny", ENTRY, TEXT, None, HEAD)
    assert is_of(body, "tiny")
    assert parse(body).current == ENTRY
    assert body.partition("\n")[2] == TEXT
    assert "qualify profile" not in "".join(render(body).prose)


@pytest.mark.parametrize("name", ["a b", "-->", "--", "ä/ö", "a -->\n<script>", "tiny", "tin"], ids=range(7))
def test_a_profile_is_not_taken_for_another_and_ends_no_comment(name: str) -> None:
    body = compose(name, ENTRY, TEXT, None, HEAD)
    assert is_of(body, name)
    assert not is_of(body, f"{name}2")
    assert marker(name).count("--") == 1
    assert render(body).tags[1:] == render(TEXT).tags


def test_a_marker_that_is_quoted_is_none() -> None:
    body = compose("tiny", ENTRY, TEXT, None, HEAD)
    assert not is_of(f"> {body}", "tiny")
    assert not is_of(f"\n{body}", "tiny")


def test_a_moved_head_is_told_first_with_both_and_no_longer_once_it_is_back() -> None:
    fresh = compose("tiny", ENTRY, TEXT, None, HEAD)
    stale = with_head(fresh, MOVED)
    told = f"> **STALE**: measured at `{HEAD}`, and the pull request's head is `{MOVED}` by now."
    assert stale.splitlines()[1] == "> [!WARNING]"
    assert stale.splitlines()[2].startswith(told)
    assert "blockquote" in render(stale).tags
    assert compose("tiny", ENTRY, TEXT, None, MOVED) == stale
    assert with_head(stale, HEAD) == fresh
    assert with_head(stale, MOVED) == stale
    assert with_head(stale, "3" * 40).count("STALE") == 1
    assert parse(stale) == parse(fresh)


def test_earlier_evidence_is_kept_latest_first_each_once() -> None:
    body = chain(3)
    assert [e.root for e in parse(body).history] == [entry(1).root, entry(0).root]
    again = compose("tiny", entry(2), TEXT, parse(body), HEAD)
    assert again == body, "the same evidence again changes nothing"
    back = compose("tiny", entry(0), TEXT, parse(body), HEAD)
    assert [e.root for e in parse(back).history] == [entry(2).root, entry(1).root]
    assert "Earlier evidence in this comment (2)" in body
    assert f"**pass** root `{entry(1).root}` head `{HEAD}`" in body


def test_the_history_is_bounded_and_so_is_the_whole() -> None:
    body = chain(HISTORY + 5)
    assert [e.root for e in parse(body).history] == [entry(n).root for n in range(HISTORY + 3, 3, -1)]
    assert f"({HISTORY}, the last {HISTORY})" in body
    long = replace(ENTRY, session="s" * 200)
    text = "x" * LIMIT
    for number in range(HISTORY + 2):
        body = compose("p" * 60, replace(long, root=f"{number:064x}"), text, parse(body), MOVED)
    assert len(body.encode()) < 65_536


@pytest.mark.parametrize(
    "edited",
    [
        "<!-- qualify profile=tiny gone -->",
        f"<!-- qualify profile=tiny head={HEAD} root={'b' * 64} ended=now verdict=pass session=%60%0A%40team -->",
        f"<!-- qualify profile=tiny head=@team root={'b' * 64} ended=now verdict=pass session=s -->",
        f"<!-- qualify profile=tiny head={HEAD} root={'b' * 64} ended=now verdict=great session=s -->",
    ],
    ids=["gone", "session", "head", "verdict"],
)
def test_what_somebody_else_wrote_into_it_does_not_go_on_into_the_next_one(edited: str) -> None:
    history = "<details><summary>Earlier evidence in this comment (1)</summary>\n\n- now **pass** root `x` @team\n"
    body = compose("tiny", ENTRY, TEXT, parse(f"{edited}\n{TEXT}\n{history}"), HEAD)
    assert body == compose("tiny", ENTRY, TEXT, None, HEAD)


def test_the_editor_of_github_changes_the_ends_of_lines() -> None:
    body = chain(3)
    assert parse(body.replace("\n", "\r\n")) == parse(body)


@given(text=st.text())
def test_any_body_can_be_read(text: str) -> None:
    assert parse(text).history == ()
