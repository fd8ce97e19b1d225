"""A session is sealed and signed, whatever ends it, and the host's ledger knows of it."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from harness.evidence.challenge import check_challenge
from harness.evidence.journal import faults, read_journals
from harness.evidence.keys import HostKey, make_key
from harness.evidence.ledger import read_ledger
from harness.evidence.manifest import MANIFEST, manifest_text, read_manifest
from harness.evidence.sessions import check_ledger
from harness.evidence.statement import check_statement, signature_of
from harness.judge.verdict import judge
from harness.words import ExitCode, Word

from .sessions import SLOW, Finished, left_running, run, stack, start, wait_for

CHALLENGE = "https://forge.example/pull/126#issuecomment-1"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A ledger and a key of this test's own."""
    key = make_key(tmp_path / "keys" / "host.pem")
    return {"QUALIFY_LEDGER": str(tmp_path / "ledger.jsonl"), "QUALIFY_KEY": str(key.path)}


def mismatches(done: Finished, *trusted: HostKey) -> list[str]:
    root = done.bundle.root
    manifest = (root / MANIFEST).read_bytes()
    found = check_statement(root, manifest, trusted=[k.signer.public_key for k in trusted])
    return [str(m) for m in (*found, *check_ledger(root), *check_challenge(root))]


def noted_faults(root: Path) -> list[str]:
    seen = read_journals(root)
    assert seen is not None
    return [str(fault) for fault in faults(seen, read_manifest(manifest_text(root)))]


def test_a_session_is_sealed_signed_and_entered(
    results: Path, profile: str, env: dict[str, str], tmp_path: Path
) -> None:
    lanes = ("--modes", "mtp0,mtp1", "--lanes", "2")  # workers of xdist write journals of their own
    done = run(results, "--profile", profile, "--challenge", CHALLENGE, *lanes, env=env)
    assert done.code == ExitCode.PASS, done.out
    root = done.bundle.root
    assert mismatches(done) == noted_faults(root) == []
    assert done.row("evidence whole").word is Word.PASS
    assert len(list((root / "pipe").iterdir())) == 3

    key = make_key(tmp_path / "another.pem")
    assert any("none of the keys that are trusted" in m for m in mismatches(done, key))
    secret = "".join(Path(env["QUALIFY_KEY"]).read_text("ascii").splitlines()[1:-1]).encode()
    assert not [p for p in root.rglob("*") if p.is_file() and secret in p.read_bytes()]

    told = str(signature_of(root))
    for text in ((root / "report/report.md").read_text("utf-8"), (root / "report/report.html").read_text("utf-8")):
        assert told in text.replace("`", ""), "Markdown sets hashes as code"
        assert CHALLENGE in text
        assert "1 session of these locks here: 1 pass" in text
    entries, fault = read_ledger(Path(env["QUALIFY_LEDGER"]))
    assert fault is None
    assert [(e.content.event, e.content.session) for e in entries] == [
        ("started", root.name),
        ("ended", root.name),
    ]
    assert entries[1].content.root_sha256 == done.verdict.evidence_root_sha256

    for command in ("judge", "report"):
        again = run(results, str(root), program=("-m", "harness.cli", command), env=env)
        assert again.code == 0, again.out
        assert mismatches(done) == []
    log = next(root.glob("launches/001-*/server.log"))
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    verdict = judge(done.bundle)
    [row] = [r for r in verdict.rows if r.name == "evidence whole"]
    assert (row.word, verdict.exit_code) == (Word.FAIL, ExitCode.FAIL)
    assert str(log.relative_to(root)) in row.reason


def test_a_log_that_is_rewritten_while_the_session_runs_fails_it(results: Path, profile: str, tmp_path: Path) -> None:
    own = tmp_path / "test_own.py"
    own.write_text(
        "def test_arm(server, record):\n"
        "    path = record / 'timeline.jsonl'\n"
        "    path.write_bytes(path.read_bytes().replace(b'process started', b'process began'))\n",
        "utf-8",
    )
    root = Path(__file__).resolve().parents[2]
    arguments = (str(own), "--qualify-profile", profile, "-p", "no:cacheprovider", f"--rootdir={root}")
    done = run(results, *arguments, program=("-m", "pytest"))
    row = done.row("evidence whole")
    assert row.word is Word.FAIL, done.out
    assert "timeline.jsonl was changed by somebody else between two appends of the harness" in row.reason


UNWRITTEN = """
import sys
from _pytest.terminal import TerminalReporter

def fails(self, excinfo):
    raise RuntimeError("the interruption cannot be shown")

TerminalReporter.pytest_keyboard_interrupt = fails
from harness.cli import main
sys.exit(main(["run", *sys.argv[1:]]))
"""
"""The user's `qualify run`, whose pytest fails while it writes down that it was interrupted."""


@pytest.mark.parametrize("program", [("-m", "harness.cli", "run"), ("-c", UNWRITTEN)], ids=["told", "untold"])
def test_an_interrupted_session_is_sealed_as_interrupted(
    results: Path, profile: str, env: dict[str, str], program: tuple[str, ...]
) -> None:
    process = start(results, "--profile", profile, *SLOW, program=program, env=env)
    wait_for(lambda: bool(left_running(results)))
    wait_for(lambda: any(results.glob("*-fake-*/launches/*/requests.jsonl")))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=90)
    done = Finished(process.returncode, out, results)
    root = done.bundle.root
    seen = read_journals(root)
    assert seen is not None
    assert seen.ended == "interrupted: stopped by the user or the system"
    assert mismatches(done) == noted_faults(root) == []
    assert done.row("evidence whole").word is Word.PASS, done.out
    statement = json.loads((root / "statement.intoto.json").read_bytes())
    assert statement["predicate"]["ended"] == seen.ended
    assert "1 session of these locks here: 1 aborted" in (root / "report/report.md").read_text("utf-8")


def test_a_killed_session_is_sealed_by_the_next_one(results: Path, profile: str, env: dict[str, str]) -> None:
    process = start(results, "--profile", profile, *SLOW, env=env)
    wait_for(lambda: any(results.glob("*-fake-*/launches/*/requests.jsonl")))
    process.kill()
    process.communicate(timeout=90)
    [killed] = results.glob("*-fake-*")
    assert not (killed / MANIFEST).exists()

    done = run(results, "--profile", profile, env=env)
    assert f"sealed as interrupted: killed: {killed.name}" in done.out
    assert done.code == ExitCode.PASS, done.out
    assert (killed / MANIFEST).read_text("utf-8") == manifest_text(killed)
    assert noted_faults(killed) == []
    assert json.loads((killed / "run.json").read_bytes())["interrupted"] == "killed"
    assert "2 sessions of these locks here: 1 pass, 1 aborted" in done.out
    assert check_ledger(done.bundle.root) == check_ledger(killed) == []

    again = run(results, str(killed), program=("-m", "harness.cli", "judge"), env=env)
    assert again.code == ExitCode.VOID, again.out
    assert ": killed" in again.out
    shutil.rmtree(killed)
    assert "nothing was left behind" in run(results, program=("-m", "harness.cli", "clean"), env=env).out


def test_two_sessions_at_once_are_both_in_the_ledger_and_neither_is_sealed_by_the_other(
    results: Path, profile: str, env: dict[str, str], tmp_path: Path
) -> None:
    other = str(stack(tmp_path, "other", A="1"))
    processes = [
        start(results, "--profile", profile, *more, "-k", "identity", env=env) for more in ((), ("--candidate", other))
    ]
    outs = [p.communicate(timeout=180)[0] for p in processes]
    assert [p.returncode for p in processes] == [0, 0], outs
    entries, fault = read_ledger(Path(env["QUALIFY_LEDGER"]))
    assert fault is None
    assert sorted(e.content.event for e in entries) == ["ended", "ended", "started", "started"]
    for root in results.glob("*-fake-*"):
        assert check_ledger(root) == []
        assert noted_faults(root) == []
        seen = read_journals(root)
        assert seen is not None
        assert seen.ended == "completed"
