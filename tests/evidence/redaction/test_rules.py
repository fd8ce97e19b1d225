"""Each rule finds what it is for, and eats nothing that evidence is made of."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evidence.redaction.finding import Found, found_in_bytes, found_in_text, hidden, settled
from harness.evidence.redaction.kinds import Kind
from harness.evidence.redaction.rules import RULES
from tests.evidence.redaction.planted import KEY_LINES, PRIVATE_KEY, SHOWN, STAYS


@pytest.mark.parametrize("name", SHOWN)
def test_it_is_found_in_a_file_and_in_a_text(name: str) -> None:
    kind, text, private = SHOWN[name]
    for found in (found_in_text(text), found_in_bytes(text.encode())):
        [one] = [one for one in found if private in one.value]
        assert one.kind is kind
    assert private not in hidden(text) or kind is Kind.UUID


@pytest.mark.parametrize("name", STAYS)
def test_it_stays(name: str) -> None:
    assert [one.value for one in found_in_bytes(STAYS[name].encode())] == []
    assert hidden(STAYS[name]) == STAYS[name]


def test_every_rule_finds_something_of_the_planted() -> None:
    texts = [text for _, text, _ in SHOWN.values()] + [PRIVATE_KEY, "jdoe@rigel:~$ ls", "cd ~jdoe/x", "/scratch/jdoe/x"]
    texts += ["http://rigel.lab.internal/"]
    blind = [rule.pattern for rule in RULES if not any(rule.in_text.search(text) for text in texts)]
    assert blind == []


@pytest.mark.parametrize("joined", ["\n", "\\n", " \n"])
def test_a_private_key_is_found_whole(joined: str) -> None:
    text = PRIVATE_KEY.replace("\n", joined)
    [one] = found_in_bytes(f"a\n{text}\nb".encode())
    assert one.kind is Kind.KEY
    assert all(line in one.value for line in KEY_LINES)


def test_a_private_key_that_was_cut_off_is_found_too() -> None:
    [one] = found_in_bytes(PRIVATE_KEY[:80].encode())
    assert one.kind is Kind.KEY


def test_a_report_names_the_kind_of_what_it_hides() -> None:
    assert hidden("at 192.168.0.7, by jo@example.org") == "at [address], by [e-mail]"


def test_a_report_tells_gpus_apart() -> None:
    uuid = SHOWN["GPU"][2]
    assert hidden(uuid) == uuid


def test_what_overlaps_is_one_thing_the_first_rule_has_it() -> None:
    found = settled([Found(4, 9, Kind.TOKEN, "b"), Found(0, 5, Kind.USER, "a"), Found(9, 12, Kind.HOST, "c")])
    assert [(one.begin, one.kind) for one in found] == [(4, Kind.TOKEN), (9, Kind.HOST)]


@given(st.binary(max_size=300))
def test_any_bytes_are_read_and_places_are_in_order(data: bytes) -> None:
    found = found_in_bytes(data)
    assert all(a.end <= b.begin for a, b in pairwise(found))
    assert all(0 <= one.begin < one.end <= len(data) for one in found)
