"""Run a component's build command in the image and find out what it installed.

What the final image gets is a list of files like any other: nothing that a build leaves elsewhere
(objects, logs, a compiler's cache) comes with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.image.program.bytecode import CACHE_FOLDER
from harness.image.program.overlay import Refused, apply, check_after
from harness.image.program.state import LINK, SPECIAL, Change, change_of, found


@dataclass(frozen=True)
class Build:
    """One component's build."""

    component: str
    source: str
    """Folder that holds the repository: the command starts there."""
    command: str
    watched: tuple[str, ...]
    """Folders from which the final image gets what is new, changed or gone."""
    sources: tuple[Change, ...]
    """What goes onto the source folder first."""
    installed: tuple[Change, ...]
    """What the command must have installed."""


def build_of(tree: dict[str, Any]) -> Build:
    """A build as the manifest has it."""
    return Build(
        component=tree["component"],
        source=tree["source"],
        command=tree["command"],
        watched=tuple(tree["watched"]),
        sources=tuple(change_of(item) for item in tree["sources"]),
        installed=tuple(change_of(item) for item in tree["installed"]),
    )


def check_sources(builds: Sequence[Build]) -> None:
    """Look for the source folders.

    Raises:
        Refused: the base image lacks one.
    """
    lines = [
        f"{build.component}: the base image has no folder {build.source}, which the stack names as the source"
        for build in builds
        if not Path(build.source).is_dir()
    ]
    if lines:
        raise Refused(lines)


def run(build: Build, blobs: Path, tell: Callable[[str], None]) -> list[Change]:
    """Overlay the sources, run the command, check what it installed; contents go to the folder `blobs`.

    Returns:
        What the final image is to get: every watched file that is new, changed or gone.

    Raises:
        Refused: the command failed, changed nothing, or left a copy as it was.
    """
    at_first = _traces(build.watched)
    for line in apply(build.sources, blobs):
        tell(line)
    tell(f"{build.component}: in {build.source}: {build.command}")
    overlaid = _traces(build.watched)
    shell = ["/bin/sh", "-c", build.command]
    code = subprocess.run(shell, cwd=build.source, stdin=subprocess.DEVNULL, check=False).returncode
    if code:
        raise Refused([f"{build.component}: the build command ended with code {code}: {build.command}"])
    at_last = _traces(build.watched)
    if at_last == overlaid:
        watched = ", ".join(build.watched)
        raise Refused([f"{build.component}: the build command changed nothing below {watched}: {build.command}"])
    check_after(build.installed)
    touched = sorted(path for path in at_first.keys() | at_last.keys() if at_first.get(path) != at_last.get(path))
    kept = [_kept(build.component, path, blobs) for path in touched]
    tell(f"{build.component}: the build left {len(kept)} files that are new, changed or gone")
    return kept


def _traces(folders: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """What shows that a file was written, without reading it: a site-packages holds gigabytes."""
    traces: dict[str, tuple[int, ...]] = {}
    for top in folders:
        for folder, inner, names in os.walk(top):
            inner[:] = [name for name in inner if name != CACHE_FOLDER]
            paths = [Path(folder, name) for name in [*names, *inner]]
            for path in paths:
                kind = path.lstat()
                if path.is_symlink() or not path.is_dir():
                    at = (kind.st_mtime_ns, kind.st_ctime_ns)
                    traces[str(path)] = (kind.st_mode, kind.st_size, kind.st_ino, *at)
    return traces


def _kept(component: str, path: str, blobs: Path) -> Change:
    state = found(path)
    if state is not None and state.mode == SPECIAL:
        raise Refused([f"{component}: the build command left {path}, which is neither file nor folder"])
    if state is not None and state.mode != LINK:
        shutil.copyfile(path, blobs / state.sha256)
    return Change(component, path.lstrip("/"), None, state, (path,), trusted=True)
