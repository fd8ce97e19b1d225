"""How soon a change is seen in a series of nights, and how often one is seen that is none.

    python -m benchmarks.nights          write the table of docs/history.md again (2 minutes)

A night has four pairs of launches; a step happens at night 8 and stays. Each night is looked at, as `qualify nightly`
does, and the first look that reports a lasting change of the right sign counts.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.generated import write_generated
from harness.judge.stats.changes import FEWEST_NIGHTS, Night, change

DOC = Path(__file__).parent.parent / "docs" / "history.md"
SEED = 20261130
SERIES, PAIRS, STEP_AT, SMALLEST = 200, 4, 8, 0.01
NOISE_PCT = (0.3, 0.5, 1.0, 2.0)
"""Of one launch."""
STEPS_PCT = (-1.5, -3.0, -5.0)
BY_NIGHTS = (9, 11, 14)
QUIET = 60


def nights(rng: np.random.Generator, count: int, noise: float) -> list[Night]:
    """Nights of equal arms."""
    d = rng.normal(0.0, math.sqrt(2) * noise, (count, PAIRS))
    return [Night(float(x.mean()), PAIRS, float(x.std(ddof=1))) for x in d]


def first_alarm(series: Sequence[Night], begin: int = FEWEST_NIGHTS) -> int | None:
    """The night, counted from 1, whose look reports a lasting change for the first time."""
    for count in range(begin, len(series) + 1):
        found = change(series[:count], series=1, smallest=SMALLEST)
        if found.since is not None and found.lasting:
            return count
    return None


def table() -> Iterator[str]:
    """Rows of Markdown, a noise each."""
    heads = [f"{step:+g} %: by night {', '.join(map(str, BY_NIGHTS))}" for step in STEPS_PCT]
    yield f"| noise of a launch | false alarm within {QUIET} nights | {' | '.join(heads)} |"
    yield f"|--:|--:|{'--:|' * len(heads)}"
    rng = np.random.default_rng(SEED)
    for noise in NOISE_PCT:
        false = sum(first_alarm(nights(rng, QUIET, noise / 100)) is not None for _ in range(SERIES))
        cells = [" / ".join(f"{share:.0%}" for share in seen(rng, noise / 100, step / 100)) for step in STEPS_PCT]
        yield f"| {noise:g} % | {false / SERIES:.1%} | {' | '.join(cells)} |"


def seen(rng: np.random.Generator, noise: float, step: float) -> list[float]:
    """Share of series in which the step is reported by each of BY_NIGHTS."""
    shift, found = math.log(1 + step), []
    for _ in range(SERIES):
        quiet = nights(rng, BY_NIGHTS[-1], noise)
        series = [Night(n.mean + shift * (i >= STEP_AT), n.pairs, n.own_sd) for i, n in enumerate(quiet, 1)]
        found.append(first_alarm(series, STEP_AT))
    return [sum(f is not None and f <= night for f in found) / SERIES for night in BY_NIGHTS]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the table into the document, between its marks."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None).parse_args(argv)
    write_generated(DOC, "nights", table())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
