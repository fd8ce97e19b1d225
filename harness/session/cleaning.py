"""End what a killed harness left, and remove files that can be made again. Evidence is never removed."""

from __future__ import annotations

import shutil

from harness.paths import work_root
from harness.session.opening import launcher


def clean(*, models: bool, caches: bool) -> list[str]:
    """Clean up; return what was done, one line each."""
    done = launcher().clean_up()
    for wanted, name in ((models, "models"), (caches, "caches")):
        folder = work_root() / name
        if wanted and folder.is_dir():
            shutil.rmtree(folder)
            done.append(f"removed {folder}")
    return done
