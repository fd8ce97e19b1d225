"""One hash for all evidence: it changes with every byte, and not with what is derived from it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.evidence.manifest import MANIFEST, evidence_files, manifest_text, root_hash, seal
from harness.evidence.origin import host_facts, origin


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "plan.json": b"{}\n",
        "run.json": b"{}\n",
        "launches/002-b/server.log": b"\xff\x00log",
        "launches/002-b/metrics/001.prom": b"x 1\n",
        "launches/001-a/server.log": b"",
        "locks/control.json": b"{}\n",
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return tmp_path


def one_byte(root: Path) -> None:
    (root / "launches/002-b/server.log").write_bytes(b"\xff\x01log")


def emptied(root: Path) -> None:
    (root / "plan.json").write_bytes(b"")


def added(root: Path) -> None:
    (root / "launches/001-a/own.txt").write_bytes(b"")


def hidden(root: Path) -> None:
    (root / "launches/001-a/.own").write_bytes(b"x")


def removed(root: Path) -> None:
    (root / "launches/001-a/server.log").unlink()


def renamed(root: Path) -> None:
    (root / "launches/001-a").rename(root / "launches/001-c")


def exchanged(root: Path) -> None:
    a, b = root / "launches/001-a/server.log", root / "launches/002-b/server.log"
    ours, theirs = a.read_bytes(), b.read_bytes()
    a.write_bytes(theirs)
    b.write_bytes(ours)


@pytest.mark.parametrize("change", [one_byte, emptied, added, hidden, removed, renamed, exchanged])
def test_every_change_of_the_evidence_changes_the_root_hash(root: Path, change: Callable[[Path], None]) -> None:
    before = root_hash(root)
    change(root)
    assert root_hash(root) != before


def test_what_is_derived_changes_nothing(root: Path) -> None:
    before = seal(root)
    (root / "verdict.json").write_bytes(b"{}")
    (root / "report").mkdir()
    (root / "report" / "report.md").write_bytes(b"PASS")
    (root / "statement.intoto.json").write_bytes(b"{}")
    (root / "statement.intoto.json.dsse").write_bytes(b"{}")
    (root / "ledger.end.json").write_bytes(b"{}")
    (root / "launches" / ".launch.json.4711.tmp").write_bytes(b"half a rec")
    assert root_hash(root) == before == seal(root)


def test_a_launch_may_hold_files_that_are_called_as_derived_ones_are(root: Path) -> None:
    before = root_hash(root)
    (root / "launches/001-a/verdict.json").write_bytes(b"mine")
    (root / "launches/001-a/report").mkdir()
    (root / "launches/001-a/report/x").write_bytes(b"mine")
    assert root_hash(root) != before
    assert {p.name for p in evidence_files(root) if "001-a" in p.parts} == {"server.log", "verdict.json", "x"}


def test_touching_and_copying_change_nothing(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    before = root_hash(root)
    (root / "plan.json").touch()
    (root / "plan.json").chmod(0o600)
    copy = tmp_path_factory.mktemp("copy") / "bundle"
    shutil.copytree(root, copy)
    assert root_hash(copy) == root_hash(root) == before


def test_the_manifest_is_in_the_order_of_paths_and_sha256sum_takes_it(root: Path) -> None:
    digest = seal(root)
    text = (root / MANIFEST).read_bytes()
    assert hashlib.sha256(text).hexdigest() == digest
    names = [line.partition("  ")[2] for line in text.decode().splitlines()]
    assert names == sorted(names)
    assert "launches/002-b/metrics/001.prom" in names
    done = subprocess.run(["sha256sum", "--check", "--strict", MANIFEST], cwd=root, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout


def test_an_empty_file_is_evidence_too(root: Path) -> None:
    assert f"{hashlib.sha256(b'').hexdigest()}  launches/001-a/server.log\n" in manifest_text(root)


# --- who measured ------------------------------------------------------------------------------------


def test_the_harness_names_itself_and_its_packages() -> None:
    found = origin()
    assert found.commit is None or len(found.commit) == 40
    assert (found.commit is None) == (found.dirty is None)
    assert {"pytest", "pydantic"} <= found.packages.keys()
    assert list(found.packages) == sorted(found.packages, key=str.lower)


def test_without_git_the_commit_is_unknown_and_not_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    found = origin()
    assert (found.commit, found.dirty) == (None, None)


def test_the_host_is_described_and_not_named() -> None:
    import getpass
    import socket

    facts = host_facts(("NVIDIA RTX 5090, 32607 MiB",))
    assert (facts.cores > 0, facts.memory_mib > 0, facts.gpus) == (True, True, ("NVIDIA RTX 5090, 32607 MiB",))
    text = facts.model_dump_json()
    for secret in (socket.gethostname(), getpass.getuser()):
        assert len(secret) < 5 or secret not in text
