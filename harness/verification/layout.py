"""An exported bundle, laid out as the one that the judge reads."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.evidence.exported import is_export, laid_out, note
from harness.evidence.originals import read_originals
from harness.verification.opening import Opened


@contextlib.contextmanager
def layout(root: Path) -> Iterator[Opened]:
    """The bundle as it is, or what an export is laid out as, until the block ends.

    Raises:
        RefusedBundle: the export holds what no export holds.
    """
    if not is_export(root):
        yield Opened(root)
        return
    with tempfile.TemporaryDirectory(prefix="qualify-verify-") as folder:
        copy, mismatches = laid_out(root, Path(folder) / root.name)
        originals = read_originals(copy)
        assert originals is not None  # laid_out refuses an export without
        redacted = {name: entry.sha256 for name, entry in originals.files.items() if entry.redactions}
        yield Opened(copy, (note(originals),), tuple(mismatches), redacted)
