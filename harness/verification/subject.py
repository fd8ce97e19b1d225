"""What every check of a verification gets, and what it gives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import RefusedBundle
from harness.evidence.bundle import Bundle
from harness.evidence.manifest import MANIFEST, evidence_files
from harness.evidence.mismatch import Mismatch
from harness.records import Plan, Verdict
from harness.verification.digests import digest
from harness.verification.opening import files_of

if TYPE_CHECKING:
    from harness.judge.case import Case


MANIFEST_BYTES = 8 << 20
"""A line per file: some 150 bytes each, and 50,000 files at most."""


@dataclass(frozen=True)
class Found:
    """What one check came to."""

    mismatches: tuple[Mismatch, ...] = ()
    told: tuple[str, ...] = ()
    """What was checked, in figures: `47 files as in SHA256SUMS`."""
    unchecked: tuple[str, ...] = ()
    """What could not be checked, and why."""
    signed: tuple[str, ...] = ()
    """Who signed it, of those who count: the keys' names and hashes."""


@dataclass(frozen=True)
class Subject:
    """A bundle under verification. Whatever is costly is done once, when a check first asks for it."""

    root: Path
    derived_report: Path
    """An empty folder that the report is written into again."""
    memory_mib: int = 256
    """What the evidence may take of memory."""
    trusted: tuple[Path, ...] = ()
    """Files of public keys whose signatures count."""
    originals: Mapping[str, str] = field(default_factory=dict)
    """Files whose hash cannot be checked here, with the hash that is said of their originals."""

    @cached_property
    def files(self) -> Mapping[str, int]:
        """Size in bytes of every file, by path."""
        return files_of(self.root)

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """SHA-256 of every file of the evidence, by path; of a redacted one what is said of its original."""
        names = [p.relative_to(self.root).as_posix() for p in evidence_files(self.root)]
        return {name: self.originals.get(name) or digest(self.root / name) for name in names}

    @property
    def root_sha256(self) -> str:
        """The root hash: of SHA256SUMS as it is."""
        return hashlib.sha256(self.manifest).hexdigest()

    @cached_property
    def bundle(self) -> Bundle:
        """The bundle, its report being written elsewhere."""
        return _Elsewhere(self.root, self.derived_report)

    @cached_property
    def manifest(self) -> bytes:
        """SHA256SUMS as it is; nothing where it is missing.

        Raises:
            RefusedBundle: it is longer than one can be.
        """
        size = self.files.get(MANIFEST, 0)
        if size > MANIFEST_BYTES:
            raise RefusedBundle(f"{MANIFEST}: has {size:,} bytes, more than {MANIFEST_BYTES:,}; no session writes that")
        return (self.root / MANIFEST).read_bytes() if size else b""

    @cached_property
    def plan(self) -> Plan:
        """The plan.

        Raises:
            BundleError: it cannot be read.
        """
        return self.bundle.plan()

    @cached_property
    def case(self) -> Case:
        """The evidence as the judge sees it.

        Raises:
            BundleError: it cannot be read.
        """
        from harness.judge.case import read_case  # noqa: PLC0415  # heavy

        case = read_case(self.bundle)
        text = "".join(f"{sha256}  {name}\n" for name, sha256 in self.digests.items())
        case.__dict__["manifest"] = text  # what the cached property would find, with the hashes of originals
        return case

    @cached_property
    def verdict(self) -> Verdict:
        """What the evidence comes to.

        Raises:
            BundleError: it cannot be read.
        """
        from harness.judge.verdict import judge_case  # noqa: PLC0415  # heavy

        return judge_case(self.case)


Check = Callable[[Subject], Found]


class _Elsewhere(Bundle):
    """A bundle that nothing is written into."""

    def __init__(self, root: Path, report: Path) -> None:
        super().__init__(root)
        self._report = report

    @property
    def report_dir(self) -> Path:
        """Where the report is derived again."""
        return self._report
