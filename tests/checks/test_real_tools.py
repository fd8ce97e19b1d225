"""What real pytest, ruff and mypy write about small files, and what is read from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checks.compare import compare
from harness.checks.finding import Node, State
from harness.config.checks import Kind
from tests.checks.local import Project

TEST_FILE = """\
import pytest

from pkg.mod import f


def test_passes():
    assert f(1) == 1


def test_fails():
    assert f(1) == 2


@pytest.mark.parametrize("text", ["x/y", "a::b", "a b", "tests.test_a"])
def test_each(text):
    assert text != "a::b"


class TestClass:
    @pytest.fixture
    def broken(self):
        raise RuntimeError("no")

    def test_inside(self):
        pass

    def test_set_up(self, broken):
        pass


@pytest.mark.skip(reason="not now")
def test_skipped():
    pass


@pytest.mark.xfail(reason="known")
def test_known_to_fail():
    assert False


@pytest.fixture
def torn_down():
    yield
    raise ValueError("late")


def test_torn_down(torn_down):
    pass


def test_lazy():
    import not_there.at_all


def test_both(torn_down):
    assert f(1) == 3
"""
MOD = "def f(x: int) -> int:\n    return x\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path).write({"pkg/mod.py": MOD})


class TestPytest:
    def test_every_test_by_its_node_id(self, project: Project) -> None:
        found = project.write({"tests/a/test_a.py": TEST_FILE}).run(Kind.PYTEST, "tests/a/*.py")
        assert found.fault is None
        states = {node.removeprefix("tests/a/test_a.py::"): test.state for node, test in found.tests.items()}
        assert states == {
            "test_passes": State.PASSED,
            "test_fails": State.FAILED,
            "test_each[x/y]": State.PASSED,
            "test_each[a::b]": State.FAILED,
            "test_each[a b]": State.PASSED,
            "test_each[tests.test_a]": State.PASSED,
            "TestClass::test_inside": State.PASSED,
            "TestClass::test_set_up": State.FAILED,
            "test_skipped": State.SKIPPED,
            "test_known_to_fail": State.SKIPPED,
            "test_torn_down": State.FAILED,
            "test_lazy": State.FAILED,
            "test_both": State.FAILED,
        }

    def test_why_they_failed(self, project: Project) -> None:
        tests = project.write({"tests/test_a.py": TEST_FILE}).run(Kind.PYTEST, "tests/*.py").tests
        failed = {
            node.rpartition("::")[2]: (test.message, test.missing)
            for node, test in tests.items()
            if test.state is State.FAILED and "[" not in node
        }
        assert failed == {
            "test_fails": ("assert 1 == 2", None),
            "test_set_up": ('failed on setup with "RuntimeError: no"', None),
            "test_torn_down": ('failed on teardown with "ValueError: late"', None),
            "test_lazy": ("ModuleNotFoundError: No module named 'not_there'", "not_there"),
            "test_both": ("assert 1 == 3", None),
        }

    @pytest.mark.parametrize(
        ("text", "missing", "told"),
        [
            ("import not_there.at_all", "not_there", "ModuleNotFoundError: No module named 'not_there'"),
            ("from os import nothing_such", "os", "ImportError: cannot import name 'nothing_such' from 'os'"),
            (
                "raise ImportError('libcuda.so.1: cannot open shared object file: No such file or directory')",
                "libcuda.so.1",
                "ImportError: libcuda.so.1: cannot open shared object file",
            ),
            ("from pkg.mod import gone", None, "ImportError: cannot import name 'gone' from 'pkg.mod'"),
            ("import pkg.gone", None, "ModuleNotFoundError: No module named 'pkg.gone'"),
            ("import pkg.lazy", "not_there", "ModuleNotFoundError: No module named 'not_there'"),
            ("raise NameError('x')", None, "NameError: x"),
            ("def (", None, "SyntaxError: "),
            (
                "try:\n    import not_there\nexcept ImportError:\n    from pkg.mod import gone",
                None,
                "ImportError: cannot import name 'gone' from 'pkg.mod'",
            ),
        ],
        ids=[
            *("a missing module", "a missing name", "a missing library", "a name of its own", "a module of its own"),
            *("a missing module behind its own", "an error", "a syntax error", "its own, after another one"),
        ],
    )
    def test_a_module_that_cannot_be_collected(
        self, project: Project, text: str, missing: str | None, told: str
    ) -> None:
        files = {"tests/test_bad.py": f"{text}\n\ndef test_a(): pass\n", "tests/test_good.py": "def test_b(): pass\n"}
        found = project.write({**files, "pkg/lazy.py": "import not_there\n"}).run(Kind.PYTEST, "tests/*.py")
        [(file, fault)] = found.uncollected.items()
        assert (file, fault.missing) == ("tests/test_bad.py", missing)
        assert fault.message.startswith(told)
        assert found.tests == {"tests/test_good.py::test_b": Node(State.PASSED)}, "the others run all the same"

    def test_a_module_that_skips_itself_has_no_test(self, project: Project) -> None:
        project.write({"tests/test_a.py": "import pytest\npytest.importorskip('not_there')\ndef test_a(): pass\n"})
        found = project.run(Kind.PYTEST, "tests/*.py")
        assert (found.fault, found.tests, found.uncollected) == (None, {}, {})

    def test_an_interpreter_that_ends_leaves_no_answer(self, project: Project) -> None:
        project.write({"tests/test_a.py": "import os\ndef test_a(): os._exit(0)\n"})
        fault = project.run(Kind.PYTEST, "tests/*.py").fault
        assert fault is not None
        assert not fault.environment, "the source may be the reason"
        assert fault.reason.startswith("no junit.xml: it left none (exit code 0")

    def test_options_that_pytest_does_not_know_are_nobodys_doing(self, project: Project) -> None:
        project.write({"tests/test_a.py": "def test_a(): pass\n"})
        fault = project.run(Kind.PYTEST, "tests/*.py", options=("--no-such-option",)).fault
        assert fault is not None
        assert fault.environment


BAD = """\
import json
import os


def label(x: int) -> str:
    return x


def other(x: int) -> str:
    return x


def label() -> None:
    label(1)
"""


class TestRuff:
    def test_findings(self, project: Project) -> None:
        found = project.write({"pkg/bad.py": BAD}).run(Kind.RUFF, "pkg/*.py")
        assert [str(f) for f in found.findings] == [
            "pkg/bad.py:1: `json` imported but unused [F401]",
            "pkg/bad.py:2: `os` imported but unused [F401]",
            "pkg/bad.py:13: Redefinition of unused `label` from line 5: `label` redefined here [F811]",
        ]

    def test_none(self, project: Project) -> None:
        found = project.run(Kind.RUFF, "pkg/*.py")
        assert (found.findings, found.fault) == ((), None)

    def test_a_syntax_error_is_a_finding(self, project: Project) -> None:
        found = project.write({"pkg/bad.py": "def (\n"}).run(Kind.RUFF, "pkg/bad.py")
        assert {f.code for f in found.findings} == {"invalid-syntax"}

    def test_a_wrong_option_is_nobodys_doing(self, project: Project) -> None:
        fault = project.run(Kind.RUFF, "pkg/*.py", options=("--select", "NOPE")).fault
        assert fault is not None
        assert fault.environment


class TestMypy:
    EXPECTED = (
        'pkg/bad.py:6: Incompatible return value type (got "int", expected "str") [return-value]',
        'pkg/bad.py:10: Incompatible return value type (got "int", expected "str") [return-value]',
        'pkg/bad.py:13: Name "label" already defined on line 5 [no-redef]',
    )

    @pytest.mark.parametrize(
        "options",
        [(), ("--show-column-numbers",), ("--show-column-numbers", "--show-error-end"), ("--output", "json")],
        ids=["as it is", "with columns", "with ends", "as JSON"],
    )
    def test_findings(self, project: Project, options: tuple[str, ...]) -> None:
        found = project.write({"pkg/bad.py": BAD}).run(Kind.MYPY, "pkg/bad.py", options=options)
        assert tuple(str(f) for f in found.findings)[:3] == self.EXPECTED

    def test_a_repository_s_own_settings_do_not_make_it_unreadable(self, project: Project) -> None:
        settings = "[mypy]\npretty = True\nshow_error_context = True\nhide_error_codes = True\n"
        found = project.write({"pkg/bad.py": BAD, "mypy.ini": settings}).run(Kind.MYPY, "pkg/bad.py")
        assert [f.line for f in found.findings][:3] == [6, 10, 13]

    def test_notes_are_no_findings(self, project: Project) -> None:
        project.write({"pkg/bad.py": "x: int = 1\nreveal_type(x)\n"})
        found = project.run(Kind.MYPY, "pkg/bad.py")
        assert (found.findings, found.fault) == ((), None)

    def test_where_it_stops_it_is_said(self, project: Project) -> None:
        found = project.write({"pkg/bad.py": "def (\n"}).run(Kind.MYPY, "pkg/bad.py", "pkg/mod.py")
        assert found.cut_short == "errors prevented further checking"
        assert {f.code for f in found.findings} == {"syntax"}

    def test_a_file_that_is_not_there_is_no_finding(self, project: Project) -> None:
        fault = project.run(Kind.MYPY, options=("/no/such.py",)).fault
        assert fault is not None
        assert fault.environment


@pytest.mark.parametrize("kind", [Kind.RUFF, Kind.MYPY])
def test_lines_that_move_make_nothing_new(project: Project, kind: Kind) -> None:
    before = project.write({"pkg/bad.py": BAD}).run(kind, "pkg/bad.py")
    after = project.write({"pkg/bad.py": "# one\n# two\n\n" + BAD}).run(kind, "pkg/bad.py")
    found = compare(before, after)
    assert (found.new, found.fixed) == ((), ())
    assert len(found.pre_existing) == len(before.findings) > 2


def test_one_more_among_equals_is_one_new(project: Project) -> None:
    before = project.write({"pkg/bad.py": BAD}).run(Kind.MYPY, "pkg/bad.py")
    more = "\n\ndef first(x: int) -> str:\n    return x\n" + BAD
    found = compare(before, project.write({"pkg/bad.py": more}).run(Kind.MYPY, "pkg/bad.py"))
    [new] = found.new
    assert "Incompatible return value type" in new
    assert found.fixed == ()
