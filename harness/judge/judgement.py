"""What a metric came to. Light, so that a session of single pairs is judged without any statistics loaded."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.records.statistics import Tested
from harness.words import Word

ONE_PAIR = "one pair shows no spread, use --pairs 4 or more"


@dataclass(frozen=True)
class Judgement:
    """What pairs of launches say about one metric."""

    word: Word
    reason: str
    tested: Tested | None = None
    """None where nothing was tested."""
    ratios: tuple[float, ...] = ()
    """Log ratio of each pair, better being plus: what history keeps."""


def one_pair(control: float, candidate: float, *, more_is_better: bool) -> Judgement:
    """The ratio of a single pair."""
    change = (candidate / control if more_is_better else control / candidate) - 1
    return Judgement(Word.NOT_TESTED, f"{percent(change)} (better is +); {ONE_PAIR}", ratios=(math.log1p(change),))


def is_inconclusive(tested: Tested) -> bool:
    """The interval reaches over the margin: the answer before other metrics are taken into account."""
    edge = 100 * (1 / (1 + tested.margin_pct / 100) - 1)
    return tested.low_pct <= edge <= tested.high_pct


def percent(share: float) -> str:
    """`-1.2 %`."""
    return f"{share:+.1%}".replace("%", " %")
