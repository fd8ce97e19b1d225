"""What a table is: its columns are defined and explained in one place, so that none goes without a word."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.judge.case import Case
from harness.records import PlannedLaunch, Verdict


class Kind(StrEnum):
    """What the values of a column are; a value that was not obtained is missing in each of them, never 0."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"

    @property
    def dtype(self) -> str:
        """As pandas has it, before it is written and after it is read."""
        return {Kind.TEXT: "string", Kind.INTEGER: "Int64", Kind.NUMBER: "float64", Kind.FLAG: "boolean"}[self]


@dataclass(frozen=True)
class Column:
    """One column."""

    name: str
    kind: Kind
    about: str
    """What it says, for a reader who has not seen the code."""
    value: Callable[[Any], object]
    """From a row's source to the value; None where it was not obtained."""
    unit: str = ""
    """'' for what has none."""

    def __post_init__(self) -> None:
        """Refuse a column that says nothing about itself.

        Raises:
            ValueError: name or explanation is missing.
        """
        if not self.name.strip() or not self.about.strip():
            raise ValueError(f"column `{self.name}`: a column needs a name and says what it is")


@dataclass(frozen=True)
class Table:
    """One table, written as NAME.parquet and, where a person may open it, as NAME.csv."""

    name: str
    about: str
    """What one row is, and where it comes from."""
    sources: Callable[[Case, Verdict], Iterable[Any]]
    """One object per row, in the table's order."""
    columns: tuple[Column, ...]
    csv: bool = True


def launch_columns(of: Callable[[Any], PlannedLaunch]) -> tuple[Column, ...]:
    """The columns by which tables are joined and grouped: which launch a row belongs to.

    Args:
        of: From a row's source to its launch.
    """
    return (
        Column("launch", Kind.TEXT, "name of the launch, as of its folder below launches/", lambda x: of(x).id),
        Column("arm", Kind.TEXT, "control or candidate", lambda x: of(x).arm),
        Column("mode", Kind.TEXT, "decoding mode: mtp0, mtp1, ...", lambda x: of(x).mode),
        Column("warmup", Kind.TEXT, "warm-up state: none, engine, primed", lambda x: of(x).warmup),
        Column("cache", Kind.TEXT, "state of the compile caches as planned: cold, warm", lambda x: of(x).cache),
        Column(
            "pair",
            Kind.INTEGER,
            "number of the pair within its cell; -1 = measured against nothing",
            lambda x: of(x).pair,
        ),
        Column("trace", Kind.FLAG, "the tracer ran inside: its speed is not judged", lambda x: of(x).trace),
    )
