"""Verdict and report, derived again from the raw files and compared with what the bundle says."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from harness.evidence.bundle import write_record
from harness.evidence.manifest import MANIFEST
from harness.evidence.mismatch import Mismatch
from harness.evidence.names import printable
from harness.evidence.origin import origin
from harness.evidence.strict_json import parse
from harness.records import Origin
from harness.verification.differences import Difference, differences, file_difference
from harness.verification.rows import row_differences
from harness.verification.subject import Found, Subject

VERDICT = "verdict.json"
DERIVING = ("Jinja2", "matplotlib", "numpy", "pandas", "prometheus_client", "pyarrow", "pydantic", "scipy")
"""Packages whose version may show in verdict or report."""
MOST_ROWS = 100
"""Mismatches of one file that are told."""


def check_root(subject: Subject) -> Found:
    """The verdict names the evidence that it was derived from by the manifest's SHA-256, as the report does.

    Raises:
        BundleError: the verdict cannot be read.
    """
    said = subject.bundle.verdict().evidence_root_sha256
    if MANIFEST not in subject.files:
        return Found((Mismatch(VERDICT, "evidence_root_sha256", said, f"unknown: there is no {MANIFEST}"),))
    if said != subject.root_sha256:
        return Found((Mismatch(VERDICT, "evidence_root_sha256", said, f"{subject.root_sha256} ({MANIFEST})"),))
    return Found(told=(f"the verdict is of this evidence: {said}",))


def check_verdict(subject: Subject) -> Found:
    """The judge's answer, field by field and byte by byte.

    Raises:
        BundleError: the evidence cannot be read.
    """
    if VERDICT not in subject.files:
        return Found((Mismatch(VERDICT, "file", "the judge has spoken", None),))
    try:
        said: Any = parse((subject.root / VERDICT).read_bytes())
    except ValueError as e:
        return Found((Mismatch(VERDICT, "content", "a verdict", printable(str(e))),))
    verdict = subject.verdict
    found: Any = verdict.model_dump(mode="json")
    mismatches = [
        Mismatch(VERDICT, field, one, None if other is None else f"{other}{_where(row)}")
        for (field, one, other), row in _parted(said, found)
    ]
    if not mismatches:
        again = subject.derived_report.parent / VERDICT
        write_record(again, verdict)
        parted = file_difference(VERDICT, subject.root / VERDICT, again)
        mismatches += [parted] if parted else []
    figures = sum(_figures(row) for row in found["rows"])
    told = f"{figures} figures in {len(found['rows'])} rows were derived again from the raw files"
    return Found(tuple(mismatches[:MOST_ROWS]), (told,))


def check_report(subject: Subject) -> Found:
    """Every file of the report, written again elsewhere.

    Raises:
        BundleError: the evidence cannot be read.
    """
    from harness.report import write_report  # noqa: PLC0415  # heavy

    write_report(subject.bundle, subject.verdict, subject.case)
    again = {p.relative_to(subject.derived_report).as_posix() for p in subject.derived_report.rglob("*") if p.is_file()}
    there = {name.removeprefix("report/") for name in subject.files if name.startswith("report/")}
    mismatches = []
    for name in sorted(again | there):
        if name not in there or name not in again:
            said, found = (None, "there") if name in there else ("part of every report", None)
            mismatches.append(Mismatch(f"report/{name}", "file", said, found))
        elif parted := file_difference(f"report/{name}", subject.root / "report" / name, subject.derived_report / name):
            mismatches.append(parted)
    return Found(tuple(mismatches), (f"{len(again)} files of the report were written again",))


def other_origin(measured: Origin, own: Origin | None = None) -> str | None:
    """What to know where the bundle was made by another harness than this one; None where it was not."""
    own = own or _own()
    ours, theirs = ((o.version, o.commit, o.dirty) for o in (own, measured))
    others = [
        f"{name} {measured.packages.get(name, 'none')} there and {own.packages.get(name, 'none')} here"
        for name in DERIVING
        if measured.packages.get(name) != own.packages.get(name)
    ]
    if ours == theirs and own.dirty is False and not others:
        return None
    if ours != theirs:
        what = f"was made by {_named(measured)}, and this is {_named(own)}"
    elif own.dirty is False:
        what = "was made by this same harness with other packages"
    else:
        what = f"and this are both of {_named(own)}: what was changed cannot be compared"
    packages = f" ({'; '.join(others)})" if others else ""
    return f"the bundle {what}{packages}: where verdict or report differ, that may be why"


@cache
def _own() -> Origin:
    return origin()


def _named(found: Origin) -> str:
    commit = f"commit {found.commit[:12]}" if found.commit else "no commit"
    changed = {True: ", with changes", False: "", None: ", changes unknown"}[found.dirty]
    return f"harness {found.version}, {commit}{changed}"


def _parted(said: Any, found: dict[str, Any]) -> Iterator[tuple[Difference, Any]]:
    """Every difference, with the row that it is of."""
    theirs = said.get("rows") if isinstance(said, dict) else None
    if not isinstance(theirs, list):
        yield from ((difference, None) for difference in differences(said, found))
        return
    yield from ((difference, None) for difference in differences(said | {"rows": []}, found | {"rows": []}))
    yield from row_differences(theirs, found["rows"])


def _where(row: Any) -> str:
    """The evidence that a row's figure was derived from."""
    if row is None:
        return ""
    sources = ", ".join(row["sources"][:2])
    return f" ({row['name']}{f', from {sources}' if sources else ''})"


def _figures(row: dict[str, Any]) -> int:
    """Values of a row that were measured: those of both arms, and of the statistics."""
    values = [row["control"], row["candidate"], *(row["tested"] or {}).values()]
    return sum(value is not None for value in values)
