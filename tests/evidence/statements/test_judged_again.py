"""Who judges again replaces no statement and invents none: he is told whether they still fit."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import pytest

from harness.cli import main
from harness.evidence.bundle import Bundle, write_record
from harness.evidence.keys import HostKey
from harness.evidence.manifest import MANIFEST, seal
from harness.evidence.pipe import FOLDER
from harness.evidence.predicates import MEASUREMENTS_FILE
from harness.evidence.sessions import enter_end, enter_start
from harness.evidence.statement import signature_of, standing
from harness.judge.case import read_case
from harness.judge.verdict import Judged
from harness.words import Word
from harness.workflow import judge_again
from tests.verification.tampering import looked_at

from .support import STATEMENTS, fields


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
