"""Source checks: commands that a profile or a stack names, run over both arms' source without a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from harness.config.components import Text
from harness.config.strict import Strict
from harness.errors import ConfigError

FILES, TESTS = "{files}", "{tests}"
"""Arguments that stand for the component's changed files, and for the tests among what is not installed."""

NEEDS_DOCKER = (
    "[[checks]] run in a container of each arm, because a patched source is there and nowhere else; "
    'launcher = "process" has one engine for both arms. Set launcher = "docker", or remove the checks'
)


class Kind(StrEnum):
    """How the result of a check is read."""

    PYTEST = "pytest"
    RUFF = "ruff"
    MYPY = "mypy"
    COMMAND = "command"
    """By its exit code alone: what is not 0 has failed."""


OWNED_OPTIONS: dict[Kind, tuple[str, ...]] = {
    Kind.PYTEST: ("--junitxml", "--junit-xml", "--rootdir", "--continue-on-collection-errors"),
    Kind.RUFF: ("--output-format", "--output-file", "-o"),
    Kind.MYPY: ("--cache-dir", "--junit-xml"),
    Kind.COMMAND: (),
}
"""Options that the harness sets itself, because it reads what they write."""


def _glob(text: str) -> str:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or path.as_posix() != text:
        raise ValueError("write a pattern of paths in the component's repository, as tests/**/test_*.py")
    return text


def _folder(text: str) -> str:
    path = PurePosixPath(text)
    if text and (not path.is_absolute() or ".." in path.parts or path.as_posix() != text or text.startswith("//")):
        raise ValueError("write an absolute path inside the image, without `..` and without `/` at the end")
    return text


Glob = Annotated[Text, AfterValidator(_glob), Field(min_length=1)]
Argument = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]


class Check(Strict):
    """One command, run alike in a container of each arm: no GPU, no network, nothing is installed for it."""

    name: str = Field(..., pattern=r"^[a-z0-9][a-z0-9\-]*$", max_length=60)
    kind: Kind
    command: tuple[Argument, ...] = Field(
        ..., min_length=1, description=f"argv, no shell; {FILES} and {TESTS} stand for files, each as an argument"
    )
    component: str = Field(..., pattern=r"^[a-z0-9][a-z0-9\-]*$", description="whose source it concerns")
    files: tuple[Glob, ...] = Field(("**/*.py",), min_length=1, description=f"which changed files {FILES} stands for")
    tests: tuple[Glob, ...] = Field(
        ("tests/**/test_*.py",), min_length=1, description=f"which changed tests {TESTS} stands for"
    )
    folder: Annotated[Text, AfterValidator(_folder)] = Field(
        "", description="working folder in the image, '' = where the files are that are not installed"
    )
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = Field(600.0, description="killed after this")

    @model_validator(mode="after")
    def _can_run(self) -> Check:
        if not self.command[0] or self.command[0] in (FILES, TESTS):
            raise ValueError("command begins with the program to run")
        for argument in self.command:
            if argument not in (FILES, TESTS) and (FILES in argument or TESTS in argument):
                raise ValueError(f"{FILES} and {TESTS} are arguments of their own, not a part of `{argument}`")
            option = argument.partition("=")[0]
            if option in OWNED_OPTIONS[self.kind]:
                raise ValueError(f"`{option}` is set by the harness, which reads what it writes; remove it")
            if self.kind is not Kind.COMMAND and argument == "--":
                raise ValueError("`--` would turn the options that the harness adds into files; remove it")
        return self


def each_once(checks: Sequence[Check]) -> None:
    """Refuse two checks of one name in one file.

    Raises:
        ValueError: there are.
    """
    names = [check.name for check in checks]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"checks names something twice: {', '.join(twice)}")


def union(sources: Iterable[tuple[str, Sequence[Check]]]) -> tuple[Check, ...]:
    """Every check that a profile and its two stacks name, each once: both arms run the same ones.

    Args:
        sources: who names them, in words, and what they name.

    Raises:
        ConfigError: one name stands for two checks.
    """
    found: dict[str, tuple[str, Check]] = {}
    for who, checks in sources:
        for check in checks:
            first, before = found.setdefault(check.name, (who, check))
            if before != check:
                fields = [f for f in Check.model_fields if getattr(before, f) != getattr(check, f)]
                raise ConfigError(
                    f"check `{check.name}` is one thing in {first} and another in {who} ({', '.join(fields)}); both "
                    "arms must be checked alike, so give one of them another name"
                )
    return tuple(check for _, check in found.values())
