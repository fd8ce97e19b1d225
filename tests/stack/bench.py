"""A component in miniature: twenty lines of Python in three files, a base commit, pull requests, a stack."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import QualifyError
from harness.stack.lock import Outcome, Request, lock_stack
from harness.stack.record import LockedComponent, LockedHead
from tests.stack.origin import Changes, Origin

DIGEST = "sha256:" + "3230c25f" * 8
REFERENCE = f"registry.example/vllm@{DIGEST}"
LINES = [f"line_{n} = {n}" for n in range(1, 21)]


def lines(**changes: str) -> str:
    """The file of twenty lines, some of them changed: lines(l5="x")."""
    return "".join(f"{changes.get(f'l{n}', line)}\n" for n, line in enumerate(LINES, 1))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Bench:
    """The origin, and stacks over it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reference = REFERENCE
        self.stacks = root / "stacks"
        self.stacks.mkdir()
        self.origin = Origin(root / "forge" / "vllm.git")
        files: Changes = {
            "vllm/a.py": lines(),
            "vllm/b.py": lines(),
            "tests/test_a.py": lines(),
            "README.md": "hello\n",
        }
        self.base = self.origin.branch("main", self.origin.commit(files))

    def pull(self, number: int, changes: Changes, parent: str = "") -> str:
        """A pull request of one commit on the base, or on `parent`."""
        return self.origin.pull(number, self.origin.commit(changes, parent or self.base))

    def head(self, number: int, head: str, **more: object) -> str:
        """A head of a stack, as inline table."""
        fields = {"pr": number, "head": head, **more}
        return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in fields.items()) + " }"

    def stack(self, *heads: str, name: str = "stack", extra: str = "", top: str = "", **component: object) -> Path:
        """Write a stack of one component; `extra` stands in the component's table, `top` before it."""
        fields: dict[str, object] = {
            "name": "vllm",
            "repository": str(self.origin.path),
            "base_commit": self.base,
            "packages": ["vllm"],
            "install": ["/opt/vllm", "/venv/site-packages"],
            **component,
        }
        text = f'name = "{name}"\ndescription = "a stack for tests"\n{top}\n[base]\nreference = "{self.reference}"\n'
        text += "\n[[components]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())
        return self.write(f"{text}heads = [{', '.join(heads)}]\n{extra}\n", name)

    def write(self, text: str, name: str = "stack") -> Path:
        path = self.stacks / f"{name}.toml"
        path.write_text(text, "utf-8")
        return path

    def patch_file(self, data: bytes, name: str = "local.patch") -> dict[str, str]:
        (self.stacks / name).write_bytes(data)
        return {"path": name, "sha256": sha256(data)}


def inline(table: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items()) + " }"


def lock(stack: Path, **request: Any) -> Outcome:
    return lock_stack(Request(str(stack), **request))


def component(outcome: Outcome) -> LockedComponent:
    (only,) = outcome.lock.components
    return only


def heads(outcome: Outcome) -> dict[int, LockedHead]:
    return {head.pr: head for head in component(outcome).heads}


def refusal(stack: Path, **request: Any) -> str:
    """The message with which a stack is refused; nothing may have been written."""
    with pytest.raises(QualifyError) as caught:
        lock(stack, **request)
    return str(caught.value)


def written(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
