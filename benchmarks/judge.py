"""How often the judge says which word: sessions made up by the ten thousand, judged by its own arithmetic.

    python -m benchmarks.judge           write the tables of docs/judge.md again

Each launch is a true level, plus drift by its place in the session, plus noise. The order is the plan's
own, from `make_plan`, coin flips and all.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.generated import write_generated
from harness.config.load import load_profile
from harness.config.model import Stack
from harness.judge.stats.interval import Answer, alpha, answers, detectable, half_width
from harness.judge.stats.ratios import Floats, margin
from harness.judge.stats.spread import pool
from harness.session.plan import make_plan
from harness.words import Arm, Cache

DOC = Path(__file__).parent.parent / "docs" / "judge.md"
SEED = 20261129
SESSIONS = 20_000
NOISE_PCT = (0.3, 0.5, 1.0, 2.0, 3.0, 5.0)
EFFECTS_PCT = (-8.0, -5.0, -3.0, -2.0, -1.0, 0.0, 1.0, 3.0)
ORDERS = 32
"""Seeds of the plan that sessions are spread over: with three blocks there are eight orders."""


@dataclass(frozen=True)
class World:
    """What is true of a host and a patch, and how a session looks at it."""

    noise_pct: float
    """Standard deviation of a launch's figure about its level."""
    pairs: int = 4
    effect_pct: float = 0.0
    history_df: float = 20.0
    """0 = a first-time user."""
    true_history: float = 1.0
    """The noise that history was gathered under, as a share of today's."""
    drift_pct: float = 0.0
    """From the first measured launch to the last; a host that grows warm loses speed."""
    drift: str = "linear"
    """linear, or exponential: most of it in the first quarter."""
    margin_pct: float = 3.0
    escalate: bool = False
    """Two more pairs where the first look is inconclusive."""


@dataclass(frozen=True)
class Looked:
    """What the sessions came to."""

    answer: NDArray[np.int8]
    mean: Floats
    half: Floats

    def share(self, *which: Answer) -> float:
        """Share of sessions with one of these answers."""
        return float(np.isin(self.answer, which).mean())

    @property
    def excludes_zero(self) -> float:
        """Share of sessions whose interval lies on one side of no change."""
        return float((np.abs(self.mean) > self.half).mean())


def differences(world: World, sessions: int, rng: np.random.Generator) -> Floats:
    """Log ratios, one row per session and one column per pair, as `log_ratios` gives them."""
    pairs = world.pairs + 2 * world.escalate
    places = np.array([_places(pairs, seed) for seed in range(ORDERS)])
    order = places[rng.integers(ORDERS, size=sessions)]
    shape = order / (2 * pairs - 1)
    if world.drift == "exponential":
        shape = (1 - np.exp(-4 * shape)) / (1 - np.exp(-4))
    level = np.log1p(-world.drift_pct / 100) * shape
    level[..., 1] += np.log1p(world.effect_pct / 100)
    figures = level + rng.normal(0.0, world.noise_pct / 100, level.shape)
    found: Floats = figures[..., 1] - figures[..., 0]
    return found


def look(d: Floats, world: World, past_sd: Floats | None, error: float) -> Looked:
    """Judge sessions as `harness.judge.paired` judges one."""
    pairs = d.shape[1]
    spread = pool(np.std(d, axis=1, ddof=1), pairs, past_sd, world.history_df)
    mean, half = d.mean(axis=1), half_width(spread.sd, spread.df, pairs, error)
    return Looked(answers(mean, half, margin(world.margin_pct)), mean, half)


def simulate(world: World, *, sessions: int = SESSIONS, seed: int = SEED) -> Looked:
    """Many sessions of one world."""
    rng = np.random.default_rng(seed)
    d = differences(world, sessions, rng)
    past_sd = None
    if world.history_df:
        true = np.sqrt(2) * world.noise_pct / 100 * world.true_history
        past_sd = true * np.sqrt(rng.chisquare(world.history_df, sessions) / world.history_df)
    error = alpha(1 + world.escalate)
    first = look(d[:, : world.pairs], world, past_sd, error)
    if not world.escalate:
        return first
    second = look(d, world, past_sd, error)
    again = first.answer == Answer.INCONCLUSIVE
    return Looked(
        np.where(again, second.answer, first.answer),
        np.where(again, second.mean, first.mean),
        np.where(again, second.half, first.half),
    )


def mtp(*, sessions: int = SESSIONS, history_df: float = 20.0) -> tuple[Looked, Looked]:
    """A kernel that is 3 % slower under a drafter that scatters by 5 %: steps/s, and tokens/s."""
    steps = World(noise_pct=0.5, effect_pct=-3.0, margin_pct=2.0, history_df=history_df)
    luck = World(noise_pct=5.0)
    rng = np.random.default_rng(SEED)
    d = differences(steps, sessions, rng)
    tokens = d + differences(luck, sessions, rng)
    past = [np.sqrt(2) * sd / 100 * np.sqrt(rng.chisquare(20, sessions) / 20) for sd in (0.5, np.hypot(0.5, 5.0))]
    known = past if history_df else [None, None]
    return look(d, steps, known[0], alpha(1)), look(tokens, replace(steps, margin_pct=3.0), known[1], alpha(1))


@cache
def _places(pairs: int, seed: int) -> tuple[tuple[int, int], ...]:
    """Places of control and candidate of each pair among the measured launches, as the plan orders them."""
    values = {"plan.pairs": pairs, "plan.seed": seed, "plan.modes": ["mtp1"], "plan.warmups": ["engine"]}
    profile = load_profile("cpu-forged", overrides=[(k, v, "benchmark") for k, v in values.items()]).model
    stacks = [Stack.model_validate({"name": arm, "description": "an arm"}) for arm in Arm]
    planned = make_plan("simulated", profile, stacks[0], stacks[1]).launches
    warm = [(x.pair, x.arm) for x in planned if x.cache is Cache.WARM]
    return tuple((warm.index((n, Arm.CONTROL)), warm.index((n, Arm.CANDIDATE))) for n in range(pairs))


def tables() -> Iterator[str]:
    """The generated part of docs/judge.md."""
    yield f"Shares in %, of {SESSIONS:,} simulated sessions each: **regressed / inconclusive / pass / improved**."
    yield "Margin 3 %, one metric, before Holm. The effect is the true change of the candidate's rate."
    for history_df, title in ((20.0, "With 20 degrees of freedom of history"), (0.0, "Without history")):
        yield f"\n### {title}\n"
        yield from _operating(history_df)
    yield "\n### Drift of the host\n\nNo effect, noise 1 %, 4 pairs, 4 % slower from the first launch to the last:\n"
    yield "| drift | regressed / inconclusive / pass / improved |\n|--|--|"
    for drift in ("linear", "exponential"):
        yield f"| {drift} | {_shares(simulate(World(noise_pct=1.0, drift_pct=4.0, drift=drift)))} |"
    yield "\n### Noise that is not what history says\n\nNo effect, 4 pairs, history gathered under other noise:\n"
    yield "| noise today | history's | regressed / inconclusive / pass / improved |\n|--|--|--|"
    for noise, share in ((1.0, 1.0), (1.0, 0.5), (2.0, 0.5), (3.0, 1 / 3), (1.0, 2.0)):
        found = simulate(World(noise_pct=noise, true_history=share))
        yield f"| {noise:g} % | {noise * share:g} % | {_shares(found)} |"
    yield "\n### MTP: a kernel 3 % slower, step noise 0.5 %, acceptance noise 5 %, 4 pairs\n"
    yield "| metric | margin | history | interval excludes no change | regressed |\n|--|--|--|--|--|"
    for history_df in (20.0, 0.0):
        for name, percent, found in zip(("steps/s", "tok/s"), (2, 3), mtp(history_df=history_df), strict=True):
            known = "20 df" if history_df else "none"
            seen, regressed = found.excludes_zero, found.share(Answer.REGRESSED)
            yield f"| {name} | {percent} % | {known} | {seen:.0%} | {regressed:.0%} |"


def _operating(history_df: float) -> Iterator[str]:
    yield f"| noise | pairs | detectable | {' | '.join(f'{e:+g} %' for e in EFFECTS_PCT)} |"
    yield f"|--|--|--|{'--|' * len(EFFECTS_PCT)}"
    for noise in NOISE_PCT:
        for pairs, escalate in ((2, False), (4, False), (4, True), (6, False)):
            world = World(noise_pct=noise, pairs=pairs, history_df=history_df, escalate=escalate)
            cells = [_shares(simulate(replace(world, effect_pct=e))) for e in EFFECTS_PCT]
            sd, df = np.sqrt(2) * noise, history_df + pairs - 1
            seen = "" if escalate else f"{detectable(sd, df, pairs, alpha(1)):.2g} %"
            yield f"| {noise:g} % | {pairs}{', then 6' if escalate else ''} | {seen} | {' | '.join(cells)} |"


def _shares(found: Looked) -> str:
    words = ((Answer.REGRESSED,), (Answer.INCONCLUSIVE,), (Answer.PASS, Answer.SLOWER), (Answer.IMPROVED,))
    return " / ".join(f"{100 * found.share(*which):.0f}" for which in words)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the tables into the document, between its marks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.parse_args(argv)
    write_generated(DOC, "judge", tables())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
