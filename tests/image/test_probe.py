"""The probe, outside any container: what Python would run in a source's place, and how little it does."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import json
import os
import py_compile
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.image import probe

OLD, NEW = b"VALUE = 'old'\n", b"VALUE = 'new'\n"
TIME = 1_700_000_000
Mode = py_compile.PycInvalidationMode


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "module.py"
    path.write_bytes(OLD)
    os.utime(path, (TIME, TIME))
    return path


def compiled(source: Path, mode: Mode) -> str:
    place = py_compile.compile(str(source), invalidation_mode=mode)
    assert place is not None
    return place


def rewrite(source: Path, content: bytes, time: int = TIME) -> None:
    source.write_bytes(content)
    os.utime(source, (time, time))


def run_by_python(source: Path) -> str:
    """What Python itself makes of it: the reference."""
    program = f"import sys; sys.path.insert(0, {str(source.parent)!r}); import module; print(module.VALUE)"
    done = subprocess.run([sys.executable, "-I", "-B", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


class TestStale:
    @pytest.mark.parametrize("mode", list(Mode), ids=lambda m: m.name)
    def test_a_pyc_of_this_source_is_not(self, source: Path, mode: Mode) -> None:
        compiled(source, mode)
        assert probe.stale(source, OLD) is None

    @pytest.mark.parametrize(
        ("mode", "content", "time", "runs"),
        [
            (Mode.TIMESTAMP, NEW, TIME, "old"),
            (Mode.TIMESTAMP, NEW, TIME + 1, "new"),
            (Mode.TIMESTAMP, NEW + b"\n", TIME, "new"),
            (Mode.CHECKED_HASH, NEW, TIME, "new"),
            (Mode.UNCHECKED_HASH, NEW, TIME + 1, "old"),
        ],
        ids=["same time and size", "other time", "other size", "checked hash", "unchecked hash"],
    )
    def test_it_says_what_python_does(self, source: Path, mode: Mode, content: bytes, time: int, runs: str) -> None:
        place = compiled(source, mode)
        rewrite(source, content, time)
        assert run_by_python(source) == runs
        assert probe.stale(source, content) == (place if runs == "old" else None)

    def test_none_without_a_pyc(self, source: Path) -> None:
        assert probe.stale(source, OLD) is None

    def test_a_pyc_of_another_python_is_not_read(self, source: Path) -> None:
        place = Path(compiled(source, Mode.UNCHECKED_HASH))
        place.write_bytes(b"\0\0\r\n" + place.read_bytes()[4:])
        rewrite(source, NEW)
        assert run_by_python(source) == "new"
        assert probe.stale(source, NEW) is None

    def test_a_pyc_that_holds_no_code_counts(self, source: Path) -> None:
        place = Path(compiled(source, Mode.TIMESTAMP))
        place.write_bytes(place.read_bytes()[:16] + b"N")
        assert probe.stale(source, OLD) == str(place)


class TestShadows:
    def test_nothing_beside_it(self, source: Path) -> None:
        assert probe.shadows(source, gone=False) == []

    def test_an_extension(self, source: Path) -> None:
        extension = source.with_name("module" + importlib.machinery.EXTENSION_SUFFIXES[0])
        extension.touch()
        assert probe.shadows(source, gone=False) == [str(extension)]

    def test_a_package_of_the_same_name(self, source: Path) -> None:
        init = source.parent / "module" / "__init__.py"
        init.parent.mkdir()
        init.write_bytes(NEW)
        assert run_by_python(source.parent / "module.py").startswith("new")
        assert probe.shadows(source, gone=False) == [str(init)]

    def test_a_pyc_beside_it_counts_only_where_the_source_is_gone(self, source: Path) -> None:
        pyc = source.with_suffix(".pyc")
        py_compile.compile(str(source), cfile=str(pyc))
        rewrite(source, NEW)
        assert (run_by_python(source), probe.shadows(source, gone=False)) == ("new", [])
        source.unlink()
        assert (run_by_python(source), probe.shadows(source, gone=True)) == ("old", [str(pyc)])


class TestFiles:
    def test_a_link_is_told_from_what_it_points_to(self, tmp_path: Path, source: Path) -> None:
        link = tmp_path / "link.py"
        link.symlink_to("module.py")
        found = probe.look_at(link)
        assert found["sha256"] == probe.look_at(source)["sha256"]
        assert found["link_sha256"] not in {None, found["sha256"]}

    def test_a_link_to_nowhere_has_no_content(self, tmp_path: Path) -> None:
        link = tmp_path / "link.py"
        link.symlink_to("nowhere")
        found = probe.look_at(link)
        assert found["sha256"] is None
        assert found["link_sha256"] is not None


def ask(cwd: Path, request: dict[str, Any], *options: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """Run the probe as it is run in a container."""
    program = Path(probe.__file__).read_text("utf-8")
    command = [sys.executable, *options, "-c", program, probe.encode(request)]
    done = subprocess.run(command, cwd=cwd, env=env or {}, capture_output=True, text=True, check=True)
    [line] = [x for x in done.stdout.splitlines() if x.startswith(probe.MARK)]
    found: dict[str, Any] = json.loads(line.removeprefix(probe.MARK))
    return found


REQUEST: dict[str, Any] = {"first": "/somewhere", "packages": {"toy": {"roots": ["/r"], "files": ["toy/a.py"]}}}


class TestProgram:
    def test_it_imports_nothing_of_the_packages_and_only_the_standard_library(self) -> None:
        tree = ast.parse(Path(probe.__file__).read_text("utf-8"))
        names = [a.name for x in ast.walk(tree) if isinstance(x, ast.Import) for a in x.names]
        names += [x.module or "" for x in ast.walk(tree) if isinstance(x, ast.ImportFrom)]
        assert {n.partition(".")[0] for n in names} <= sys.stdlib_module_names

    def test_python_3_9_can_read_it(self) -> None:
        compile(ast.parse(Path(probe.__file__).read_text("utf-8"), feature_version=(3, 9)), "probe", "exec")

    def test_a_module_in_the_working_folder_is_not_mistaken_for_the_standard_librarys(self, tmp_path: Path) -> None:
        (tmp_path / "json.py").write_text("raise SystemExit('a stranger')", "utf-8")
        assert ask(tmp_path, REQUEST)["path"][0] == "/somewhere"

    def test_a_package_with_code_at_its_top_is_found_and_not_run(self, tmp_path: Path) -> None:
        (tmp_path / "toy").mkdir()
        (tmp_path / "toy" / "__init__.py").write_text("raise SystemExit('was run')", "utf-8")
        (tmp_path / "toy" / "a.py").write_bytes(NEW)
        found = ask(tmp_path, {**REQUEST, "first": str(tmp_path)})["packages"]["toy"]
        assert (found["imported"], found["on_path"]) == ([str(tmp_path)], [str(tmp_path)])
        assert found["files"][f"{tmp_path}/toy/a.py"]["sha256"]
        assert found["files"]["/r/toy/a.py"]["sha256"] is None

    def test_a_folder_without_init_is_passed_over_as_python_does(self, tmp_path: Path) -> None:
        for name, init in (("data", False), ("real", True)):
            (tmp_path / name / "toy").mkdir(parents=True)
            if init:
                (tmp_path / name / "toy" / "__init__.py").touch()
        request = {**REQUEST, "first": str(tmp_path / "data")}
        found = ask(tmp_path, request, env={"PYTHONPATH": str(tmp_path / "real")})["packages"]["toy"]
        assert found["imported"] == found["on_path"] == [str(tmp_path / "real")]

    def test_a_namespace_package_is_all_its_folders(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            (tmp_path / name / "toy").mkdir(parents=True)
        request = {**REQUEST, "first": str(tmp_path / "one")}
        found = ask(tmp_path, request, env={"PYTHONPATH": str(tmp_path / "two")})["packages"]["toy"]
        assert found["imported"] == [str(tmp_path / "one"), str(tmp_path / "two")]

    @pytest.mark.parametrize("option", ["-I", "-P"])
    def test_options_of_the_server_are_its_own(self, tmp_path: Path, option: str) -> None:
        """With these, Python puts nothing in front of its path."""
        assert "/somewhere" not in ask(tmp_path, REQUEST, option)["path"]

    def test_what_it_costs_is_said(self, tmp_path: Path) -> None:
        assert 0 < ask(tmp_path, REQUEST)["cpu_s"] < 30
