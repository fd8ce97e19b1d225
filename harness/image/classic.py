"""Build with the builder that every engine has, through the SDK."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import IO

from harness.image.wanted import Wanted
from harness.launch.docker.engine import Engine, EngineError, EngineGone

STEP = re.compile(r"^ ---> ([0-9a-f]{12})$", re.MULTILINE)
"""How the engine names the image after a step."""


def build(engine: Engine, wanted: Wanted, context: IO[bytes], write: Callable[[bytes], None]) -> str | None:
    """Build an image from an archive, its output handed to `write`; the image's ID, or None where it failed.

    Raises:
        EngineGone: the engine went away.
    """
    found = None
    steps: list[str] = []
    try:
        for line in engine.build(
            context,
            tag=wanted.tag,
            arguments=wanted.arguments,
            labels=wanted.labels,
            network=wanted.lock.build_network,
        ):
            text = str(line.get("stream") or line.get("error") or "")
            if line.get("status"):
                text = f"{line['status']}\n"
            steps += STEP.findall(text)
            write(text.encode())
            if "error" in line:
                write(b"\n")
                return None
            if "ID" in line.get("aux", {}):
                found = str(line["aux"]["ID"])
    except EngineGone:
        raise
    except EngineError as e:
        write(f"{e}\n".encode())
        return None
    finally:
        _forget(engine, steps)
    return found


def _forget(engine: Engine, steps: list[str]) -> None:
    """Remove what a stage or a failure left: images without a name that nothing is made from."""
    for step in reversed(dict.fromkeys(steps)):
        with contextlib.suppress(EngineError):
            image = engine.image(step)
            if not image.get("RepoTags") and not image.get("RepoDigests"):
                engine.remove_image(step)
