"""Make a file of docs/evidence from a session's bundle, so that this checkout's `qualify verify` holds it true.

python tools/ship.py BUNDLE docs/evidence/NAME.tar.zst

A copy of the bundle is judged again by the judge of today, and the unsigned statements of a session of ours are
written again with it; the evidence and its root hash stay the session's. A signed bundle is refused: its statements
are the host's word.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.evidence.bundle import Bundle
from harness.evidence.exported import is_export
from harness.evidence.pipe import STATEMENTS
from harness.exporting import export, export_lines
from harness.workflow import judge_and_report


def ship(session: Path, target: Path) -> list[str]:
    """Judge, state and export a copy; what was done, line by line.

    Raises:
        SystemExit: the session is signed, or an export.
    """
    with tempfile.TemporaryDirectory() as folder:
        bundle = Bundle(Path(shutil.copytree(session, Path(folder) / session.name)))
        if is_export(bundle.root):
            raise SystemExit(
                f"{session} is an export: what was removed from it cannot be judged again; take the original"
            )
        if bundle.run().signer is not None:
            raise SystemExit(f"{session} is signed, and what its host stated is not ours to state again")
        for statement in bundle.root.glob(f"{STATEMENTS}*"):
            statement.unlink()
        _, lines = judge_and_report(bundle)
        return [*lines, *export_lines(export(bundle, target))]


if __name__ == "__main__":
    print("\n".join(ship(Path(sys.argv[1]), Path(sys.argv[2]))))  # noqa: T201
