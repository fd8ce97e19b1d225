"""What the host states: made again from the bundle, compared field by field, and signed by the key that it names."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.evidence.bundle import Bundle, write_record
from harness.evidence.keys import HostKey, make_key
from harness.evidence.manifest import MANIFEST, seal
from harness.evidence.pipe import FOLDER
from harness.evidence.predicates import MEASUREMENTS, MEASUREMENTS_FILE, TEST_RESULT, TEST_RESULT_FILE
from harness.evidence.sessions import enter_end, enter_start
from harness.evidence.statement import (
    check_statement,
    envelope,
    signature_of,
    signer_text,
    standing,
    write_statements,
)
from harness.judge.case import read_case
from harness.judge.verdict import Judged
from harness.records import Signer
from harness.words import Word
from harness.workflow import judge_again, judge_and_report
from tests.judge.bundles import Session
from tests.verification.tampering import looked_at

STATEMENTS = (MEASUREMENTS_FILE, TEST_RESULT_FILE)
CHALLENGE = "https://forge.example/pull/126#comment-1"


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> HostKey:
    return make_key(tmp_path_factory.mktemp("keys") / "host.pem")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> HostKey:
    return make_key(tmp_path_factory.mktemp("other") / "host.pem")


@pytest.fixture(scope="module")
def unsigned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judged bundle of a host without a key."""
    bundle = Session(tmp_path_factory.mktemp("unsigned"), {"plan.challenge": CHALLENGE}).build()
    seal(bundle.root)
    judge_and_report(bundle)
    return bundle.root


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory, key: HostKey) -> Path:
    """The same, of a host with one."""
    bundle = Session(tmp_path_factory.mktemp("signed")).build()
    named = bundle.run().model_copy(update={"signer": Signer(key_id=key.id, public=key.public)})
    write_record(bundle.run_file, named)
    seal(bundle.root)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("QUALIFY_KEY", str(key.path))
        judge_and_report(bundle)
    return bundle.root


@pytest.fixture
def copy(signed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed, tmp_path / "copy"))


def manifest(root: Path) -> bytes:
    return (root / MANIFEST).read_bytes()


def tree(root: Path, name: str) -> Any:
    return json.loads((root / name).read_bytes())


def fields(root: Path, *trusted: HostKey) -> set[tuple[str, str]]:
    found = check_statement(root, manifest(root), trusted=[k.signer.public_key for k in trusted])
    return {(m.file, m.field) for m in found}


# --- what is stated ----------------------------------------------------------------------------------


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
    text = (Path(__file__).resolve().parents[2] / "docs" / "statement.md").read_text("utf-8")
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


# --- judged again ------------------------------------------------------------------------------------


def stated(root: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in root.glob("statement.*")}


def other_verdict(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another version of the harness judges."""
    derived = bundle.verdict().model_copy(update={"verdict": Word.FAIL, "exit_code": 1})
    monkeypatch.setattr("harness.workflow.judged", lambda of: Judged(read_case(of), derived))


@pytest.mark.parametrize("of", ["signed", "unsigned"])
@pytest.mark.parametrize("holder", ["host", "another", "nobody"])
def test_who_judges_again_leaves_the_statements_as_they_are_and_is_told_that_they_fit(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str, holder: str
) -> None:
    root = Path(shutil.copytree(request.getfixturevalue(of), tmp_path / "copy"))
    if holder != "nobody":
        mine: HostKey = request.getfixturevalue("key" if holder == "host" else "other")
        monkeypatch.setenv("QUALIFY_KEY", str(mine.path))
    before = stated(root)
    _, lines = judge_again(Bundle(root))
    assert f"statements: {signature_of(root)}" in lines
    assert stated(root) == before
    assert fields(root) == set()


@pytest.mark.parametrize("of", ["signed", "unsigned"])
def test_a_verdict_that_changed_makes_the_statements_stale_and_replaces_none(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: HostKey, of: str
) -> None:
    root = Path(shutil.copytree(request.getfixturevalue(of), tmp_path / "copy"))
    bundle = Bundle(root)
    before = stated(root)
    monkeypatch.setenv("QUALIFY_KEY", str(key.path))
    other_verdict(bundle, monkeypatch)
    verdict, lines = judge_again(bundle)
    assert (verdict.verdict, bundle.verdict().verdict) == (Word.FAIL, Word.FAIL)
    [told] = [line for line in lines if line.startswith("statements: ")]
    assert told.startswith(f"statements: {signature_of(root)}, but stale: {MEASUREMENTS_FILE}: predicate.verdict.word:")
    assert 'says "pass", is "fail"' in told
    assert stated(root) == before
    assert (MEASUREMENTS_FILE, "predicate.verdict.word") in fields(root)


def test_a_report_that_is_another_one_makes_them_stale_until_it_is_written_as_it_was(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = stated(copy)
    (copy / "report" / "report.md").write_bytes(b"PASS")
    assert f"but stale: {MEASUREMENTS_FILE}: predicate.report." in standing(Bundle(copy))
    assert main(["report", str(copy)]) == 0
    assert capsys.readouterr().out.startswith(f"statements: {signature_of(copy)}\n")
    assert stated(copy) == before


def bare(root: Path, to: Path) -> Bundle:
    """A bundle without any statement."""
    shutil.copytree(root, to)
    for path in to.glob("statement.*"):
        path.unlink()
    return Bundle(to)


def told_of(bundle: Bundle) -> str:
    _, lines = judge_again(bundle)
    assert stated(bundle.root) == {}
    [told] = [line for line in lines if line.startswith("statements: ")]
    return told


def test_none_is_invented_for_a_bundle_of_before_there_were_any(
    unsigned: Path, tmp_path: Path, key: HostKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUALIFY_KEY", str(key.path))
    bundle = bare(unsigned, tmp_path / "old")
    why = "the bundle is of before there were any"
    assert told_of(bundle) == f"statements: none: {why}"
    outcome = looked_at(bundle.root, "statements")
    assert outcome.verifies
    assert [found.unchecked for _, found in outcome.found] == [(f"statements: {why}",)]
    assert fields(bundle.root, key) >= {("run.json", "signer")}, "who trusts a key wants its signature"


def test_none_is_invented_for_a_session_that_was_killed(signed: Path, tmp_path: Path, key: HostKey) -> None:
    bundle = bare(signed, tmp_path / "killed")
    write_record(bundle.run_file, bundle.run().model_copy(update={"interrupted": "killed"}))
    (bundle.root / MANIFEST).unlink()
    seal(bundle.root)
    assert told_of(bundle) == "statements: none: the session was killed before it could state anything"
    assert fields(bundle.root) == set()
    assert {(f"{name}", "file") for name in STATEMENTS} <= fields(bundle.root, key)


def test_none_is_invented_for_a_session_that_was_killed_once_it_was_sealed(
    signed: Path, tmp_path: Path, key: HostKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next session enters its end into the ledger, and no verdict with it."""
    monkeypatch.setenv("QUALIFY_LEDGER", str(tmp_path / "ledger.jsonl"))
    bundle = bare(signed, tmp_path / "killed")
    enter_start(bundle)
    enter_end(bundle, None, "killed")
    assert told_of(bundle) == "statements: none: the session was killed before it could state anything"
    assert fields(bundle.root) == set()
    assert {(f"{name}", "file") for name in STATEMENTS} <= fields(bundle.root, key)


def test_statements_that_cannot_be_read_cost_no_verdict(copy: Path) -> None:
    (copy / MEASUREMENTS_FILE).write_bytes(b" " * (33 << 20))
    verdict, lines = judge_again(Bundle(copy))
    assert verdict.verdict is Word.PASS
    [told] = [line for line in lines if line.startswith("statements: ")]
    assert told.startswith("statements: unreadable: ")
    assert "larger than" in told


def test_a_signature_that_does_not_hold_is_not_called_stale(copy: Path) -> None:
    envelope = copy / f"{MEASUREMENTS_FILE}.dsse"
    tree = json.loads(envelope.read_bytes())
    tree["signatures"][0]["sig"] = base64.b64encode(b"x" * 64).decode()
    envelope.write_text(json.dumps(tree), "utf-8")
    assert standing(Bundle(copy)).startswith(f"not what their signature covers: {MEASUREMENTS_FILE}.dsse: signature")


@pytest.mark.parametrize("era", ["signer", "journals"])
def test_a_session_that_must_have_stated_something_and_holds_nothing_does_not_verify(
    signed: Path, unsigned: Path, tmp_path: Path, era: str
) -> None:
    bundle = bare(signed if era == "signer" else unsigned, tmp_path / "bare")
    if era == "journals":
        (bundle.root / FOLDER).mkdir()
    assert told_of(bundle) == "statements: none: they were taken away, or the session could not write them"
    assert fields(bundle.root) == {(name, "file") for name in STATEMENTS}


# --- what does not hold ------------------------------------------------------------------------------


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
