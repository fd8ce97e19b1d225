"""The program that runs in the image, on a folder instead: every state in which a copy can be found and left."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.image.payload import PROGRAM, program_files
from harness.image.program.main import main
from tests.image.folder import NEW, OLD, ImageFolder
from tests.stack.bench import sha256

# --- what is written -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("git_modes", "before", "after"),
    [
        (("100644", "100644"), 0o644, 0o644),
        (("100644", "100644"), 0o664, 0o664),
        (("100644", "100644"), 0o600, 0o600),
        (("100644", "100755"), 0o644, 0o755),
        (("100644", "100755"), 0o640, 0o750),
        (("100755", "100755"), 0o755, 0o755),
        (("100755", "100644"), 0o755, 0o644),
    ],
)
def test_permissions_stay_but_for_the_executable_bit(
    image: ImageFolder, git_modes: tuple[str, str], before: int, after: int
) -> None:
    path = image.put("a.py", mode=before)
    image.change("a.py", modes=git_modes)
    image.done()
    assert (path.read_bytes(), path.stat().st_mode & 0o7777) == (NEW, after)


def test_a_mode_alone_can_change(image: ImageFolder) -> None:
    path = image.put("run.sh")
    image.change("run.sh", after=OLD, modes=("100644", "100755"))
    image.done()
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_file_becomes_a_link_and_a_link_a_file(image: ImageFolder) -> None:
    one, two = image.put("a.py"), image.root / "b.py"
    two.symlink_to("a.py")
    image.change("a.py", after=b"c.py", modes=("100644", "120000"))
    image.change("b.py", before=b"a.py", modes=("120000", "100644"))
    image.done()
    assert (one.readlink().name, two.is_symlink(), two.read_bytes()) == ("c.py", False, NEW)


def test_a_hard_link_elsewhere_keeps_the_old_bytes(image: ImageFolder) -> None:
    """Installers link copies to a cache of theirs."""
    path = image.put("a.py")
    cached = image.root / "cache"
    cached.hardlink_to(path)
    image.change("a.py")
    image.done()
    assert (path.read_bytes(), cached.read_bytes()) == (NEW, OLD)


def test_two_places_that_are_one_folder_are_one_file(image: ImageFolder) -> None:
    path, gone = image.put("opt/a.py"), image.put("opt/b.py")
    (image.root / "site").symlink_to("opt")
    image.change("opt/a.py", "site/a.py")
    image.change("opt/b.py", "site/b.py", after=None)
    image.done()
    assert (path.read_bytes(), gone.exists()) == (NEW, False)


def test_a_file_that_becomes_a_folder_and_a_folder_that_becomes_a_file(image: ImageFolder) -> None:
    image.put("a.py")
    image.put("b.py/inner.py")
    image.put("b.py/__pycache__/inner.cpython-312.pyc")
    image.change("a.py", after=None)
    image.change("a.py/inner.py", before=None)
    image.change("b.py", before=None)
    image.change("b.py/inner.py", after=None)
    image.done()
    assert image.all() == {"a.py/inner.py", "b.py"}


def test_a_package_that_goes_leaves_no_folder_that_python_would_import(image: ImageFolder) -> None:
    image.put("vllm/a.py")
    image.put("vllm/gone/deep/x.py")
    image.put("vllm/gone/deep/__pycache__/x.cpython-312.pyc")
    image.change("vllm/gone/deep/x.py", after=None)
    image.done()
    assert image.all() == {"vllm/a.py"}
    assert not (image.root / "vllm" / "gone").exists()


def test_a_folder_with_anything_else_in_it_stays(image: ImageFolder) -> None:
    image.put("vllm/gone/x.py")
    image.put("vllm/gone/weights.bin")
    image.change("vllm/gone/x.py", after=None)
    image.done()
    assert image.all() == {"vllm/gone/weights.bin"}


# --- what is refused -------------------------------------------------------------------------------------


def test_all_faults_are_told_and_nothing_is_written(image: ImageFolder) -> None:
    paths = [image.put("a/x.py"), image.put("b/x.py", b"other\n"), image.put("b/n.py")]
    image.change("a/x.py", "b/x.py", "c/x.py")
    image.change("a/n.py", "b/n.py", before=None)
    assert image.refused() == [
        "3 of 5 copies in the base image are not as the lock says",
        (
            f"vllm: a/x.py: /b/x.py: expected sha256 {sha256(OLD)} with mode 100644, "
            f"found sha256 {sha256(b'other' + bytes([10]))} with mode 100644"
        ),
        f"vllm: a/x.py: /c/x.py: expected sha256 {sha256(OLD)} with mode 100644, found no file",
        f"vllm: a/n.py: /b/n.py: expected no file, found sha256 {sha256(OLD)} with mode 100644",
    ]
    assert [path.read_bytes() for path in paths] == [OLD, b"other\n", OLD]


@pytest.mark.parametrize("kind", ["link", "folder", "fifo", "broken link"])
def test_another_kind_of_thing_is_no_file(image: ImageFolder, kind: str) -> None:
    path = image.root / "a.py"
    if kind == "folder":
        path.mkdir()
        said = "a folder"
    elif kind == "fifo":
        os.mkfifo(path)
        said = "neither file nor folder"
    else:
        image.put("other.py")
        target = "other.py" if kind == "link" else "nowhere.py"
        path.symlink_to(target)
        said = f"a symbolic link to {target} with sha256 {sha256(target.encode())}"
    image.change("a.py")
    assert image.refused()[1].endswith(f"found {said}")


def test_a_broken_link_in_the_way_of_a_new_file_is_found(image: ImageFolder) -> None:
    (image.root / "n.py").symlink_to("nowhere")
    image.change("n.py", before=None)
    assert "expected no file, found a symbolic link to nowhere" in image.refused()[1]


def test_a_folder_in_the_way_that_is_not_emptied_is_found(image: ImageFolder) -> None:
    image.put("b.py/inner.py")
    image.put("b.py/other.py")
    image.change("b.py", before=None)
    image.change("b.py/inner.py", after=None)
    assert image.refused()[1] == "vllm: b.py: /b.py: expected no file, found a folder"


def test_what_is_written_is_checked_again(image: ImageFolder) -> None:
    """A payload whose file is not what its name says."""
    image.put("a.py")
    image.change("a.py")
    (image.payload / "files" / sha256(NEW)).write_bytes(b"rotten\n")
    assert image.step("build")[0] == 0
    code, lines = image.step("apply")
    assert code == 1
    assert "qualify: error: afterwards 1 of 1 copies are not as the lock says" in lines
    assert image.payload.exists()


def test_a_payload_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apply"], tmp_path) == 1
    assert capsys.readouterr().out == f"qualify: error: {tmp_path}/manifest.json: No such file or directory\n"


# --- the program itself ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(PROGRAM.glob("*.py")), ids=lambda path: str(path.name))
def test_it_is_python_3_8_and_imports_nothing_but_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 8))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            top = name.partition(".")[0]
            assert top in sys.stdlib_module_names or name.startswith("harness.image.program."), name


def test_it_runs_as_it_is_laid_out_in_the_image_without_the_harness(tmp_path: Path) -> None:
    for name, content in program_files():
        path = tmp_path / "program" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    command = [sys.executable, "-I", "-S", "-B", str(tmp_path / "program"), "build"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "qualify: error: /.qualify/manifest.json: No such file or directory\n"
