"""Compiled modules of Python that a changed source leaves behind.

Python believes a `__pycache__` entry whose recorded time and size are those of the source, or any
at all where it was compiled "unchecked": an old one would run in place of the patch.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

CACHE_FOLDER = "__pycache__"
SOURCELESS = (".pyc", ".pyo")
"""Beside the source; Python imports the first of them itself once the source is gone."""


def stale(place: str) -> list[Path]:
    """Every compiled form of the module at `place` that exists, whichever Python made it."""
    source = Path(place)
    if source.suffix != ".py":
        return []
    cached = re.compile(re.escape(source.stem) + r"\.[^.]+(\.opt-[^.]+)?\.pyc")
    folders = [source.parent / CACHE_FOLDER]
    prefix = os.environ.get("PYTHONPYCACHEPREFIX")
    if prefix:
        folders.append(Path(prefix, *source.parent.parts[1:]))
    here = [path for folder in folders if folder.is_dir() for path in folder.iterdir() if cached.fullmatch(path.name)]
    beside = [source.with_suffix(ending) for ending in SOURCELESS]
    return sorted(here) + [path for path in beside if path.is_file()]
