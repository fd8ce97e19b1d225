"""When a tool's answer is believed: exit code and report must agree, and a stranger's report is read as one."""

from __future__ import annotations

import pytest

from harness.checks.finding import Fault, Node, Result, State, repository_path
from harness.checks.junit import BrokenReportError, read_junit
from harness.checks.read import read_result
from harness.config.checks import Kind
from harness.records import Exit
from tests.checks.local import check, ended, run_record

HEAD = '<?xml version="1.0" encoding="utf-8"?>'
CASE = '<testcase classname="tests.test_a" name="test" file="tests/test_a.py">{}</testcase>'


def junit(*inside: str) -> bytes:
    cases = "".join(CASE.format(x) for x in inside)
    return f"{HEAD}<testsuites><testsuite>{cases}</testsuite></testsuites>".encode()


NO_MODULE = b"ModuleNotFoundError: No module named 'a'"
GREEN, RED = junit(""), junit('<failure message="assert 0">long</failure>')


def result(
    kind: Kind = Kind.PYTEST, exit_: Exit | None = None, output: bytes = b"", report: bytes | None = None, **run: object
) -> Result:
    return read_result(run_record(check(kind), exit_, **run), output, report)


def fault(kind: Kind = Kind.PYTEST, exit_: Exit | None = None, **more: object) -> Fault:
    found = result(kind, exit_, **more).fault  # type: ignore[arg-type]
    assert found is not None
    return found


class TestEnds:
    @pytest.mark.parametrize(
        ("exit_", "run", "environment", "told"),
        [
            (None, {"fault": "no Docker engine"}, True, "no Docker engine"),
            (None, {}, True, "nobody saw its end"),
            (
                ended(127, error="exec nosuch failed: No such file or directory"),
                {"command": ("nosuch",)},
                True,
                "nosuch: exec nosuch failed: No such file or directory",
            ),
            (ended(137, oom_killed=True), {}, False, "out of memory: killed by the kernel's OOM killer, exit code 137"),
            (ended(None, signal="SIGKILL", asked=True), {"stopped": "it did not end within 1 s"}, False, "within 1 s"),
            (ended(139), {}, False, "it ended with exit code 139"),
        ],
        ids=["engine", "unseen", "no such command", "out of memory", "too long", "crash"],
    )
    @pytest.mark.parametrize("kind", list(Kind))
    def test_that_are_no_answer(
        self, kind: Kind, exit_: Exit | None, run: dict[str, object], environment: bool, told: str
    ) -> None:
        found = fault(kind, exit_, **run)
        assert found.environment is environment
        assert told in found.reason

    @pytest.mark.parametrize(
        ("output", "named"),
        [
            (b"/usr/bin/python3: No module named pytest\n", "pytest"),
            (b"/opt/venv/bin/python3.12: No module named mypy\n", "mypy"),
            (b"python3: Error while finding module specification for 'a.b' (" + NO_MODULE + b")\n", "a"),
        ],
        ids=["pytest", "mypy", "a submodule"],
    )
    @pytest.mark.parametrize("kind", [Kind.PYTEST, Kind.MYPY, Kind.COMMAND])
    def test_without_the_tool_it_is_named(self, kind: Kind, output: bytes, named: str) -> None:
        assert fault(kind, ended(1), output=output) == Fault(f"{named} is not installed in the image", environment=True)

    def test_a_module_of_the_component_is_no_tool(self) -> None:
        found = result(Kind.COMMAND, ended(1), output=b"/usr/bin/python3: No module named pkg.gone\n")
        assert (found.fault, len(found.findings)) == (None, 1)


class TestPytest:
    @pytest.mark.parametrize(
        ("code", "report", "agrees"),
        [
            *((0, GREEN, True), (0, RED, False), (1, RED, True), (1, GREEN, False), (2, RED, True), (2, GREEN, False)),
            *((5, junit(), True), (5, GREEN, False), (3, GREEN, False), (4, RED, False)),
        ],
    )
    def test_exit_code_and_report_must_agree(self, code: int, report: bytes, agrees: bool) -> None:
        assert (result(Kind.PYTEST, ended(code), report=report).fault is None) is agrees

    def test_a_report_that_was_deleted_is_no_pass(self) -> None:
        found = fault(Kind.PYTEST, ended(0), report_fault="it left none", output=b"1 passed\n\n")
        assert found == Fault("no junit.xml: it left none (exit code 0; it printed: 1 passed)", environment=False)

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (b"", "no whole XML"),
            (GREEN[:-5], "no whole XML"),
            (GREEN + GREEN, "no whole XML"),
            (b"<html/>", "<html> has no place in it"),
            (b"<testsuites>" + b"<a>" * 20, "<a> has no place in it"),
            (
                b'<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><testsuites>&b;</testsuites>',
                "it declares a document type",
            ),
            (
                b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><testsuites>&x;</testsuites>',
                "it declares a document type",
            ),
            (b'<!DOCTYPE a SYSTEM "http://127.0.0.1/a.dtd"><testsuites/>', "it declares a document type"),
        ],
        ids=["empty", "torn", "twice", "no report", "deep", "entities in entities", "a file", "an address"],
    )
    def test_a_report_that_is_none_is_refused(self, text: bytes, told: str) -> None:
        assert told in fault(Kind.PYTEST, ended(0), report=text).reason
        with pytest.raises(BrokenReportError, match=told):
            read_junit(text, folder="/", roots={}, packages=())

    @pytest.mark.parametrize(
        "text",
        [
            "ImportError: " + ".so." * 20_000,
            "ImportError: .so" + "." * 80_000,
            "ModuleNotFoundError: No module named '" * 9_000,
        ],
        ids=["libraries", "dots", "quotes"],
    )
    def test_a_text_made_to_be_slow_is_not(self, text: str) -> None:
        case = f'<testcase classname="" name="a" file="a.py"><error message="x">{text}</error></testcase>'
        report = f"<testsuites><testsuite>{case * 20}</testsuite></testsuites>".encode()
        assert result(Kind.PYTEST, ended(2), report=report).uncollected["a.py"].missing is None

    def test_of_a_test_that_stands_there_twice_the_worse_counts(self) -> None:
        bad = '<error message="failed on teardown">x</error>'
        found = result(Kind.PYTEST, ended(1), report=junit("", bad, ""))
        assert found.tests == {"tests/test_a.py::test": Node(State.FAILED, "failed on teardown")}

    def test_an_old_pytest_that_names_no_file(self) -> None:
        report = GREEN.replace(b' file="tests/test_a.py"', b"")
        assert list(result(Kind.PYTEST, ended(0), report=report).tests) == ["tests/test_a.py::test"]


class TestLinters:
    @pytest.mark.parametrize(
        "report",
        [b"", b"{}x", b'{"a": 1}', b"[1]", b'[{"filename": "a.py"}]', b"[" * 100_000, b"\xff\xfe"],
        ids=["empty", "no JSON", "a table", "a number", "a part", "deep", "no text"],
    )
    def test_a_ruff_report_that_is_none_is_refused(self, report: bytes) -> None:
        assert fault(Kind.RUFF, ended(1), report=report).reason.startswith("ruff.json cannot be read")

    @pytest.mark.parametrize(
        ("code", "report"), [(0, b'[{"filename":"a","code":"E","message":"m","location":{"row":1}}]'), (1, b"[]")]
    )
    def test_ruffs_exit_code_and_report_must_agree(self, code: int, report: bytes) -> None:
        assert "findings could be read" in fault(Kind.RUFF, ended(code), report=report).reason

    def test_a_mypy_line_that_could_not_be_read_is_missed(self) -> None:
        output = b"pkg/a.py:1: error: one  [x]\nnobody's line\nFound 2 errors in 1 file (checked 1 source file)\n"
        assert fault(Kind.MYPY, ended(1), output=output).reason == "mypy counted 2 errors, and 1 could be read"

    @pytest.mark.parametrize(
        ("code", "output"), [(0, b"pkg/a.py:1: error: one  [x]\n"), (1, b"Killed\n")], ids=["0", "1"]
    )
    def test_mypys_exit_code_and_lines_must_agree(self, code: int, output: bytes) -> None:
        assert "findings could be read" in fault(Kind.MYPY, ended(code), output=output).reason

    def test_lines_that_look_like_json_and_are_none_are_left_out(self) -> None:
        output = b'{"file": "a"}\n{x\n' + b"{" * 100_000 + b"\npkg/a.py:1: error: one  [x]\n"
        assert len(result(Kind.MYPY, ended(1), output=output).findings) == 1


@pytest.mark.parametrize(("code", "count"), [(0, 0), (1, 1), (3, 1)])
def test_a_command_is_read_by_its_exit_code(code: int, count: int) -> None:
    found = result(Kind.COMMAND, ended(code))
    assert (len(found.findings), found.fault) == (count, None)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/opt/vllm/vllm/a.py", "vllm/a.py"),
        ("/venv/site-packages/vllm/a.py", "vllm/a.py"),
        ("tests/test_a.py", "tests/test_a.py"),
        ("../../../opt/vllm/vllm/a.py", "vllm/a.py"),
        ("/opt/vllm/b12x/a.py", "src/b12x/a.py"),
        ("/opt/vllmx/a.py", "/opt/vllmx/a.py"),
        ("/usr/lib/python3/os.py", "/usr/lib/python3/os.py"),
    ],
)
def test_paths_are_the_repositorys(path: str, expected: str) -> None:
    roots = {
        "/qualify/source/vllm": "",
        "/opt/vllm": "",
        "/venv/site-packages": "",
        "/opt/vllm/vllm": "vllm",
        "/opt/vllm/b12x": "src/b12x",
    }
    assert repository_path(path, "/qualify/source/vllm", roots) == expected
