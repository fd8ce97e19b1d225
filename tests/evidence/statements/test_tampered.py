"""Statements are made again from the bundle and compared field by field: what does not hold is named."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.evidence.bundle import Bundle
from harness.evidence.keys import HostKey
from harness.evidence.manifest import MANIFEST
from harness.evidence.predicates import MEASUREMENTS_FILE, TEST_RESULT_FILE
from harness.evidence.statement import envelope, signature_of
from harness.records import Signer

from .support import STATEMENTS, fields, tree


def edit(root: Path, name: str, change: Callable[[Any], None]) -> None:
    data = tree(root, name)
    change(data)
    (root / name).write_text(json.dumps(data, indent=1) + "\n", "utf-8")


def result(data: Any) -> None:
    data["predicate"]["result"] = "WARNED"


def figure(data: Any) -> None:
    data["predicate"]["rows"][0]["candidate"] = "99"


def challenge(data: Any) -> None:
    data["predicate"]["challenge"] = "another"


def subject(data: Any) -> None:
    data["subject"].pop()


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        (TEST_RESULT_FILE, result, "predicate.result"),
        (MEASUREMENTS_FILE, figure, "predicate.rows.0.candidate"),
        (MEASUREMENTS_FILE, challenge, "predicate.challenge"),
        (MEASUREMENTS_FILE, subject, "subject.1.name"),
    ],
)
def test_an_edited_statement_is_named_by_its_field(
    copy: Path, name: str, change: Callable[[Any], None], field: str
) -> None:
    edit(copy, name, change)
    assert {(name, field), (f"{name}.dsse", "payload")} <= fields(copy)


def test_the_same_values_in_other_bytes_are_named_too(copy: Path) -> None:
    (copy / MEASUREMENTS_FILE).write_text(json.dumps(tree(copy, MEASUREMENTS_FILE)), "utf-8")
    assert (MEASUREMENTS_FILE, "bytes") in fields(copy)


def report(root: Path) -> str:
    path = root / "report" / "report.html"
    path.write_bytes(path.read_bytes().replace(b"pass", b"Pass", 1))
    return "predicate.report.1.digest.sha256"


def verdict(root: Path) -> str:
    path = root / "verdict.json"
    path.write_bytes(path.read_bytes().replace(b'"pass"', b'"improved"', 1))
    return "predicate.verdict.digest.sha256"


def added_page(root: Path) -> str:
    before = sum(path.is_file() for path in (root / "report").rglob("*"))
    (root / "report" / "zzz.html").write_bytes(b"<p>PASS")
    return f"predicate.report.{before}.name"


def sums(root: Path) -> str:
    with (root / MANIFEST).open("ab") as stream:
        stream.write(b"0" * 64 + b"  added\n")
    return "predicate.evidence.digest.sha256"


@pytest.mark.parametrize("change", [report, verdict, added_page, sums])
def test_what_changed_after_the_signature_is_named(copy: Path, change: Callable[[Path], str]) -> None:
    expected = change(copy)
    assert (MEASUREMENTS_FILE, expected) in fields(copy)


def test_a_wrong_signature_is_named(copy: Path) -> None:
    def flip(data: Any) -> None:
        raw = bytearray(base64.b64decode(data["signatures"][0]["sig"]))
        raw[0] ^= 1
        data["signatures"][0]["sig"] = base64.b64encode(raw).decode()

    edit(copy, f"{MEASUREMENTS_FILE}.dsse", flip)
    assert fields(copy) == {(f"{MEASUREMENTS_FILE}.dsse", "signature")}


def test_a_signature_of_another_key_under_the_name_of_the_first_is_named(
    copy: Path, key: HostKey, other: HostKey
) -> None:
    data = json.loads(envelope((copy / MEASUREMENTS_FILE).read_bytes(), other))
    data["signatures"][0]["keyid"] = key.id
    (copy / f"{MEASUREMENTS_FILE}.dsse").write_text(json.dumps(data), "utf-8")
    assert fields(copy) == {(f"{MEASUREMENTS_FILE}.dsse", "signature")}


def test_a_signature_that_was_taken_away_is_named(copy: Path) -> None:
    (copy / f"{MEASUREMENTS_FILE}.dsse").unlink()
    assert fields(copy) == {(f"{MEASUREMENTS_FILE}.dsse", "signature")}
    for path in copy.glob("*.dsse"):
        path.unlink()
    assert str(signature_of(copy)) == "unsigned"
    assert fields(copy) == {(f"{name}.dsse", "signature") for name in STATEMENTS}


def test_a_statement_that_was_taken_away_or_added_is_named(copy: Path) -> None:
    (copy / TEST_RESULT_FILE).unlink()
    (copy / "statement.better.intoto.json").write_bytes(b"{}")
    assert fields(copy) == {(TEST_RESULT_FILE, "file"), ("statement.better.intoto.json", "file")}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"payload": 1, "payloadType": 2, "signatures": 3}',
        '{"payload": "", "payloadType": "x", "signatures": []}',
        '{"payload": "e30=", "payloadType": "application/vnd.in-toto+json", "signatures": [{}]}',
        '{"payload": "e30=", "payloadType": "application/vnd.in-toto+json", "signatures": [{"keyid": 1, "sig": "A"}]}',
        "[" * 100_000,
    ],
    ids=["empty", "torn", "list", "null", "no field", "numbers", "other type", "no sig", "no key id", "deep"],
)
def test_an_envelope_that_is_none_is_named_and_not_raised(copy: Path, text: str) -> None:
    name = f"{TEST_RESULT_FILE}.dsse"
    (copy / name).write_text(text, "utf-8")
    assert {file for file, _ in fields(copy)} == {name}


def test_a_public_key_that_is_not_the_named_one_is_named(copy: Path, other: HostKey) -> None:
    bundle = Bundle(copy)
    run = bundle.run()
    assert run.signer is not None
    swapped = run.model_copy(update={"signer": Signer(key_id=run.signer.key_id, public=other.public)})
    write = json.dumps(swapped.model_dump(mode="json"))
    bundle.run_file.write_text(write, "utf-8")
    assert ("run.json", "signer.key_id") in fields(copy)
