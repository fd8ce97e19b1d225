"""Every file is hashed while it is written, and whatever happens to it besides is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.evidence.bundle import append_record, read_lines, write_atomically, write_json, write_once
from harness.evidence.journal import check_journals, read_journals
from harness.evidence.manifest import manifest_text, read_manifest, seal
from harness.evidence.others import adopt, close_for
from harness.evidence.pipe import FOLDER
from harness.evidence.stream import GrowingFile
from harness.records import CheckRecord
from harness.records.statistics import Look

from .support import added, check, flipped, found, other, rewritten_log, shortened, told, vanished


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


# --- several processes, and files of others ----------------------------------------------------------


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
