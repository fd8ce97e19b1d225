"""Where things lie: the project (its profiles, stacks, suites) and the results."""

from __future__ import annotations

import os
from pathlib import Path

PROJECT = Path(os.environ.get("QUALIFY_PROJECT") or Path(__file__).resolve().parent.parent).resolve()
"""The checkout that this package was installed from (editable), or QUALIFY_PROJECT."""


def results_root() -> Path:
    """Folder of all bundles: QUALIFY_RESULTS, else `results/` of the project."""
    return Path(os.environ.get("QUALIFY_RESULTS") or PROJECT / "results").resolve()


def work_root() -> Path:
    """Folder for what is no evidence: forged models, caches, state of running launches."""
    return results_root() / ".work"


def state_root() -> Path:
    """Folder of what this host remembers between sessions: QUALIFY_HISTORY's, else `$XDG_STATE_HOME/qualify`."""
    if named := os.environ.get("QUALIFY_HISTORY"):
        return Path(named).resolve().parent
    if home := os.environ.get("XDG_STATE_HOME"):
        return Path(home).resolve() / "qualify"
    user = os.path.expanduser("~")  # noqa: PTH111  # Path.home() raises for a user that has none
    return Path(user) / ".local" / "state" / "qualify" if user != "~" else work_root() / "state"


def history_file() -> Path:
    """The index of sessions: QUALIFY_HISTORY, else `history.sqlite` in the state folder."""
    named = os.environ.get("QUALIFY_HISTORY")
    return Path(named).resolve() if named else state_root() / "history.sqlite"


def locks_root() -> Path:
    """Folder of what `qualify lock` writes: QUALIFY_LOCKS, else `locks/` of the project."""
    return Path(os.environ.get("QUALIFY_LOCKS") or PROJECT / "locks").resolve()
