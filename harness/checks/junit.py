"""Pytest's junit.xml, read as a stranger's: a document type, and so every entity of its own, is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

from harness.checks.finding import Node, State, Uncollected, repository_path

MESSAGE = 300
"""Characters of a message that are kept; the whole of it stands in the evidence."""
LOOKED_AT = 50_000
"""Characters at the end of a traceback in which the reason is looked for."""

# Bounded, because a stranger writes the text: nothing in it may take long to be looked for.
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.\-]{1,300})'")
_NO_NAME = re.compile(
    r"ImportError: cannot import name '[^'\n]{1,300}' from (?:partially initialized module )?'([\w.\-]{1,300})'"
)
_NO_LIBRARY = re.compile(r"(?:ImportError|OSError): (\S{1,200}\.so[.\d]{0,30}): cannot open shared object file")
_RAISED = re.compile(r"^E {3,}(\S.*)$", re.MULTILINE)
_ORDER = list(State)


class BrokenReportError(Exception):
    """The file is no report of pytest's; the text says why."""


@dataclass
class _Case:
    """One <testcase> as it is read."""

    attributes: Mapping[str, str]
    state: State = State.PASSED
    message: str = ""
    text: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """The report of one run."""

    tests: Mapping[str, Node]
    uncollected: Mapping[str, Uncollected]


def read_junit(data: bytes, *, folder: str, roots: Mapping[str, str], packages: Sequence[str]) -> Report:
    """Tests by node id, and modules that could not be collected by path.

    Args:
        data: the file, written with junit_family=xunit1, which names each test's file.
        folder: pytest's root folder, to which those names are relative.
        roots: see `repository_path`.
        packages: names under which the component is imported.

    Raises:
        BrokenReportError: it is none, or not whole.
    """
    tests: dict[str, Node] = {}
    uncollected: dict[str, Uncollected] = {}
    for case in _cases(data):
        file = case.attributes.get("file") or _file_of(case.attributes)
        path = repository_path(file, folder, roots)
        text = "".join(case.text)
        if not case.attributes.get("classname"):
            if case.state is State.FAILED:
                uncollected[path] = Uncollected(_raised(text) or case.message, missing_module(text, packages))
            continue
        node = _node(case.attributes, file, path)
        test = Node(case.state, _first_line(case.message), missing_module(case.message, packages))
        before = tests.get(node)
        if before is None or _ORDER.index(test.state) > _ORDER.index(before.state):
            tests[node] = test
    return Report(tests, uncollected)


def missing_module(text: str, packages: Sequence[str]) -> str | None:
    """The module or library for want of which an import failed, None where the component itself is at fault."""
    end = text[-LOOKED_AT:]
    found = [m for pattern in (_NO_MODULE, _NO_NAME, _NO_LIBRARY) for m in pattern.finditer(end)]
    if not found:
        return None
    name = max(found, key=lambda m: m.start())[1]  # the last error of a chain is the one that was not handled
    return None if name.partition(".")[0] in packages else name


def _cases(data: bytes) -> Iterator[_Case]:
    cases: list[_Case] = []
    depth: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        depth.append(name)
        if depth[0] != "testsuites" or len(depth) > 16:
            raise BrokenReportError(f"<{name}> has no place in it")
        if name == "testcase":
            cases.append(_Case(attributes))
        elif name in ("failure", "error", "skipped") and depth[-2:-1] == ["testcase"]:
            state = State.SKIPPED if name == "skipped" else State.FAILED
            if _ORDER.index(state) > _ORDER.index(cases[-1].state):
                cases[-1].state, cases[-1].message = state, attributes.get("message", "")

    def text(content: str) -> None:
        if depth[-1] == "error":
            cases[-1].text.append(content)

    def doctype(*_: object) -> None:
        raise BrokenReportError("it declares a document type, which pytest never does")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: depth.pop()
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as e:
        raise BrokenReportError(f"it is no whole XML: {e}") from None
    yield from cases


def _file_of(attributes: Mapping[str, str]) -> str:
    """From the dotted name, where the report does not name the file."""
    return f"{(attributes.get('classname') or attributes.get('name', '')).replace('.', '/')}.py"


def _node(attributes: Mapping[str, str], file: str, path: str) -> str:
    """The node id: `tests/test_x.py::TestA::test_b[c]`; the class stands in the dotted name behind the module's."""
    module = file.removesuffix(".py").replace("/", ".")
    classes = attributes["classname"].removeprefix(module).strip(".")
    parts = (path, *(classes.split(".") if classes else ()), attributes.get("name", ""))
    return "::".join(parts)


def _raised(text: str) -> str:
    """The line of a traceback that says what was raised."""
    lines = _RAISED.findall(text)
    return _first_line(lines[-1]) if lines else _first_line(text)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:MESSAGE]
