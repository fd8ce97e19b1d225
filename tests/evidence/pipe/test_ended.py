"""How writing ends: a full disk, a kill and the sealing are told apart from tampering."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import BundleError
from harness.evidence import pipe
from harness.evidence.bundle import append_record, read_lines, write_json, write_piece
from harness.evidence.journal import read_journals
from harness.evidence.manifest import MANIFEST, manifest_text, seal, seal_killed
from harness.evidence.others import adopt
from harness.evidence.stream import GrowingFile
from harness.records import CheckRecord

from .support import added, check, flipped, found, other, rewritten_log, told


def full_disk(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_a_broken_measurement_and_no_tampering(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = GrowingFile(root / "launches/001-a/late.log")
    log.write(b"all is well\n")
    with monkeypatch.context() as patched:
        patched.setattr("harness.evidence.stream.write_all", full_disk)
        with pytest.raises(OSError, match="No space left"):
            log.write(b"error\n")
    log.close()
    [fault] = found(root)
    assert str(fault).startswith("launches/001-a/late.log lacks its end, which could not be written: No space left")
    assert not fault.tampered


def test_an_append_that_finds_no_room_leaves_no_part_of_a_line(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "launches/001-a/checks.jsonl"
    before = path.read_bytes()
    real = pipe.write_all

    def half(descriptor: int, data: bytes) -> None:
        if b'"four"' in data:
            real(descriptor, data[: len(data) // 2])
            full_disk()
        real(descriptor, data)

    with monkeypatch.context() as patched:
        patched.setattr(pipe, "write_all", half)
        with pytest.raises(OSError, match="No space left"):
            append_record(path, check("four"))
    assert path.read_bytes() == before
    append_record(path, check("five"))
    assert [c.name for c in read_lines(path, CheckRecord)] == ["one", "two", "three", "five"]
    [fault] = found(root)
    assert str(fault).startswith("launches/001-a/checks.jsonl could not be written whole: No space left")
    assert not fault.tampered


def test_a_file_that_nobody_closed_may_lack_its_end(root: Path) -> None:
    log = GrowingFile(root / "launches/001-a/late.log")
    [fault] = found(root)
    assert (fault.file, fault.tampered) == ("launches/001-a/late.log", False)
    log.close()
    assert told(root) == []


def test_ctrl_c_never_falls_between_a_line_and_its_bytes(root: Path) -> None:
    threads: list[str] = []

    class Spy(GrowingFile):
        def _write(self, piece: bytes) -> int:
            threads.append(threading.current_thread().name)
            return super()._write(piece)

    with Spy(root / "pytest.log") as log:
        log.write(b"x")  # Python raises KeyboardInterrupt in the main thread alone
    assert threads == ["pipe"]
    assert told(root) == []


# --- sealing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        lambda root: write_json(root / "plan.json", {}),
        lambda root: append_record(root / "launches/001-a/checks.jsonl", check("late")),
        lambda root: GrowingFile(root / "launches/001-a/late.log"),
        lambda root: write_piece(root / "launches/001-a/002.prom", b""),
        lambda root: adopt(root, [root / "own.txt"], "late"),
    ],
    ids=["whole", "append", "growing", "piece", "adopt"],
)
def test_after_the_sealing_nothing_of_the_evidence_is_written(root: Path, write: Callable[[Path], object]) -> None:
    (root / "own.txt").touch()
    seal(root)
    before = manifest_text(root)
    with pytest.raises(BundleError, match="the bundle is sealed"):
        write(root)
    assert manifest_text(root) == before


def test_a_stream_that_is_open_at_the_sealing_adds_nothing_to_the_journals(root: Path) -> None:
    log = GrowingFile(root / "launches/001-a/late.log")
    seal(root)
    with pytest.raises(BundleError, match="the bundle is sealed"):
        log.close()
    assert (root / MANIFEST).read_text("utf-8") == manifest_text(root)


def test_a_sealed_bundle_is_not_sealed_again_over_changed_evidence(root: Path) -> None:
    digest = seal(root)
    assert seal(root) == digest
    (root / "plan.json").write_bytes(b"{}")
    with pytest.raises(BundleError, match="sealed already, and its evidence has changed"):
        seal(root)


@pytest.mark.parametrize("ended", ["completed", "interrupted: stopped by the user or the system"])
def test_the_journal_says_how_the_session_ended(root: Path, ended: str) -> None:
    seal(root, ended)
    seen = read_journals(root)
    assert seen is not None
    assert seen.ended == ended


class TestKilled:
    def test_what_the_kill_left_open_is_said_and_no_tampering(self, root: Path) -> None:
        assert other(root, "harness", "dies").wait(60) == 1
        seal_killed(root)
        seen = read_journals(root)
        assert seen is not None
        assert seen.ended == "interrupted: killed"
        assert seen.files["harness.log"].hashed == "at the sealing: its writer was killed"
        assert told(root) == []

    @pytest.mark.parametrize("kept", [0, 10, 40])
    def test_a_line_that_was_noted_and_cut_off(self, root: Path, kept: int) -> None:
        path = root / "launches/001-a/checks.jsonl"
        before = path.stat().st_size
        append_record(path, check("the last one"))
        os.truncate(path, before + kept)
        seal_killed(root)
        assert told(root) == []

    def test_a_file_that_was_noted_and_not_yet_there(self, root: Path) -> None:
        write_json(root / "locks/control.json", {})
        (root / "locks/control.json").unlink()
        seal_killed(root)
        assert told(root) == []

    def test_the_old_file_where_the_new_one_had_been_noted(self, root: Path) -> None:
        old = (root / "plan.json").read_bytes()
        write_json(root / "plan.json", {"longer": "than before" * 9})
        (root / "plan.json").write_bytes(old)
        seal_killed(root)
        assert told(root) == []

    @pytest.mark.parametrize("change", [flipped, rewritten_log, added])
    def test_a_change_is_no_kill(self, root: Path, change: Callable[[Path], str]) -> None:
        expected = change(root)
        seal_killed(root)
        assert told(root) == [expected]
