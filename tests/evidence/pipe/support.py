"""What tests of the pipe do to a bundle, and what they are told of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.evidence.journal import Fault, faults, read_journals
from harness.evidence.manifest import manifest_text, read_manifest
from harness.paths import PROJECT
from harness.records import CheckRecord


def check(name: str) -> CheckRecord:
    return CheckRecord(name=name, context_tokens=None, outcome="passed", message="")


def found(root: Path) -> list[Fault]:
    seen = read_journals(root)
    assert seen is not None
    return faults(seen, read_manifest(manifest_text(root)))


def told(root: Path) -> list[str]:
    return list(map(str, found(root)))


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
    return subprocess.Popen([sys.executable, "-c", OTHER, str(root), name, how], cwd=PROJECT)
