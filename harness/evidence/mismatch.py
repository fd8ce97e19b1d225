"""One way in which a bundle is not what it says, named by file and field."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mismatch:
    """What a reviewer reads: `launches/003-.../server.log: SHA-256: says 1f..., is 9c...`."""

    file: str
    """Path inside the bundle, with slashes; the bundle's own name where no file is meant."""

    field: str
    """What of the file: `SHA-256`, `rows.4.candidate`, `signature`."""

    said: str | None
    """What the bundle claims; None where it claims nothing (an added file)."""

    found: str | None
    """What was found or derived; None where it is missing."""

    def __str__(self) -> str:
        """One line."""
        said = "nothing" if self.said is None else self.said
        found = "missing" if self.found is None else self.found
        return f"{self.file}: {self.field}: says {said}, is {found}"
