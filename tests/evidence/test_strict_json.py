"""JSON that two readers could take for two things is none."""

from __future__ import annotations

import pytest

from harness.evidence.strict_json import parse


def test_what_the_harness_writes_is_read() -> None:
    assert parse('{"a": [1, 2.5, null, "é"]}'.encode()) == {"a": [1, 2.5, None, "é"]}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"a": 1, "a": 1}', "key 'a' stands there twice"),
        (b'{"b": {"a": 1, "a": 2}}', "key 'a' stands there twice"),
        (b"[NaN]", "NaN is no JSON value"),
        (b"[-Infinity]", "-Infinity is no JSON value"),
        (b"9" * 5000, "digits"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a":' * 100_000, "nested too deep"),
        (b'"\xff"', "can't decode"),
        ("{}".encode("utf-16"), "can't decode"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b"", "Expecting value"),
        (b"{} {}", "Extra data"),
    ],
    ids=[
        "twice",
        "twice-inside",
        "nan",
        "infinity",
        "digits",
        "deep-list",
        "deep-object",
        "latin",
        "utf-16",
        "bom",
        "nothing",
        "two",
    ],
)
def test_what_is_ambiguous_or_none_is_named(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(data)
