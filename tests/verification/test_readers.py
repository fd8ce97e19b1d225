"""Readers before a stranger's bundle: what they cannot read is named in one error, and nothing else comes out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness.errors import BundleError
from harness.evidence.bundle import Bundle
from harness.evidence.manifest import seal
from harness.judge.case import read_case
from harness.verification.verify import CHECKS, verify
from harness.workflow import judge_and_report
from tests.judge.bundles import WARM_TOO, Session

from .tampering import changed, files

pytestmark = pytest.mark.xdist_group("verification")

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2**63, -(2**63) - 1, 10**400, 1e308, -0.0, 0.5, math.nan, math.inf, -math.inf]),
    st.sampled_from(["", "x", "../../etc/passwd", "a" * 10_000, "\x00", "\ud800", "control", "1", "NaN", "mtp9"]),
    st.sampled_from([[], {}, [[]], {"": {}}, [None], [1, 2, 3], {"a": [0]}]),
)
"""Values that stand where others should."""

RAW = st.sampled_from(
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"0",
        b'""',
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"[" * 5000,
        b"9" * 5000,
        b"{}{}",
        b"\n\n\n",
    ]
)
"""Files that are no JSON, or no such JSON."""

FUZZ = settings(
    max_examples=100,
    derandomize=True,  # the same in every run: what is found by chance is put below as a case of its own
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bundle with warm and cold launches, sealed and judged."""
    bundle = Session(tmp_path_factory.mktemp("readers"), WARM_TOO).build()
    seal(bundle.root)
    judge_and_report(bundle)
    return bundle.root


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value; of a long list its first, which stand for the rest."""
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree[:3]) if isinstance(tree, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def put(tree: Any, path: tuple[Any, ...], how: str, value: Any) -> Any:
    """The value with one place changed."""
    if not path:
        return value
    holder = tree
    for key in path[:-1]:
        holder = holder[key]
    if how == "remove":
        del holder[path[-1]]
    elif how == "rename" and isinstance(holder, dict):
        holder[f"{path[-1]}x"] = holder.pop(path[-1])
    elif how == "twice" and isinstance(holder, list):
        holder.append(holder[path[-1]])
    else:
        holder[path[-1]] = value
    return tree


@st.composite
def mutated(draw: st.DrawFn, data: bytes, *, lines: bool) -> bytes:
    """A JSON document, or one line among others, with one place changed."""
    if draw(st.integers(0, 9)) == 0:
        return draw(RAW)
    parts = data.splitlines(keepends=True) if lines else [data]
    number = draw(st.integers(0, len(parts) - 1))
    tree = json.loads(parts[number])
    path = draw(st.sampled_from(list(places(tree))))
    how = draw(st.sampled_from(["replace", "replace", "replace", "remove", "rename", "twice"]))
    parts[number] = json.dumps(put(tree, path, how, draw(ODD))).encode() + b"\n" * lines
    return b"".join(parts)


def read_by_json(root: Path) -> list[str]:
    """Files that a reader parses."""
    return [n for n in files(root) if n.endswith((".json", ".jsonl")) and not n.startswith("report/")]


@FUZZ
@given(data=st.data())
def test_only_a_bundle_error_comes_out_of_the_readers(root: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(read_by_json(root)))
    path = root / name
    content = data.draw(mutated(path.read_bytes(), lines=name.endswith(".jsonl")))
    with changed(path, content):
        assert read(root).isprintable(), "one line"


def read(root: Path) -> str:
    """What a reader says of a bundle; '' where it says nothing."""
    try:
        case = read_case(Bundle(root))
        for launch in case.launches.values():
            assert launch.listings is not None
            assert launch.host_memory is not None
            assert launch.gpu is not None
    except BundleError as e:
        return str(e)
    return ""


QUICK = tuple(check for check in CHECKS if check[0] != "report")
"""A page per example would take most of the time, and reads nothing that the verdict has not read."""


@settings(FUZZ, max_examples=25, phases=(Phase.generate,))
@given(data=st.data())
def test_nothing_but_mismatches_comes_out_of_a_verification(root: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(read_by_json(root)))
    path = root / name
    before = path.read_bytes()
    content = data.draw(mutated(before, lines=name.endswith(".jsonl")))
    with changed(path, content):
        outcome = verify(str(root), checks=QUICK)
        assert outcome.verifies == (content == before)
        assert all(str(m).isprintable() for m in outcome.mismatches)


def test_an_entry_of_a_listing_that_is_none_is_shown_and_does_nothing(root: Path) -> None:
    """Found by the two above."""
    [path] = root.glob("launches/003-*/caches.json")
    with changed(path, b'{"end": {"inductor/0": "\\u001b[2J"}}'):
        assert read(root).endswith(r"not a table of listed files ('\x1b[2J' is not a size and a time)")
