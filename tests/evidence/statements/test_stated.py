"""What the host states, and the key that signs it."""

from __future__ import annotations

import base64
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from harness.evidence.bundle import Bundle, write_record
from harness.evidence.keys import HostKey
from harness.evidence.predicates import MEASUREMENTS, MEASUREMENTS_FILE, TEST_RESULT, TEST_RESULT_FILE
from harness.evidence.statement import signature_of, signer_text, write_statements
from harness.paths import PROJECT
from harness.words import Word

from .support import CHALLENGE, STATEMENTS, fields, manifest, tree


def test_the_published_package_reads_both(signed: Path) -> None:
    parse = import_module("google.protobuf.json_format").Parse
    published = import_module("in_toto_attestation.v1.statement").Statement
    message = import_module("in_toto_attestation.v1.statement_pb2").Statement
    kinds = []
    for name in STATEMENTS:
        statement = published.copy_from_pb(parse((signed / name).read_bytes(), message()))
        statement.validate()
        kinds.append(statement.pb.predicate_type)
    assert kinds == [MEASUREMENTS, TEST_RESULT]


def test_the_published_schema_of_a_test_result_reads_ours(signed: Path) -> None:
    published = import_module("in_toto_attestation.predicates.test_result.v0.test_result_pb2").TestResult
    predicate = tree(signed, TEST_RESULT_FILE)["predicate"]
    read = import_module("google.protobuf.json_format").ParseDict(predicate, published())
    assert (read.result, len(read.configuration)) == ("PASSED", 4)
    rows = Bundle(signed).verdict().rows
    assert len(read.passed_tests) == sum(r.word in {Word.PASS, Word.IMPROVED} for r in rows)
    assert not list(read.failed_tests)


@pytest.mark.parametrize(
    ("word", "result"),
    [
        (Word.PASS, "PASSED"),
        (Word.FAIL, "FAILED"),
        (Word.VOID, "FAILED"),
        (Word.INCONCLUSIVE, "FAILED"),
        (Word.SETUP_FAILURE, "FAILED"),
    ],
)
def test_what_shows_nothing_opens_no_gate(copy: Path, word: Word, result: str) -> None:
    bundle = Bundle(copy)
    write_record(bundle.verdict_file, bundle.verdict().model_copy(update={"verdict": word}))
    shutil.rmtree(copy / "report")
    for path in copy.glob("statement.*"):
        path.unlink()
    write_statements(bundle, None)
    assert tree(copy, TEST_RESULT_FILE)["predicate"]["result"] == result


def test_a_warning_is_stated(copy: Path) -> None:
    bundle = Bundle(copy)
    verdict = bundle.verdict()
    rows = (verdict.rows[0].model_copy(update={"word": Word.WARN}), *verdict.rows[1:])
    write_record(bundle.verdict_file, verdict.model_copy(update={"rows": rows}))
    for path in copy.glob("statement.*"):
        path.unlink()
    write_statements(bundle, None)
    predicate = tree(copy, TEST_RESULT_FILE)["predicate"]
    assert predicate["result"] == "WARNED"
    assert predicate["warnedTests"] == ["served to the end [mtp1 engine cold]"]


def test_the_measurements_carry_what_the_documentation_says(unsigned: Path) -> None:
    predicate = tree(unsigned, MEASUREMENTS_FILE)["predicate"]
    text = (PROJECT / "docs" / "statement.md").read_text("utf-8")
    assert MEASUREMENTS in text
    assert all(f"`{name}`" in text for name in predicate)
    assert predicate["challenge"] == CHALLENGE
    assert predicate["ended"] == "completed"
    files = [x["name"] for x in predicate["report"]]
    assert files == sorted(files)
    assert {"report/report.html", "report/report.md"} <= set(files)


def test_the_statements_are_no_evidence_since_they_carry_its_root_hash(signed: Path) -> None:
    assert "statement" not in manifest(signed).decode()


# --- who signed --------------------------------------------------------------------------------------


def test_without_a_key_all_says_unsigned(unsigned: Path) -> None:
    assert str(signature_of(unsigned)) == "unsigned"
    assert not list(unsigned.glob("*.dsse"))
    assert fields(unsigned) == set()
    assert "statements: `unsigned`" in (unsigned / "report" / "report.md").read_text("utf-8")
    assert "unsigned" in (unsigned / "report" / "report.html").read_text("utf-8")


def test_with_a_key_all_names_it(signed: Path, key: HostKey) -> None:
    assert str(signature_of(signed)) == f"signed by key {key.id[:12]}"
    assert str(signature_of(signed, trusted=[key.signer.public_key])) == f"signed by key {key.id[:12]} (trusted)"
    assert fields(signed) == fields(signed, key) == set()
    assert f"statements: `signed by key {key.id[:12]}`" in (signed / "report" / "report.md").read_text("utf-8")
    assert signer_text(None) == "unsigned"


def test_the_private_key_is_nowhere_in_the_bundle(signed: Path, key: HostKey) -> None:
    pem = key.path.read_text("ascii")
    secret = "".join(pem.splitlines()[1:-1])
    raw = base64.b64decode(secret)[-32:]
    for path in (p for p in signed.rglob("*") if p.is_file()):
        data = path.read_bytes()
        for form in (b"PRIVATE KEY", secret.encode(), raw, raw.hex().encode(), base64.b64encode(raw)[:-2]):
            assert form not in data, path


def test_a_signature_of_a_key_that_nobody_trusts_is_named(signed: Path, other: HostKey) -> None:
    assert fields(signed, other) == {(f"{name}.dsse", "signature") for name in STATEMENTS}


def test_an_unsigned_bundle_is_not_taken_by_who_trusts_a_key(unsigned: Path, key: HostKey) -> None:
    assert fields(unsigned, key) == {("run.json", "signer")}
