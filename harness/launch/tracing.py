"""Bring the tracer into a server and its files back into the bundle."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import harness.tracer
from harness.evidence.bundle import write_atomically
from harness.evidence.stream import whole

TRACER = Path(harness.tracer.__file__).parent / "path"
"""What goes in front of the server's PYTHONPATH."""

VARIABLE = "QUALIFY_TRACE"
"""Names the folder that the tracer writes to; without it the tracer does nothing."""

FOLDER = "trace"
"""That folder, below the server's work folder."""

PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+\.jsonl")
"""Of a file that is taken over: a manifest has a line per file, and a report may name it."""

LIMIT_BYTES = 256 << 20
"""All files of one launch together; a server that writes more into its trace folder is not believed."""


AFTER_LAUNCH = "after the launch"
"""When these files are hashed: the code under test wrote them, where no pipe of ours stands."""


def traced_environment(environment: Mapping[str, str], *, tracer: Path, work: Path) -> dict[str, str]:
    """The environment with the tracer in it: first on the path, and whatever was there stays behind it.

    Args:
        environment: of the server.
        tracer: `TRACER` as the server sees it.
        work: the server's work folder as the server sees it.
    """
    behind = environment.get("PYTHONPATH", "")
    path = f"{tracer}{os.pathsep}{behind}" if behind else str(tracer)
    return {**environment, "PYTHONPATH": path, VARIABLE: str(work / FOLDER)}


def collect(work: Path, target: Path) -> None:
    """Copy what the tracer wrote from the work folder into the bundle.

    The code under test can write there too: only plain files of the expected name are taken, links are
    not followed, and nothing beyond `LIMIT_BYTES`, which the ledger then says.
    """
    left = LIMIT_BYTES
    target.mkdir(exist_ok=True)
    for entry in sorted(os.scandir(work / FOLDER), key=lambda e: e.name) if (work / FOLDER).is_dir() else ():
        if not PLAIN_NAME.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
            continue
        left -= entry.stat(follow_symlinks=False).st_size
        if left < 0:
            fault = {"record": "fault", "place": "bundle", "error": f"more than {LIMIT_BYTES} bytes were traced"}
            write_atomically(target / "left-out.jsonl", (json.dumps(fault) + "\n").encode())
            break
        descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as source, whole(target / entry.name, hashed=AFTER_LAUNCH) as copy:
            shutil.copyfileobj(source, copy)
