"""`qualify verify` as a reviewer uses it: what it says, and its exit code."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.evidence.manifest import MANIFEST, seal
from harness.evidence.mismatch import Mismatch
from harness.records import Origin
from harness.verification.derivation import other_origin
from harness.verification.opening import Opened
from harness.verification.subject import Found, Subject
from harness.verification.verify import CHECKS, verify
from harness.words import ExitCode
from harness.workflow import judge_and_report
from tests.judge.bundles import Session

from .hostile import packed
from .tampering import files


class _Heard:
    """What Python reports of itself while it is on. An audit hook cannot be removed, only be silent."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[tuple[str, Any]] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and (event.startswith("socket.") or event in ("open", "subprocess.Popen")):
            self.seen.append((event, arguments))

    @contextmanager
    def listening(self) -> Iterator[list[tuple[str, Any]]]:
        self.seen.clear()
        self.on = True
        try:
            yield self.seen
        finally:
            self.on = False


heard = _Heard()


def built(folder: Path, **candidate: Any) -> Path:
    bundle = Session(folder).candidate(**candidate).build()
    seal(bundle.root)
    judge_and_report(bundle)
    return bundle.root


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("command"))


def test_a_bundle_that_verifies_ends_with_0_and_says_what_was_checked(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(root)]) == ExitCode.PASS
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "verifies: bundle"
    assert lines[1] == "verdict: pass (exit code 0), as the evidence gives it"
    assert lines[2].startswith("signed by: nobody")
    total = len((root / MANIFEST).read_text("utf-8").splitlines())
    root_hash = hashlib.sha256((root / MANIFEST).read_bytes()).hexdigest()
    assert f"manifest: {total} of {total} files are as in {MANIFEST}; the root hash is {root_hash}" in lines
    assert any("figures in" in line and "derived again from the raw files" in line for line in lines)


def test_a_candidate_that_failed_verifies_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = built(tmp_path, errors=("an error",), short=("decode/96/0",))
    assert main(["verify", str(failed)]) == ExitCode.PASS
    assert "verdict: fail (exit code 1)" in capsys.readouterr().out


def test_one_that_does_not_verify_has_an_exit_code_of_its_own(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(root, tmp_path / "copy")
    (tmp_path / "copy" / "pytest.log").write_text("all is well\n", "utf-8")
    assert main(["verify", str(tmp_path / "copy")]) == ExitCode.NOT_VERIFIED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("does not verify: copy: ")
    assert any(line.startswith("  pytest.log: SHA-256: says nothing, is ") for line in lines)


def test_what_is_no_bundle_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (tmp_path / "missing", tmp_path):
        assert main(["verify", str(place)]) == ExitCode.USAGE
        assert str(place) in capsys.readouterr().err


def test_a_hostile_archive_does_not_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04 and so on")
    assert main(["verify", str(tmp_path / "x.zip")]) == ExitCode.NOT_VERIFIED
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("qualify: ")


@pytest.mark.parametrize("ending", ["tar.zst", "tar.gz", "zip"])
def test_an_archive_is_as_good_as_its_folder_and_leaves_nothing_behind(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    archive = packed(root, tmp_path / f"bundle.{ending}")
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "work"))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert verify(str(archive), checks=CHECKS[:3]).verifies
    assert list((tmp_path / "work").iterdir()) == []


def test_the_bundle_is_only_read(root: Path) -> None:
    def state() -> list[tuple[str, int, int]]:
        return [(n, (root / n).stat().st_mtime_ns, (root / n).stat().st_ino) for n in files(root)]

    before, folders = state(), [(p, p.stat().st_mtime_ns) for p in root.rglob("*") if p.is_dir()]
    assert verify(str(root)).verifies
    assert state() == before
    assert [(p, p.stat().st_mtime_ns) for p, _ in folders] == folders


def test_nothing_is_asked_of_a_network_and_no_program_but_git_and_our_own_reader_is_run(root: Path) -> None:
    with heard.listening() as seen:
        assert verify(str(root)).verifies
    assert [e for e, _ in seen if e.startswith("socket.")] == []
    assert {a[0] for e, a in seen if e == "subprocess.Popen"} <= {"git", sys.executable}
    outside = {
        os.fsdecode(a[0]) for e, a in seen if e == "open" and isinstance(a[0], str | bytes) and a[1] not in ("r", "rb")
    }
    assert not any(path.startswith(str(root)) for path in outside), "opened for writing"


def test_keys_are_handed_to_the_check_that_wants_them_and_who_signed_is_said(root: Path) -> None:
    got: list[tuple[Path, ...]] = []

    def statement(subject: Subject) -> Found:
        got.append(subject.trusted)
        return Found((Mismatch("statement.intoto.json", "signature", "ed25519", None),), signed=("a key",))

    outcome = verify(str(root), trusted=(Path("a.pub"),), checks=(("statement", statement),))
    assert got == [(Path("a.pub"),)]
    assert not outcome.verifies
    assert outcome.found[0][1].signed == ("a key",)


def test_a_redacted_file_is_taken_by_what_is_said_of_its_original_and_that_is_told(root: Path, tmp_path: Path) -> None:
    """The seam of exported bundles: the layout says which files it changed, and what their originals' hashes were."""
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    name = "run.json"
    original = hashlib.sha256((copy / name).read_bytes()).hexdigest()
    (copy / name).write_bytes((copy / name).read_bytes().replace(b"a CPU", b"x CPU"))

    @contextmanager
    def layout(folder: Path) -> Iterator[Opened]:
        yield Opened(folder, ("an exported bundle",), originals={name: original})

    assert not verify(str(copy), checks=CHECKS[:3]).verifies
    outcome = verify(str(copy), layout=layout, checks=CHECKS[:3])
    assert outcome.verifies
    assert outcome.notes[0] == "an exported bundle"
    [unchecked] = outcome.found[0][1].unchecked
    assert unchecked == "SHA-256 of the originals of 1 redacted files: only whoever holds them can check it"


def test_what_laying_out_found_counts_too(root: Path) -> None:
    @contextmanager
    def layout(folder: Path) -> Iterator[Opened]:
        yield Opened(folder, mismatches=(Mismatch("EXPORT.SHA256SUMS", "file", "sealed", None),))

    outcome = verify(str(root), layout=layout, checks=())
    assert not outcome.verifies
    assert [str(m) for m in outcome.mismatches] == ["EXPORT.SHA256SUMS: file: says sealed, is missing"]


class TestOtherHarness:
    OWN = Origin(version="1.0", commit="a" * 40, dirty=False, packages={})

    def test_the_same_one_is_not_worth_a_note(self) -> None:
        assert other_origin(self.OWN, self.OWN) is None

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"version": "0.9"}, "made by harness 0.9, commit aaaaaaaaaaaa, and this is harness 1.0"),
            ({"commit": "b" * 40}, "commit bbbbbbbbbbbb"),
            ({"commit": None, "dirty": None}, "no commit, changes unknown"),
            ({"dirty": True}, "with changes"),
            ({"packages": {"scipy": "1.0"}}, "this same harness with other packages (scipy 1.0 there and none here)"),
        ],
        ids=["version", "commit", "unknown", "changed", "packages"],
    )
    def test_another_one_is_named_plainly(self, change: dict[str, Any], told: str) -> None:
        note = other_origin(self.OWN.model_copy(update=change), self.OWN)
        assert note is not None
        assert told in note
        assert "that may be why" in note

    def test_two_changed_ones_cannot_be_compared(self) -> None:
        changed = self.OWN.model_copy(update={"dirty": True})
        assert "what was changed cannot be compared" in (other_origin(changed, changed) or "")
