"""Every file is hashed while it is written, and whatever happens to it besides is named."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import BundleError
from harness.evidence import pipe
from harness.evidence.bundle import append_record, read_lines, write_atomically, write_json, write_once, write_piece
from harness.evidence.journal import Fault, check_journals, faults, read_journals
from harness.evidence.manifest import MANIFEST, manifest_text, read_manifest, seal, seal_killed
from harness.evidence.others import adopt, close_for
from harness.evidence.pipe import FOLDER
from harness.evidence.stream import GrowingFile, growing_text, whole
from harness.records import CheckRecord
from harness.records.statistics import Look

ROOT = Path(__file__).resolve().parents[2]


def check(name: str) -> CheckRecord:
    return CheckRecord(name=name, context_tokens=None, outcome="passed", message="")


def found(root: Path) -> list[Fault]:
    seen = read_journals(root)
    assert seen is not None
    return faults(seen, read_manifest(manifest_text(root)))


def told(root: Path) -> list[str]:
    return list(map(str, found(root)))


def full_disk(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A bundle in which every kind of write has happened once."""
    root = tmp_path / "bundle"
    pipe.begin(root)
    write_json(root / "plan.json", {"a": 1})
    launch = root / "launches" / "001-a"
    with whole(launch / "host.parquet") as stream:
        stream.write(b"columns")
        stream.write(b", more")
    with GrowingFile(launch / "server.log") as log:
        log.write(b"\xff\x00one\r")
        log.write(b"two\n")
    with growing_text(launch / "gpu.jsonl") as events:
        events.write("{}\n")
    for name in ("one", "two", "three"):
        append_record(launch / "checks.jsonl", check(name))
    write_piece(launch / "001.prom", b"x 1\n")
    assert write_once(root / "prompts.json", Look(mode="mtp1", goes_on=False, inconclusive=()))
    return root


# --- what passed through -----------------------------------------------------------------------------


def test_every_kind_of_write_leaves_what_the_pipe_saw(root: Path) -> None:
    assert told(root) == []
    seen = read_journals(root)
    assert seen is not None
    assert {name: known.sha256 for name, known in seen.files.items()} == {
        name: digest for name, digest in read_manifest(manifest_text(root)).items() if not name.startswith(FOLDER)
    }


def test_a_hash_is_of_the_bytes_in_memory_and_not_of_the_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(_: Path, target: Path) -> None:
        target.write_bytes(b"swapped on the way")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", swapped)
        write_atomically(root / "run.json", b"what was measured")
    assert told(root) == ["run.json is not what the harness wrote: a byte has changed since"]


def test_of_several_that_write_once_one_does(root: Path) -> None:
    assert not write_once(root / "prompts.json", Look(mode="mtp0", goes_on=True, inconclusive=()))
    assert json.loads((root / "prompts.json").read_bytes())["mode"] == "mtp1"
    assert sorted(p.name for p in root.iterdir()) == ["launches", FOLDER, "plan.json", "prompts.json"]
    assert told(root) == []


def test_outside_of_a_bundle_nothing_is_noted(tmp_path: Path) -> None:
    write_json(tmp_path / "state.json", {})
    append_record(tmp_path / "x.jsonl", check("one"))
    with GrowingFile(tmp_path / "x.log") as log:
        log.write(b"x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["state.json", "x.jsonl", "x.log"]
    assert read_journals(tmp_path) is None


def test_what_is_derived_is_not_noted(root: Path) -> None:
    write_json(root / "verdict.json", {})
    write_json(root / "report" / "jit.json", {})
    write_json(root / "statement.intoto.json", {})
    assert told(root) == []


def test_a_growing_file_has_no_way_past_its_hash(tmp_path: Path) -> None:
    with GrowingFile(tmp_path / "x.log") as log, pytest.raises(OSError, match="fileno"):
        log.fileno()


# --- what somebody did besides -----------------------------------------------------------------------


def flipped(root: Path) -> str:
    path = root / "launches/001-a/server.log"
    data = bytearray(path.read_bytes())
    data[2] ^= 1
    path.write_bytes(data)
    return "launches/001-a/server.log is not what the harness wrote: a byte has changed since"


def rewritten_log(root: Path) -> str:
    (root / "launches/001-a/server.log").write_bytes(b"no error here\n")
    return "launches/001-a/server.log is not what the harness wrote: a byte has changed since"


def vanished(root: Path) -> str:
    (root / "launches/001-a/host.parquet").unlink()
    return "launches/001-a/host.parquet has vanished since it was written"


def added(root: Path) -> str:
    (root / "launches/001-a/jit.jsonl").write_bytes(b"{}\n")
    return "launches/001-a/jit.jsonl was not written by the harness: nobody noted it"


def shortened(root: Path) -> str:
    path = root / "launches/001-a/checks.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    return "launches/001-a/checks.jsonl is not what the harness wrote: a byte has changed since"


@pytest.mark.parametrize("change", [flipped, rewritten_log, vanished, added, shortened])
def test_a_change_before_the_sealing_is_named_after_it_too(root: Path, change: Callable[[Path], str]) -> None:
    expected = change(root)
    assert told(root) == [expected]
    seal(root)
    assert told(root) == [expected]
    assert all(fault.tampered for fault in found(root))


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b'{"name": "other", "context_tokens": null, "outcome": "passed", "message": ""}\n',
        b"longer than all that was there " * 20 + b"\n",
    ],
    ids=["emptied", "rewritten", "grown"],
)
def test_a_file_of_lines_that_is_changed_between_two_appends_is_named(root: Path, before: bytes) -> None:
    path = root / "launches/001-a/checks.jsonl"
    path.write_bytes(before)
    append_record(path, check("four"))
    assert "launches/001-a/checks.jsonl was changed by somebody else between two appends of the harness" in told(root)


def test_a_file_of_lines_that_begins_again_is_named(root: Path) -> None:
    path = root / "launches/001-a/checks.jsonl"
    path.unlink()
    append_record(path, check("four"))
    assert any("checks.jsonl was changed by somebody else" in line for line in told(root))


def journal_of(root: Path) -> Path:
    [path] = (root / FOLDER).iterdir()
    return path


@pytest.mark.parametrize("change", ["edited", "cut", "swapped", "nonsense", "endless"])
def test_a_journal_that_somebody_edited_is_named(root: Path, change: str) -> None:
    path = journal_of(root)
    lines = path.read_bytes().splitlines(keepends=True)
    if change == "edited":
        lines[1] = lines[1].replace(b'"op": "wrote"', b'"op": "found"')
    elif change == "cut":
        del lines[1]
    elif change == "swapped":
        lines[1], lines[2] = lines[2], lines[1]
    elif change == "nonsense":
        lines[1] = b"{}\n"
    else:
        lines[1] = b"x" * 200_000 + b"\n"
    path.write_bytes(b"".join(lines))
    [first, *_] = found(root)
    assert first.file == f"{FOLDER}/{path.name}"
    assert first.tampered
    assert "line 2" in first.what or "line 3" in first.what


@pytest.mark.parametrize(
    ("change", "file", "missing"),
    [(flipped, "server.log", "neither"), (vanished, "host.parquet", "found"), (added, "jit.jsonl", "said")],
)
def test_a_reviewer_reads_both_hashes(root: Path, change: Callable[[Path], str], file: str, missing: str) -> None:
    change(root)
    digests = read_manifest(manifest_text(root))
    [mismatch] = check_journals(root, digests)
    name = f"launches/001-a/{file}"
    assert (mismatch.file, mismatch.field, mismatch.found) == (name, "SHA-256", digests.get(name))
    assert (mismatch.said is None, mismatch.found is None) == (missing == "said", missing == "found")
    assert check_journals(root / "launches", {}) == [], "no bundle of ours, or of before there were journals"


# --- what broke --------------------------------------------------------------------------------------


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


# --- several processes, and files of others ----------------------------------------------------------

OTHER = """
import sys; from pathlib import Path
from harness.evidence.bundle import append_record
from harness.evidence.stream import GrowingFile
from harness.records import CheckRecord
root = Path(sys.argv[1])
for n in range(20):
    append_record(root / "both.jsonl", CheckRecord(name=f"{sys.argv[2]} {n}", context_tokens=None, outcome="passed",
                                                   message=""))
log = GrowingFile(root / f"{sys.argv[2]}.log")
log.write(b"seen")
if sys.argv[3] == "dies": import os; os._exit(1)
log.close()
"""


def other(root: Path, name: str, how: str = "ends") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", OTHER, str(root), name, how], cwd=ROOT)


def test_two_processes_may_append_to_one_file(root: Path) -> None:
    processes = [other(root, name) for name in ("a", "b")]
    for number in range(20):
        append_record(root / "both.jsonl", check(f"mine {number}"))
    assert [p.wait(60) for p in processes] == [0, 0]
    assert len(list(read_lines(root / "both.jsonl", CheckRecord))) == 60
    assert len(list((root / FOLDER).iterdir())) == 3
    assert told(root) == []


def test_what_a_dead_process_left_open_is_hashed_by_another_which_says_so(root: Path) -> None:
    assert other(root, "sampler", "dies").wait(60) == 1
    assert told(root) == ["sampler.log was never closed by what wrote it, so its end may be missing"]
    [mismatch] = check_journals(root, read_manifest(manifest_text(root)))
    assert str(mismatch).endswith("is one that was never closed by what wrote it, so its end may be missing")
    close_for(root / "sampler.log")
    close_for(root / "launches/001-a/server.log")  # has been closed, so nothing is done
    seen = read_journals(root)
    assert seen is not None
    assert seen.files["sampler.log"].hashed == "after its writer died"
    assert seen.files["launches/001-a/server.log"].hashed is None
    assert told(root) == []


def test_a_users_file_is_taken_over_and_may_grow_until_his_next_check(root: Path) -> None:
    own = root / "launches/001-a/own.txt"
    for text in ("seen", "seen twice"):
        own.write_text(text, "utf-8")
        adopt(root, [own, root / "launches/001-a/server.log"], "after the check test_own")
    assert told(root) == []
    seen = read_journals(root)
    assert seen is not None
    assert seen.files["launches/001-a/own.txt"].hashed == "after the check test_own"
    assert seen.files["launches/001-a/own.txt"].sha256 == hashlib.sha256(b"seen twice").hexdigest()
    own.write_text("changed", "utf-8")
    assert told(root) == ["launches/001-a/own.txt is not what the harness wrote: a byte has changed since"]


def test_a_check_cannot_whitewash_what_the_harness_wrote(root: Path) -> None:
    log = root / "launches/001-a/server.log"
    log.write_bytes(b"no error\n")
    adopt(root, [log], "after the check test_own")
    assert told(root) == ["launches/001-a/server.log is not what the harness wrote: a byte has changed since"]


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
