"""What a visit is to do, as data: steps in the order of their worth, each with the GPUs and the time that it takes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, model_validator

from harness.config.strict import Strict
from harness.errors import ConfigError

Text = Annotated[str, Field(min_length=1)]
PLACE = re.compile(r"\{([a-z]+)\}")
"""Where a step names a place."""
Positive = Annotated[int, Field(ge=1)]
Code = Annotated[int, Field(ge=0, le=255, strict=True)]
CRASHED = 1
"""How Python ends a program that raised, whatever else the program itself calls so."""


class Step(Strict):
    """One session, or another program."""

    name: str = Field(..., pattern=r"^[a-z0-9][a-z0-9\-]*$")
    gpus: Positive = 1
    seconds: Positive = Field(..., description="what it takes, estimated: it is not begun where less is left")
    why: Text
    run: tuple[str, ...] = Field((), description="arguments of `qualify run`")
    program: tuple[str, ...] = Field((), description="arguments of Python, where it is no session")
    results: tuple[Code, ...] = Field(
        (0,), min_length=1, description="exit codes of the program with which it is done; a session's are verdicts"
    )

    @model_validator(mode="after")
    def _one_thing(self) -> Step:
        if bool(self.run) == bool(self.program):
            raise ValueError("give `run` or `program`, not both and not neither")
        return self

    @model_validator(mode="after")
    def _results_of_a_program(self) -> Step:
        if self.run and "results" in self.model_fields_set:
            raise ValueError("results: a session's are verdicts; leave them out or give `program`")
        if len(set(self.results)) < len(self.results):
            raise ValueError(f"results names a code twice: {self.results}")
        if CRASHED in self.results:
            raise ValueError(f"results: {CRASHED} is how Python ends a program that raised; give what is found another")
        return self

    def argv(self, python: str, places: dict[str, str]) -> list[str]:
        """The command; `{name}` in an argument is replaced by the place of that name.

        Raises:
            ConfigError: there is no such place.
        """
        given = ["-m", "harness.cli", "run", *self.run] if self.run else list(self.program)

        def place(found: re.Match[str]) -> str:
            if found[1] not in places:
                known = ", ".join(f"{{{name}}}" for name in places)
                raise ConfigError(f"step {self.name}: nobody made the place {found[0]}; there are {known}")
            return places[found[1]]

        return [python, *(PLACE.sub(place, argument) for argument in given)]


class VisitPlan(Strict):
    """Everything that one kind of machine is to be asked."""

    description: Text
    steps: tuple[Step, ...] = Field(..., min_length=1)

    @model_validator(mode="after")
    def _told_apart(self) -> VisitPlan:
        names = [step.name for step in self.steps]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"steps names something twice: {', '.join(twice)}")
        return self


def read_plan(file: Path) -> VisitPlan:
    """A plan from its file.

    Raises:
        ConfigError: it cannot be read or is none.
    """
    try:
        return VisitPlan.model_validate(tomllib.loads(file.read_text("utf-8")))
    except (OSError, tomllib.TOMLDecodeError) as e:
        raise ConfigError(f"{file}: {e}") from None
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{file}: {where}: {first['msg']}") from None


def read_plans(files: Sequence[Path]) -> VisitPlan:
    """Plans as one: a machine of two GPUs can also do what needs one.

    Raises:
        ConfigError: one cannot be read or is none, or two name a step alike.
    """
    plans = [read_plan(file) for file in files]
    try:
        return VisitPlan(
            description="; ".join(plan.description for plan in plans),
            steps=tuple(step for plan in plans for step in plan.steps),
        )
    except ValidationError as e:
        raise ConfigError(f"{', '.join(map(str, files))}: {e.errors()[0]['msg']}") from None
