"""The program's source builds, on a folder: what a command must install, and what of it is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.image.folder import NEW, OLD, ImageFolder
from tests.stack.bench import sha256


@pytest.fixture
def built(image: ImageFolder) -> ImageFolder:
    """A source folder with a compiled file's source, one Python module, and an installed copy of it."""
    image.put("src/csrc/x.c")
    image.put("src/vllm/a.py")
    image.put("site/vllm/a.py")
    image.put("site/vllm/kept.py", b"kept\n")
    image.put("site/vllm/gone.py", b"gone\n")
    return image


def build(image: ImageFolder, command: str, watched: str = "site", **more: Any) -> None:
    sources = [image.entry("src/csrc/x.c"), image.entry("src/vllm/a.py")]
    for source in sources:
        source["path"] = source["path"].removeprefix("src/")
    image.builds.append(
        {
            "component": "vllm",
            "source": str(image.root / "src"),
            "command": command,
            "watched": [str(image.root / watched)],
            "sources": sources,
            "installed": [image.entry("site/vllm/a.py"), image.entry("site/csrc/x.c", optional=True)],
        }
        | more
    )


def test_what_the_command_installs_is_kept_and_what_it_leaves_elsewhere_is_not(built: ImageFolder) -> None:
    command = "cp vllm/a.py ../site/vllm/ && cat csrc/x.c > ../site/vllm/x.so && rm ../site/vllm/gone.py && > x.o"
    build(built, command)
    assert built.step("build")[0] == 0
    kept = json.loads((built.payload / "built.json").read_text("utf-8"))
    assert {change["path"].rpartition("/")[2] for change in kept} == {"a.py", "x.so", "gone.py"}
    # The second step runs on the base image again, not on what the first one left.
    built.put("src/csrc/x.c")
    built.put("src/vllm/a.py")
    (built.root / "src" / "x.o").unlink()
    built.put("site/vllm/a.py")
    built.put("site/vllm/gone.py", b"gone\n")
    (built.root / "site" / "vllm" / "x.so").unlink()
    code, lines = built.step("apply")
    assert code == 0, lines
    assert built.all() == {
        "src/csrc/x.c",
        "src/vllm/a.py",
        *(f"site/vllm/{n}" for n in ("a.py", "kept.py", "x.so")),
    }
    assert (built.root / "site" / "vllm" / "x.so").read_bytes() == NEW


def test_a_command_that_leaves_a_copy_as_it_was_is_refused(built: ImageFolder) -> None:
    build(built, "cp csrc/x.c ../site/vllm/x.so")
    assert built.refused() == [
        "afterwards 1 of 2 copies are not as the lock says",
        (
            f"vllm: site/vllm/a.py: /site/vllm/a.py: expected sha256 {sha256(NEW)} with mode 100644, "
            f"found sha256 {sha256(OLD)} with mode 100644"
        ),
    ]


def test_a_copy_that_is_not_the_base_s_is_refused_before_anything_is_built(built: ImageFolder) -> None:
    built.put("site/vllm/a.py", b"other\n")
    build(built, "touch ../built")
    assert "/site/vllm/a.py: expected sha256" in built.refused()[1]
    assert not (built.root / "built").exists()


def test_a_source_that_is_not_the_base_s_is_refused_before_anything_is_built(built: ImageFolder) -> None:
    built.put("src/csrc/x.c", b"other\n")
    build(built, "touch ../built")
    assert "vllm: csrc/x.c: /src/csrc/x.c: expected sha256" in built.refused()[1]
    assert not (built.root / "built").exists()


def test_a_base_without_the_source_folder_is_refused(built: ImageFolder) -> None:
    build(built, "true", source="/nowhere")
    assert built.refused() == ["vllm: the base image has no folder /nowhere, which the stack names as the source"]


def test_a_command_that_installs_no_file_but_a_pipe_is_refused(built: ImageFolder) -> None:
    build(built, "cp vllm/a.py ../site/vllm/ && mkfifo ../site/pipe")
    assert built.refused() == ["vllm: the build command left /site/pipe, which is neither file nor folder"]


def test_files_that_are_installed_again_as_they_were_are_not_touched(built: ImageFolder) -> None:
    kept = built.root / "site" / "vllm" / "kept.py"
    cached = built.put("site/vllm/__pycache__/kept.cpython-312.pyc", b"its own")
    inode = kept.stat().st_ino
    build(built, "cp vllm/a.py ../site/vllm/ && touch ../site/vllm/kept.py")
    assert built.step("build")[0] == 0
    built.put("src/csrc/x.c")
    built.put("src/vllm/a.py")
    code, lines = built.step("apply")
    assert (code, [line for line in lines if "kept" in line]) == (0, [])
    assert (kept.stat().st_ino, cached.exists()) == (inode, True)
