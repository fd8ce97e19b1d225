"""Settings that a user may give on the command line or in the environment, each defined once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import ConfigError


@dataclass(frozen=True)
class Setting:
    """One value of the profile that has an option and a variable of its own."""

    option: str
    key: str
    """Dotted key in the profile."""
    kind: type[int | str | list[str]]
    help: str

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return "QUALIFY_" + self.option.removeprefix("--").replace("-", "_").upper()

    @property
    def dest(self) -> str:
        """Name of the parsed argument."""
        return self.option.removeprefix("--").replace("-", "_")

    def parse(self, text: str, origin: str) -> object:
        """The value that `text` stands for.

        Raises:
            ConfigError: it is none.
        """
        if self.kind is int:
            try:
                return int(text)
            except ValueError:
                raise ConfigError(f"{origin}: `{text}` is not a whole number") from None
        if self.kind is str:
            return text
        return [part.strip() for part in text.split(",") if part.strip()]


SETTINGS = (
    Setting("--seed", "plan.seed", int, "seed of launch order and prompts"),
    Setting("--pairs", "plan.pairs", int, "pairs of launches per cell: 1, or an even number"),
    Setting("--burn-in", "plan.burn_in", int, "recorded launches before the first measured pair"),
    Setting("--modes", "plan.modes", list[str], "decoding modes, e.g. mtp0,mtp1"),
    Setting("--warmups", "plan.warmups", list[str], "warm-up states: none,engine,primed"),
    Setting("--caches", "plan.caches", list[str], "cache states: cold,warm"),
    Setting("--challenge", "plan.challenge", str, "a reviewer's text, e.g. a comment's address: seeds the prompts too"),
    Setting("--lanes", "host.lanes", int, "A/Bs side by side, each on its own GPUs"),
)


def from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, object, str]]:
    """(key, value, origin) of every setting that the environment gives."""
    for setting in SETTINGS:
        text = environ.get(setting.variable, "")
        if text:
            origin = f"environment {setting.variable}"
            yield setting.key, setting.parse(text, origin), origin


def from_arguments(arguments: Mapping[str, Any], assignments: Iterable[str]) -> Iterator[tuple[str, object, str]]:
    """(key, value, origin) of every setting that the command line gives, `--set` last.

    Raises:
        ConfigError: an assignment is not KEY=VALUE.
    """
    for setting in SETTINGS:
        text = arguments.get(setting.dest)
        if text is not None:
            yield setting.key, setting.parse(text, setting.option), f"option {setting.option}"
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"option --set {assignment}: write KEY=VALUE, e.g. --set course.identity_prompts=4")
        yield key.strip(), _toml_value(text.strip()), f"option --set {key.strip()}"


def _toml_value(text: str) -> object:
    """A TOML value, or the text itself where it is none: `--set control=cpu-as-is` needs no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
