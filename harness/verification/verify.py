"""The checks of a verification, in order, and what they come to together."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BundleError, QualifyError, RefusedBundle
from harness.evidence.mismatch import Mismatch
from harness.evidence.names import printable
from harness.records import Verdict
from harness.verification.bounds import check_bounds
from harness.verification.completeness import check_completeness
from harness.verification.derivation import check_report, check_root, check_verdict, other_origin
from harness.verification.manifest import check_manifest
from harness.verification.opening import Layout, opened
from harness.verification.schema import check_schema
from harness.verification.sealing import check_prompts, check_sessions, check_statements, check_writers
from harness.verification.subject import Check, Found, Subject

CHECKS: tuple[tuple[str, Check], ...] = (
    ("manifest", check_manifest),
    ("bounds", check_bounds),
    ("root", check_root),
    ("schema", check_schema),
    ("completeness", check_completeness),
    ("writers", check_writers),
    ("verdict", check_verdict),
    ("report", check_report),
    ("statements", check_statements),
    ("prompts", check_prompts),
    ("sessions", check_sessions),
)
"""In this order: nothing is parsed before its size is known. Where the bundle is refused, the rest is left out."""


RUN_BYTES = 1 << 20
"""Of run.json, most of which are the names of packages."""


@dataclass(frozen=True)
class Outcome:
    """What a verification came to."""

    name: str
    """Of what was given: a session's folder, or an archive."""
    verdict: Verdict | None
    """As the evidence gives it, or None where it gives none."""
    found: tuple[tuple[str, Found], ...]
    """By the check's name."""
    notes: tuple[str, ...]
    laid_out: tuple[Mismatch, ...] = ()
    """What was other than it says already when the bundle was laid out."""

    @property
    def mismatches(self) -> tuple[Mismatch, ...]:
        """Of all checks, each once though several checks meet it."""
        every = [*self.laid_out, *(m for _, found in self.found for m in found.mismatches)]
        return tuple({(m.file, m.field): m for m in reversed(every)}.values())[::-1]

    @property
    def verifies(self) -> bool:
        """True where nothing is other than it says, whatever the verdict."""
        return not self.mismatches


def verify(
    place: str,
    *,
    trusted: tuple[Path, ...] = (),
    memory_mib: int = 256,
    layout: Layout | None = None,
    checks: tuple[tuple[str, Check], ...] = CHECKS,
) -> Outcome:
    """Check a bundle against itself. Nothing is written into it.

    Args:
        place: the folder of a session, or a .tar.zst, .tar.gz or .zip of one.
        trusted: files of the public keys whose signatures count.
        memory_mib: what its evidence may take of memory.
        layout: lays out a bundle of another form (an exported one) as the one that the judge reads.
        checks: what is looked at.

    Raises:
        BundleError: there is no bundle.
        RefusedBundle: it is none that a session leaves, or too large for the memory that it may take.
    """
    with opened(place, layout) as bundle, tempfile.TemporaryDirectory(prefix="qualify-verify-") as folder:
        report = Path(folder) / "report"
        report.mkdir()
        subject = Subject(bundle.root, report, memory_mib, trusted, bundle.originals)
        found = tuple(_looked_at(subject, checks))
        notes = [*bundle.notes, *_notes(subject)]
        name, verdict = Path(place).resolve().name, subject.__dict__.get("verdict")
        return Outcome(name, verdict, found, tuple(notes), bundle.mismatches)


def _looked_at(subject: Subject, checks: tuple[tuple[str, Check], ...]) -> Iterator[tuple[str, Found]]:
    for name, check in checks:
        try:
            found = _checked(name, check, subject)
        except RefusedBundle as e:
            file, text = _file_in(str(e), subject.root)
            yield name, Found((Mismatch(file, "content", "what a session leaves", f"refused: {text}"),))
            return
        yield name, found


def _checked(name: str, check: Check, subject: Subject) -> Found:
    try:
        return check(subject)
    except RefusedBundle:
        raise
    except QualifyError as e:
        what = str(e)
    except Exception as e:  # noqa: BLE001  # a stranger's evidence: whatever it does to a reader, it does not verify
        what = f"{type(e).__name__}: {e}"
    file, text = _file_in(what, subject.root)
    return Found((Mismatch(file, name, "it can be checked", printable(text)),))


def _file_in(message: str, root: Path) -> tuple[str, str]:
    """The file that a reader's message begins with, and the message as it is shown."""
    text = message.removeprefix(f"{root}/")
    name = text.partition(": ")[0].partition(":")[0]
    return (name, text.removeprefix(name).lstrip(": ")) if (root / name).is_file() else ("the bundle", text)


def _notes(subject: Subject) -> list[str]:
    if subject.files.get("run.json", 0) > RUN_BYTES:
        return []
    try:
        note = other_origin(subject.bundle.run().harness)
    except BundleError:
        return []  # a check has said so
    return [note] if note else []
