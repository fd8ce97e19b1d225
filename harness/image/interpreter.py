"""Which Python runs a command inside an image, and what it puts in front of sys.path."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from harness.errors import SetupFailure
from harness.launch.docker.engine import Engine

FIND = 'p=$(command -v "$1") || exit 3; printf "%s\\n" "$p"; readlink -f "$p"; pwd -P; head -c 1024 "$p"'
"""Path of a command, the same with links resolved, the working folder, and the file's beginning."""
PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
LONG_PATH = re.compile(r"'''exec'\s+(.+?)\s+\"\$0\"")
"""What pip writes where an interpreter's path is too long, or has a space, for a #! line."""
MEND = "name the program itself, so that it can be proven what it imports"
WITH_ARGUMENT = frozenset({"-W", "-X", "--check-hash-based-pycs"})


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
        return Interpreter(shebang(path, head), str(PurePosixPath(real).parent))
    if not PYTHON.fullmatch(PurePosixPath(path).name):
        raise SetupFailure(f"engine.command: {path} in the image is neither Python nor a Python script; {MEND}")
    options, script = python_options(command)
    argv = (path, *options)
    if script is None:
        return Interpreter(argv, folder)
    return Interpreter(argv, str(PurePosixPath(_look(engine, container, script)[1]).parent))


def shebang(path: str, head: bytes) -> tuple[str, ...]:
    """The interpreter of a script, as the kernel reads its first line: a program and at most one argument.

    Raises:
        SetupFailure: it is no Python.
    """
    text = head.decode("utf-8", "backslashreplace")
    lines = text.splitlines()
    found = tuple(lines[0].removeprefix("#!").strip().split(maxsplit=1))
    if long := LONG_PATH.match(lines[1]) if len(lines) > 1 else None:
        found = tuple(shlex.split(long[1]))
    # `#!/usr/bin/env python3` and `#!/usr/bin/env -S python3 -I` name it in their argument.
    names = " ".join(found[1:]).split() if found and PurePosixPath(found[0]).name == "env" else list(found[:1])
    if not any(PYTHON.fullmatch(PurePosixPath(name).name) for name in names):
        raise SetupFailure(f"engine.command: {path} in the image is a script of {' '.join(found)}, no Python; {MEND}")
    return found


def python_options(command: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """Python's own options in `python [options] -m module`, `-c text` or `script`, and the script.

    Raises:
        SetupFailure: the command names no program, or one without a place in sys.path.
    """
    options: list[str] = []
    rest = iter(command[1:])
    for word in rest:
        if word in WITH_ARGUMENT:
            options += [word, next(rest, "")]
        elif not word.startswith("-"):
            return tuple(options), word
        elif not word.startswith("--") and word[-1] in "mc":  # also as in -Im
            return (*options, *([word[:-1]] if len(word) > 2 else [])), None
        else:
            options.append(word)
    raise SetupFailure(f"engine.command: `{shlex.join(command)}` names no module and no script")


def _look(engine: Engine, container: str, program: str) -> tuple[str, str, str, bytes]:
    done = engine.exec(container, ["sh", "-c", FIND, "sh", program])
    parts = done.out.split(b"\n", 3)
    if done.code or len(parts) < 4:
        reason = done.err.decode("utf-8", "backslashreplace").strip() or "it is not on the image's PATH"
        raise SetupFailure(f"engine.command: {program} cannot be found in the image ({reason})")
    path, real, folder = (part.decode("utf-8", "backslashreplace") for part in parts[:3])
    return path, real, folder, parts[3]
