"""The two steps of the Dockerfile: `build` in a stage of its own, `apply` in the final image."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.image.program.overlay import Refused, apply, check_after, check_before
from harness.image.program.source import Build, build_of, check_sources, run
from harness.image.program.state import Change, change_of

PAYLOAD = Path("/.qualify")
SAYS, ERROR = "qualify: ", "qualify: error: "
"""Begin each line of ours in the build log; whoever ran the build looks for the errors."""


def main(arguments: list[str], payload: Path = PAYLOAD) -> int:
    """Run one step; the exit code ends the build, and the log says why."""
    steps = {"build": _build, "apply": _apply}
    try:
        steps[arguments[0]](payload)
    except Refused as e:
        for line in e.lines:
            _say(line, ERROR)
        return 1
    except OSError as e:
        _say(f"{e.filename or 'the image'}: {e.strerror or e}", ERROR)
        return 1
    return 0


def _build(payload: Path) -> None:
    """Hold the whole base image against the lock, then run the build commands, if there are any."""
    changes, builds = _manifest(payload)
    check_sources(builds)
    check_before([*changes, *_sources(builds), *(c for c in _installed(builds) if not c.optional)])
    _say("the base image is as the lock says")
    kept: dict[str, Change] = {}
    for build in builds:
        kept.update({change.places[0]: change for change in run(build, payload / "files", _say)})
    (payload / "built.json").write_text(json.dumps([asdict(change) for change in kept.values()]), "utf-8")


def _apply(payload: Path) -> None:
    """Bring the final image to what the lock says, and leave nothing else in it."""
    changes, builds = _manifest(payload)
    overlaid = [*changes, *_sources(builds)]
    kept = [change_of(tree) for tree in _read(payload / "built.json")]
    check_before(overlaid)
    for line in apply([*overlaid, *kept], payload / "files"):
        _say(line)
    installed = [*changes, *_installed(builds)]
    check_after([*installed, *kept])
    _say(f"{sum(len(c.places) for c in installed)} copies of {len(installed)} files are as the lock says")
    shutil.rmtree(payload)


def _manifest(payload: Path) -> tuple[list[Change], list[Build]]:
    tree = _read(payload / "manifest.json")
    return [change_of(item) for item in tree["files"]], [build_of(item) for item in tree["builds"]]


def _sources(builds: list[Build]) -> list[Change]:
    return [change for build in builds for change in build.sources]


def _installed(builds: list[Build]) -> list[Change]:
    return [change for build in builds for change in build.installed]


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _say(text: str, begin: str = SAYS) -> None:
    sys.stdout.write(f"{begin}{text}\n")
    sys.stdout.flush()
