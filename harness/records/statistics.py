"""Records of the statistics: what is known of a host's noise before a run, and what a test of pairs found.

They stand in plan.json and verdict.json. Ratios are candidate to control, signed so that better is plus.
"""

from __future__ import annotations

from harness.config.strict import Strict
from harness.words import Cache, Warmup


class Past(Strict):
    """Noise of one metric in one cell, pooled from this host's earlier sessions; frozen into the plan."""

    mode: str
    warmup: Warmup
    cache: Cache
    name: str
    """Name of the row, e.g. `decode steps`."""
    context_tokens: int | None = None
    sd: float
    """Standard deviation of one pair's log ratio."""
    df: float
    """Degrees of freedom that it was pooled from."""
    sources: tuple[str, ...] = ()
    """Root hashes of the bundles that it was pooled from."""
    cell_sha256: str | None = None
    """Identity of the cell that it was measured in; None in plans of before it was kept."""


class Tested(Strict):
    """A paired test as figures, beside the row's reason, which says the same in words."""

    pairs: int
    primary: bool
    """Named in plan.json before the run; the others are exploratory and decide nothing."""
    change_pct: float
    low_pct: float
    high_pct: float
    """Bounds of the interval of the mean change."""
    confidence_pct: float
    """90 for one look, 94 per look for two."""
    margin_pct: float
    sd: float
    """Of one pair's log ratio, as used: pooled with history where that was kept."""
    df: float
    own_sd: float
    """Of this session's differences alone: what history is pooled from."""
    history_df: float | None = None
    """Degrees of freedom of the history that was kept; None without any."""
    detectable_pct: float
    """Smallest true change whose interval excludes none in 80 % of such sessions."""
    p: float
    """Primary: one-sided, of "not worse by more than the margin". Exploratory: two-sided, of "no change"."""
    p_adjusted: float
    """The same after Holm (primary) or Benjamini-Hochberg (exploratory), over this session."""
    p_improved: float | None = None
    """Primary: one-sided, of "not better by more than the margin"; None in older verdicts."""
    p_improved_adjusted: float | None = None
    """The same after Holm."""
    p_sign_flip: float | None = None
    """Exact one-sided p of the answer given, by flipping signs; None where the answer is none."""
    pairs_needed: int | None = None
    """Pairs that would resolve an inconclusive one, if mean and spread stay; None above 200."""


class Rerun(Strict):
    """What a pair came to (reruns/LAUNCH.json, by its second launch), written before it is run once more or not."""

    pair: tuple[str, str]
    """Ids of its launches, in the order in which they ran."""
    void: tuple[str, ...]
    """The rows that are void over these two launches alone; none = the pair stands."""


class Look(Strict):
    """What a mode's first look came to (looks/MODE.json), written before any launch of the second."""

    mode: str
    goes_on: bool
    """The launches of the second look are run."""
    inconclusive: tuple[str, ...]
    """Primary metrics whose interval, alone, reaches over the margin."""
