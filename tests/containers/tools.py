"""pytest, ruff and mypy for a container, copied from the environment that the tests run in."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

TOOLS = "/opt/tools"
NAMES = ("pytest", "ruff", "mypy")


def tools_folder(root: Path) -> Path:
    """As `pip install --target` would fill it; it needs no index, and holds none of the harness's own plugins."""
    pending, seen = list(NAMES), set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            pytest.skip(f"{name} is not installed here, so no container can have it")
        for file in distribution.files or ():
            source = Path(str(distribution.locate_file(file)))
            inside = Path("bin") / source.name if ".." in file.parts else Path(file)
            if source.is_file() and source.suffix != ".pyc":
                (root / inside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, root / inside)
        wanted = (Requirement(text) for text in distribution.requires or ())
        pending += [r.name for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})]
    return root
