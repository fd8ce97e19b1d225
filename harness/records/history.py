"""What a session takes from those before it, frozen into plan.json: the judge reads nothing but the bundle."""

from __future__ import annotations

from harness.config.strict import Strict
from harness.words import Cache, Warmup


class Calibration(Strict):
    """How often A/A sessions of this host saw a change where none can be."""

    trusted: bool
    """False: the host has lost the right to give verdicts on speed."""
    sessions: int
    """A/A sessions that count now: the last ones, and after a loss only those since."""
    rows: int
    """Their judged primary rows."""
    alarms: int
    """Those of the rows whose interval, alone, lies beyond the margin on either side."""
    low_pct: float | None
    """Wilson interval (90 %) of the share of alarms; None without a row."""
    high_pct: float | None
    lost_in: str | None = None
    """Session after which the right was lost; None while the host has it."""
    lost_at: str | None = None
    """What was counted then: `12 of 60 rows`."""
    sources: tuple[str, ...] = ()
    """Root hashes of those sessions' bundles."""

    @property
    def counted(self) -> str:
        """`3 of 60 rows in 6 sessions, 90 % interval 2 to 11 %`."""
        if not self.rows:
            return "no row of an A/A session yet"
        return (
            f"{self.alarms} of {self.rows} rows in {self.sessions} A/A sessions "
            f"({100 * self.alarms / self.rows:.0f} %, 90 % interval {self.low_pct:.0f} to {self.high_pct:.0f} %)"
        )


class Point(Strict):
    """One night of a series."""

    night: str
    """YYYY-MM-DD."""
    session: str
    root_sha256: str
    mean: float
    """Mean log ratio of candidate to anchor, signed so that better is plus."""
    pairs: int
    own_sd: float | None
    """Of one pair's log ratio in that night alone; None for a single pair."""


class Series(Strict):
    """A metric's nights against the same anchor, on the same host and in the same cell, oldest first."""

    mode: str
    warmup: Warmup
    cache: Cache
    name: str
    context_tokens: int | None
    cell_sha256: str
    points: tuple[Point, ...]


class Night(Strict):
    """What makes a session a nightly one."""

    date: str
    """YYYY-MM-DD, by the host's own calendar."""
    anchor: str | None
    """SHA-256 of the anchor's record in the chain; None where none was accepted yet."""
    anchor_session: str | None
    """Session whose candidate the anchor is; None as above."""
    series: tuple[Series, ...] = ()
    """The nights before, one series per primary metric."""
