"""The program that runs in the image, on a folder instead: every state in which a copy can be found and left."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.image.payload import PROGRAM, program_files
from harness.image.program.main import main
from tests.stack.bench import sha256

OLD, NEW = b"old = 1\n", b"new = 1\n"


def state(content: bytes | None, mode: str = "100644") -> dict[str, str] | None:
    if content is None:
        return None
    return {"mode": mode, "sha256": sha256(content), "link": content.decode() if mode == "120000" else ""}


class Image:
    """A folder that stands for the image, and one for the payload."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root / "image"
        self.payload = root / "payload"
        (self.payload / "files").mkdir(parents=True)
        self.root.mkdir()
        self.capsys = capsys
        self.files: list[dict[str, Any]] = []
        self.builds: list[dict[str, Any]] = []

    def put(self, name: str, content: bytes = OLD, mode: int = 0o644) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
        return path

    def entry(
        self,
        *names: str,
        before: bytes | None = OLD,
        after: bytes | None = NEW,
        modes: tuple[str, str] = ("100644", "100644"),
        **more: object,
    ) -> dict[str, Any]:
        if after is not None:
            (self.payload / "files" / sha256(after)).write_bytes(after)
        places = [str(self.root / name) for name in names]
        sides = {"before": state(before, modes[0]), "after": state(after, modes[1])}
        return {"component": "vllm", "path": names[0], "places": places, **sides, **more}

    def change(self, *names: str, **how: Any) -> None:
        self.files.append(self.entry(*names, **how))

    def step(self, name: str) -> tuple[int, list[str]]:
        manifest = {"files": self.files, "builds": self.builds}
        (self.payload / "manifest.json").write_text(json.dumps(manifest), "utf-8")
        code = main([name], self.payload)
        return code, self.capsys.readouterr().out.replace(str(self.root), "").splitlines()

    def done(self) -> list[str]:
        """Both steps, which must succeed; what the second one said."""
        code, lines = self.step("build")
        assert code == 0, lines
        code, lines = self.step("apply")
        assert code == 0, lines
        assert not self.payload.exists()
        return lines

    def refused(self) -> list[str]:
        """Errors of the first step."""
        code, lines = self.step("build")
        assert code == 1
        return [line.removeprefix("qualify: error: ") for line in lines if line.startswith("qualify: error: ")]

    def all(self) -> set[str]:
        return {path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if not path.is_dir()}


@pytest.fixture
def image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Image:
    return Image(tmp_path, capsys)


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
    image: Image, git_modes: tuple[str, str], before: int, after: int
) -> None:
    path = image.put("a.py", mode=before)
    image.change("a.py", modes=git_modes)
    image.done()
    assert (path.read_bytes(), path.stat().st_mode & 0o7777) == (NEW, after)


def test_a_mode_alone_can_change(image: Image) -> None:
    path = image.put("run.sh")
    image.change("run.sh", after=OLD, modes=("100644", "100755"))
    image.done()
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_file_becomes_a_link_and_a_link_a_file(image: Image) -> None:
    one, two = image.put("a.py"), image.root / "b.py"
    two.symlink_to("a.py")
    image.change("a.py", after=b"c.py", modes=("100644", "120000"))
    image.change("b.py", before=b"a.py", modes=("120000", "100644"))
    image.done()
    assert (one.readlink().name, two.is_symlink(), two.read_bytes()) == ("c.py", False, NEW)


def test_a_hard_link_elsewhere_keeps_the_old_bytes(image: Image) -> None:
    """Installers link copies to a cache of theirs."""
    path = image.put("a.py")
    cached = image.root / "cache"
    cached.hardlink_to(path)
    image.change("a.py")
    image.done()
    assert (path.read_bytes(), cached.read_bytes()) == (NEW, OLD)


def test_two_places_that_are_one_folder_are_one_file(image: Image) -> None:
    path, gone = image.put("opt/a.py"), image.put("opt/b.py")
    (image.root / "site").symlink_to("opt")
    image.change("opt/a.py", "site/a.py")
    image.change("opt/b.py", "site/b.py", after=None)
    image.done()
    assert (path.read_bytes(), gone.exists()) == (NEW, False)


def test_a_file_that_becomes_a_folder_and_a_folder_that_becomes_a_file(image: Image) -> None:
    image.put("a.py")
    image.put("b.py/inner.py")
    image.put("b.py/__pycache__/inner.cpython-312.pyc")
    image.change("a.py", after=None)
    image.change("a.py/inner.py", before=None)
    image.change("b.py", before=None)
    image.change("b.py/inner.py", after=None)
    image.done()
    assert image.all() == {"a.py/inner.py", "b.py"}


def test_a_package_that_goes_leaves_no_folder_that_python_would_import(image: Image) -> None:
    image.put("vllm/a.py")
    image.put("vllm/gone/deep/x.py")
    image.put("vllm/gone/deep/__pycache__/x.cpython-312.pyc")
    image.change("vllm/gone/deep/x.py", after=None)
    image.done()
    assert image.all() == {"vllm/a.py"}
    assert not (image.root / "vllm" / "gone").exists()


def test_a_folder_with_anything_else_in_it_stays(image: Image) -> None:
    image.put("vllm/gone/x.py")
    image.put("vllm/gone/weights.bin")
    image.change("vllm/gone/x.py", after=None)
    image.done()
    assert image.all() == {"vllm/gone/weights.bin"}


# --- what is refused -------------------------------------------------------------------------------------


def test_all_faults_are_told_and_nothing_is_written(image: Image) -> None:
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
def test_another_kind_of_thing_is_no_file(image: Image, kind: str) -> None:
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


def test_a_broken_link_in_the_way_of_a_new_file_is_found(image: Image) -> None:
    (image.root / "n.py").symlink_to("nowhere")
    image.change("n.py", before=None)
    assert "expected no file, found a symbolic link to nowhere" in image.refused()[1]


def test_a_folder_in_the_way_that_is_not_emptied_is_found(image: Image) -> None:
    image.put("b.py/inner.py")
    image.put("b.py/other.py")
    image.change("b.py", before=None)
    image.change("b.py/inner.py", after=None)
    assert image.refused()[1] == "vllm: b.py: /b.py: expected no file, found a folder"


def test_what_is_written_is_checked_again(image: Image) -> None:
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


# --- building from source ----------------------------------------------------------------------------


class TestSource:
    """A source folder with a compiled file's source, one Python module, and an installed copy of it."""

    @pytest.fixture
    def built(self, image: Image) -> Image:
        image.put("src/csrc/x.c")
        image.put("src/vllm/a.py")
        image.put("site/vllm/a.py")
        image.put("site/vllm/kept.py", b"kept\n")
        image.put("site/vllm/gone.py", b"gone\n")
        return image

    def build(self, image: Image, command: str, watched: str = "site", **more: Any) -> None:
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

    def test_what_the_command_installs_is_kept_and_what_it_leaves_elsewhere_is_not(self, built: Image) -> None:
        command = "cp vllm/a.py ../site/vllm/ && cat csrc/x.c > ../site/vllm/x.so && rm ../site/vllm/gone.py && > x.o"
        self.build(built, command)
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

    def test_a_command_that_leaves_a_copy_as_it_was_is_refused(self, built: Image) -> None:
        self.build(built, "cp csrc/x.c ../site/vllm/x.so")
        assert built.refused() == [
            "afterwards 1 of 2 copies are not as the lock says",
            (
                f"vllm: site/vllm/a.py: /site/vllm/a.py: expected sha256 {sha256(NEW)} with mode 100644, "
                f"found sha256 {sha256(OLD)} with mode 100644"
            ),
        ]

    def test_a_copy_that_is_not_the_base_s_is_refused_before_anything_is_built(self, built: Image) -> None:
        built.put("site/vllm/a.py", b"other\n")
        self.build(built, "touch ../built")
        assert "/site/vllm/a.py: expected sha256" in built.refused()[1]
        assert not (built.root / "built").exists()

    def test_a_source_that_is_not_the_base_s_is_refused_before_anything_is_built(self, built: Image) -> None:
        built.put("src/csrc/x.c", b"other\n")
        self.build(built, "touch ../built")
        assert "vllm: csrc/x.c: /src/csrc/x.c: expected sha256" in built.refused()[1]
        assert not (built.root / "built").exists()

    def test_a_base_without_the_source_folder_is_refused(self, built: Image) -> None:
        self.build(built, "true", source="/nowhere")
        assert built.refused() == ["vllm: the base image has no folder /nowhere, which the stack names as the source"]

    def test_a_command_that_installs_no_file_but_a_pipe_is_refused(self, built: Image) -> None:
        self.build(built, "cp vllm/a.py ../site/vllm/ && mkfifo ../site/pipe")
        assert built.refused() == ["vllm: the build command left /site/pipe, which is neither file nor folder"]

    def test_files_that_are_installed_again_as_they_were_are_not_touched(self, built: Image) -> None:
        kept = built.root / "site" / "vllm" / "kept.py"
        cached = built.put("site/vllm/__pycache__/kept.cpython-312.pyc", b"its own")
        inode = kept.stat().st_ino
        self.build(built, "cp vllm/a.py ../site/vllm/ && touch ../site/vllm/kept.py")
        assert built.step("build")[0] == 0
        built.put("src/csrc/x.c")
        built.put("src/vllm/a.py")
        code, lines = built.step("apply")
        assert (code, [line for line in lines if "kept" in line]) == (0, [])
        assert (kept.stat().st_ino, cached.exists()) == (inode, True)


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
