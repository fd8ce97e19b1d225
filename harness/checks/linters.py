"""What ruff and mypy say, as findings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from harness.checks.finding import Finding, repository_path

_MYPY = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+)(?::\d+)*: (?P<severity>error|warning|note): "
    r"(?P<message>.*?)(?:  \[(?P<code>[a-z0-9\-]+)\])?$"
)
_FOUND = re.compile(r"^Found (\d+) errors? in ", re.MULTILINE)
CUT_SHORT = "errors prevented further checking"


def read_ruff(data: bytes, *, folder: str, roots: Mapping[str, str]) -> tuple[Finding, ...]:
    """Findings of `ruff check --output-format json`.

    Raises:
        ValueError: it is no such report; the text says why.
    """
    try:
        rows = json.loads(data)
        return tuple(
            Finding(
                file=repository_path(str(row["filename"]), folder, roots),
                code=str(row["code"] or "invalid-syntax"),  # before 0.12 the code of a syntax error was null
                message=str(row["message"]),
                line=int(row["location"]["row"]),
            )
            for row in rows
        )
    except (KeyError, TypeError, RecursionError) as e:
        raise ValueError(f"not as ruff writes it: {type(e).__name__} {e}") from None


def read_mypy(output: str, *, folder: str, roots: Mapping[str, str]) -> tuple[Finding, ...]:
    """Errors of mypy, from its lines or from those of `--output json`; notes belong to the error above them.

    Raises:
        ValueError: mypy counted another number of errors than could be read.
    """
    findings = []
    for line in output.splitlines():
        fields = _json_line(line) if line.startswith("{") else _text_line(line)
        if fields is None or fields["severity"] != "error":
            continue
        findings.append(
            Finding(
                file=repository_path(str(fields["file"]), folder, roots),
                code=str(fields["code"] or ""),
                message=str(fields["message"]),
                line=int(fields["line"]),
            )
        )
    counted = _FOUND.findall(output)
    if counted and int(counted[-1]) != len(findings):
        raise ValueError(f"mypy counted {counted[-1]} errors, and {len(findings)} could be read")
    return tuple(findings)


def _text_line(line: str) -> dict[str, Any] | None:
    match = _MYPY.match(line)
    return match.groupdict() if match else None


def _json_line(line: str) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    wanted = ("file", "line", "message", "code", "severity")
    return fields if all(name in fields for name in wanted) and isinstance(fields["line"], int) else None
