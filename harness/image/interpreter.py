"""Which Python runs a command inside an image, and what it puts in front of sys.path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from harness.errors import SetupFailure
from harness.launch.docker.engine import Engine
from harness.launch.interpreter import MEND, PYTHON, python_options, shebang

FIND = 'p=$(command -v "$1") || exit 3; printf "%s\\n" "$p"; readlink -f "$p"; pwd -P; head -c 1024 "$p"'
"""Path of a command, the same with links resolved, the working folder, and the file's beginning."""


@dataclass(frozen=True)
class Interpreter:
    """A Python as the server's command starts it."""

    argv: tuple[str, ...]
    """The interpreter with the options that the command gives it; a program's text follows."""
    first: str
    """What it puts in front of sys.path: the folder of the script, or the working folder."""


def find_interpreter(engine: Engine, container: str, command: Sequence[str]) -> Interpreter:
    """Resolve a command inside a running container, through its PATH.

    Raises:
        SetupFailure: it is not there, or is no Python.
        EngineError: the engine refuses.
    """
    path, real, folder, head = _look(engine, container, command[0])
    if head.startswith(b"#!"):
        return Interpreter(shebang(f"{path} in the image", head), str(PurePosixPath(real).parent))
    if not PYTHON.fullmatch(PurePosixPath(path).name):
        raise SetupFailure(f"engine.command: {path} in the image is neither Python nor a Python script; {MEND}")
    options, script = python_options(command)
    argv = (path, *options)
    if script is None:
        return Interpreter(argv, folder)
    return Interpreter(argv, str(PurePosixPath(_look(engine, container, script)[1]).parent))


def _look(engine: Engine, container: str, program: str) -> tuple[str, str, str, bytes]:
    done = engine.exec(container, ["sh", "-c", FIND, "sh", program])
    parts = done.out.split(b"\n", 3)
    if done.code or len(parts) < 4:
        reason = done.err.decode("utf-8", "backslashreplace").strip() or "it is not on the image's PATH"
        raise SetupFailure(f"engine.command: {program} cannot be found in the image ({reason})")
    path, real, folder = (part.decode("utf-8", "backslashreplace") for part in parts[:3])
    return path, real, folder, parts[3]
