"""What somebody may do to a bundle, and undo again."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.evidence.bundle import Bundle
from harness.evidence.manifest import MANIFEST, manifest_text
from harness.verification.verify import CHECKS, Outcome, verify
from harness.workflow import judge_and_report

AGREEING = ("manifest", "bounds", "root", "schema", "completeness", "verdict", "report")
"""Checks of whether a bundle agrees with itself: all that a forger can mend."""


def restored(root: Path, keep: Path) -> contextlib.AbstractContextManager[Path]:
    """The bundle for the time of a change: as it was afterwards."""
    return _restored(root, keep)


@contextlib.contextmanager
def _restored(root: Path, keep: Path) -> Iterator[Path]:
    shutil.rmtree(keep, ignore_errors=True)
    shutil.copytree(root, keep)
    try:
        yield root
    finally:
        shutil.rmtree(root)
        keep.rename(root)


@contextlib.contextmanager
def changed(path: Path, data: bytes | None) -> Iterator[None]:
    """A file with another content, or without one."""
    kept = path.read_bytes()
    try:
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)
        yield
    finally:
        path.write_bytes(kept)


def one_byte(data: bytes) -> bytes:
    """The same with one byte in its middle changed; one byte where there was none."""
    if not data:
        return b"x"
    place = len(data) // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def files(root: Path) -> list[str]:
    """Every file by its path."""
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())


def edit(path: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON file as its writer would have written it."""
    tree = json.loads(path.read_bytes())
    change(tree)
    path.write_text(json.dumps(tree, indent=1, ensure_ascii=False) + "\n", "utf-8")


def edit_line(path: Path, number: int, change: Callable[[Any], None]) -> None:
    """Change one line of a .jsonl file, likewise."""
    lines = path.read_text("utf-8").splitlines()
    tree = json.loads(lines[number])
    change(tree)
    lines[number] = json.dumps(tree, ensure_ascii=False)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def reseal(root: Path) -> None:
    """What a forger does first: make the manifest fit."""
    (root / MANIFEST).write_text(manifest_text(root), "utf-8")


def rejudge(root: Path) -> None:
    """What a forger does next: make manifest, verdict, report and statements fit."""
    reseal(root)
    for path in root.glob("statement.*"):
        path.unlink()
    judge_and_report(Bundle(root))


def told(root: Path, *names: str) -> list[str]:
    """Mismatches, as a reviewer reads them; of these checks alone where some are named."""
    return [str(m) for m in looked_at(root, *names).mismatches]


def looked_at(root: Path, *names: str) -> Outcome:
    """A verification with these checks, or all."""
    return verify(str(root), checks=tuple(c for c in CHECKS if not names or c[0] in names))
