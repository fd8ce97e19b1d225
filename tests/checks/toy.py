"""A component in miniature for the source checks: what is wrong with it, and what a pull request changes about that.

The control is the base with #1; the candidate is the control with #2, and its lock's files say so.
"""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import ImageNotFound

from harness.stack.lock import Request, lock_stack
from harness.stack.record import LockedComponent, StackLock
from harness.words import Arm
from tests.stack.origin import Changes, Origin

INSTALL = ("/opt/venv/lib/python3.11/site-packages", "/opt/copy/dist-packages")
REFERENCE = f"registry.example/toy@sha256:{'3230c25f' * 8}"

MOD = """\
import json


def double(x: int) -> str:
    return x * 2


def label(x: int) -> str:
    return x


def half(x: int) -> int:
    return x // 3
"""
"""Two equal findings of mypy's, one of ruff's, and a half that is none."""

MOD_1 = MOD + "\n\ndef keep(x: int) -> int:\n    return x\n"
MOD_2 = (
    '"""Moves every line below it."""\n\nimport os\n\n'
    + MOD_1.replace("x // 3", "x // 2").replace("return x\n", "return x + 1\n")
    + "\n\ndef third(x: int) -> str:\n    return x\n"
)
"""`half` and `keep` are other ones, and there is one finding more of each tool."""

TEST_KEEP = "from toy.mod import keep\n\n\ndef test_keep():\n    assert keep(1) == 1\n"
TEST_GONE = "def test_gone():\n    pass\n"
TEST_HALF = """\
import pytest

from toy.mod import double, half


def test_half():
    assert half(4) == 2


@pytest.mark.parametrize("text", ["a::b", "c/d"])
def test_double(text):
    assert double(len(text)) == 2 * len(text)
"""
TEST_OLD = "from toy.mod import label\n\n\ndef test_label():\n    assert label(1) == '1'\n"
TEST_EXTRA = "from toy.extra import extra\n\n\ndef test_extra():\n    assert extra() == 1\n"
TEST_NEEDS = "import nowhere_to_be_found.at_all\n\n\ndef test_needs():\n    pass\n"

BASE: Changes = {"toy/__init__.py": "", "toy/mod.py": MOD, "tests/test_old.py": TEST_OLD}
FIRST: Changes = {"toy/mod.py": MOD_1, "tests/test_keep.py": TEST_KEEP, "tests/test_gone.py": TEST_GONE}
SECOND: Changes = {
    "toy/mod.py": MOD_2,
    "toy/extra.py": "def extra() -> int:\n    return 1\n",
    "tests/test_gone.py": None,
    "tests/test_half.py": TEST_HALF,
    "tests/test_old.py": TEST_OLD + "\n",
    "tests/test_extra.py": TEST_EXTRA,
    "tests/test_needs.py": TEST_NEEDS,
}


@dataclass(frozen=True)
class Toy:
    """Both arms, locked."""

    folders: dict[Arm, Path]
    locks: dict[Arm, StackLock]

    def component(self, arm: Arm) -> LockedComponent:
        [only] = self.locks[arm].components
        return only

    @property
    def components(self) -> dict[Arm, LockedComponent | None]:
        return {arm: self.component(arm) for arm in Arm}


def package(arm: Arm) -> dict[str, str]:
    """The installed files of an arm, whole."""
    found: dict[str, object] = {**BASE, **FIRST, **(SECOND if arm is Arm.CANDIDATE else {})}
    return {path: text for path, text in found.items() if path.startswith("toy/") and isinstance(text, str)}


def locked_toy(root: Path) -> Toy:
    """Lock both arms from a repository with pull requests."""
    origin = Origin(root / "toy.git")
    base = origin.branch("main", origin.commit(BASE))
    first = origin.pull(1, origin.commit(FIRST, base))
    second = origin.pull(2, origin.commit(SECOND, first))
    folders, locks = {}, {}
    for arm, heads in ((Arm.CONTROL, {1: first}), (Arm.CANDIDATE, {1: first, 2: second})):
        fields = {"name": "toy", "repository": str(origin.path), "base_commit": base, "packages": ["toy"]}
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in {**fields, "install": INSTALL}.items()]
        listed = ", ".join(f'{{ pr = {number}, head = "{head}" }}' for number, head in heads.items())
        stack = root / f"{arm}.toml"
        top = f'name = "{arm}"\ndescription = "an arm"\n[base]\nreference = "{REFERENCE}"\n[[components]]\n'
        stack.write_text(f"{top}{''.join(lines)}heads = [{listed}]\n", "utf-8")
        folders[arm] = root / "locks" / arm
        locks[arm] = lock_stack(Request(str(stack), output=folders[arm])).lock
    return Toy(folders, locks)


def arm_image(client: docker.DockerClient, base: str, arm: Arm) -> str:
    """The id of an image with both copies of the arm's package in it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for folder in INSTALL:
            for path, text in package(arm).items():
                entry = tarfile.TarInfo(f"{folder[1:]}/{path}")
                entry.size, entry.mode = len(text.encode()), 0o644
                archive.addfile(entry, io.BytesIO(text.encode()))
    made = client.containers.create(base, ["true"])
    try:
        made.put_archive("/", content.getvalue())
        return str(made.commit().id)
    finally:
        made.remove()


def remove_image(client: docker.DockerClient, image: str) -> None:
    with contextlib.suppress(ImageNotFound):
        client.images.remove(image)
