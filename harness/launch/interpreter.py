"""Which Python a command starts, as its own words and the first lines of a script tell it."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from harness.errors import SetupFailure

PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
LONG_PATH = re.compile(r"'''exec'\s+(.+?)\s+\"\$0\"")
"""What pip writes where an interpreter's path is too long, or has a space, for a #! line."""
MEND = "name the program itself, so that it can be proven what it imports"
WITH_ARGUMENT = frozenset({"-W", "-X", "--check-hash-based-pycs"})
HEAD_BYTES = 1024
"""Of a script: its first lines."""


def interpreter_of(command: Sequence[str]) -> tuple[str, ...] | None:
    """The Python that a command starts on this host, with its own options; a program's text may follow.

    It is the command itself, or the one that a script's first line names. Of anything else that is given by its path
    it is the Python beside it; of what is only found on PATH, nothing is guessed.
    """
    found = shutil.which(command[0])
    if found is not None and PYTHON.fullmatch(Path(found).name):
        return _as_given(found, command)
    if found is not None and (script := _script(found)) is not None:
        return script
    beside = shutil.which(Path(command[0]).parent.absolute() / "python") if "/" in command[0] else None
    return (beside,) if beside is not None else None


def _as_given(python: str, command: Sequence[str]) -> tuple[str, ...] | None:
    try:
        return python, *python_options(command)[0]
    except SetupFailure:
        return None


def _script(path: str) -> tuple[str, ...] | None:
    """The Python of a script; None for a wrapper, or no script at all."""
    with contextlib.suppress(OSError, SetupFailure), Path(path).open("rb") as stream:
        head = stream.read(HEAD_BYTES)
        return shebang(path, head) if head.startswith(b"#!") else None
    return None


def shebang(path: str, head: bytes) -> tuple[str, ...]:
    """The interpreter of a script, as the kernel reads its first line: a program and at most one argument.

    Raises:
        SetupFailure: it is no Python.
    """
    text = head.decode("utf-8", "backslashreplace")
    lines = text.splitlines()
    found = tuple(lines[0].removeprefix("#!").strip().split(maxsplit=1))
    if long := LONG_PATH.match(lines[1]) if len(lines) > 1 else None:
        found = tuple(_split(path, long[1]))
    # `#!/usr/bin/env python3` and `#!/usr/bin/env -S python3 -I` name it in their argument.
    names = " ".join(found[1:]).split() if found and PurePosixPath(found[0]).name == "env" else list(found[:1])
    if not any(PYTHON.fullmatch(PurePosixPath(name).name) for name in names):
        raise SetupFailure(f"engine.command: {path} is a script of {' '.join(found)}, no Python; {MEND}")
    return found


def _split(path: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as e:
        raise SetupFailure(f"engine.command: {path} names its interpreter as {text!r}: {e}; {MEND}") from None


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
        elif not word.startswith(("--", "-X", "-W")) and word[-1] in "mc":  # also as in -Im
            return (*options, *([word[:-1]] if len(word) > 2 else [])), None
        else:
            options.append(word)
    raise SetupFailure(f"engine.command: `{shlex.join(command)}` names no module and no script")
