"""How often A/A sessions of a host saw a change where none can be, and whether it may still judge speed.

The sessions are replayed in the order in which they were run, so the answer follows from the index alone. A host
loses the right once more than 10 % of the judged primary rows of its last 20 A/A sessions saw a change, over at
least 20 rows: intervals beyond the margin, each alone. The words of rows are no measure of noise, since they stand
after Holm, which hides a host's luck the better the more metrics a session has. It has it again once at most 10 % did
in the newest sessions since then that hold at least 40 rows: more than it took to lose it, so that a bad host does
not win it back by luck. docs/history.md has the simulated figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.history.entry import Values
from harness.history.importing import host_row
from harness.history.index import Index
from harness.records.history import Calibration

MOST_ALARMS = 0.10
"""Share of judged rows beyond which the host's own noise model is wrong (notes/anchors.md 2.5)."""
SESSIONS = 20
"""A/A sessions that count, the last ones."""
FEWEST_ROWS = 20
"""Below this the right is not lost: two rows of one session are no rate."""
ROWS_TO_PASS = 40
"""Rows that win it back, all of them of sessions since the loss."""
Z = 1.6449
"""Two-sided 90 %."""

ROWS = """
SELECT s.root_sha256, s.session,
       count(*) AS judged,
       sum(m.low_pct > m.margin_pct OR m.high_pct < -100.0 * m.margin_pct / (100.0 + m.margin_pct)) AS alarms
FROM sessions s JOIN metrics m USING (root_sha256)
WHERE s.host = ? AND s.kind = 'A/A' AND s.verdict NOT IN ('void', 'setup failure')
  AND m.is_primary AND m.own_sd IS NOT NULL AND m.word IN ('pass', 'improved', 'inconclusive', 'fail')
GROUP BY s.root_sha256 ORDER BY s.started_wall, s.session
"""


@dataclass(frozen=True)
class Counted:
    """Judged primary rows of one A/A session."""

    session: str
    root_sha256: str
    rows: int
    alarms: int


def calibration_of(index: Index, host: Values) -> Calibration | None:
    """What the index knows of a host; None for a host that does not say which one it is."""
    if host["host_id"] is None:
        return None
    row = host_row(index, host)
    found = index.sql.execute(ROWS, (row,)).fetchall()
    return calibrate([Counted(r["session"], r["root_sha256"], r["judged"], r["alarms"]) for r in found])


def calibrate(sessions: Sequence[Counted]) -> Calibration:
    """Replay A/A sessions, oldest first."""
    window: list[Counted] = []
    lost_in: str | None = None
    lost_at: str | None = None
    for session in sessions:
        window = [*window, session][-SESSIONS:]
        if lost_in is None:
            rows, alarms = _sum(window)
            if rows >= FEWEST_ROWS and alarms > MOST_ALARMS * rows:
                lost_in, lost_at, window = session.session, f"{alarms} of {rows} rows", []
            continue
        newest = _newest(window)
        rows, alarms = _sum(newest)
        if rows >= ROWS_TO_PASS and alarms <= MOST_ALARMS * rows:
            lost_in, lost_at, window = None, None, newest
    rows, alarms = _sum(window)
    low, high = wilson(alarms, rows) if rows else (None, None)
    return Calibration(
        trusted=lost_in is None,
        sessions=len(window),
        rows=rows,
        alarms=alarms,
        low_pct=low,
        high_pct=high,
        lost_in=lost_in,
        lost_at=lost_at,
        sources=tuple(s.root_sha256 for s in window),
    )


def _sum(sessions: Sequence[Counted]) -> tuple[int, int]:
    return sum(s.rows for s in sessions), sum(s.alarms for s in sessions)


def _newest(sessions: list[Counted]) -> list[Counted]:
    """The last sessions that hold ROWS_TO_PASS rows, and no more of them than that takes."""
    for place in range(len(sessions) - 1, -1, -1):
        if _sum(sessions[place:])[0] >= ROWS_TO_PASS:
            return sessions[place:]
    return sessions


def wilson(alarms: int, rows: int) -> tuple[float, float]:
    """Wilson's score interval of a share, two-sided 90 %, in % (E. B. Wilson, JASA 22, 1927)."""
    share, square = alarms / rows, Z * Z / rows
    middle = (share + square / 2) / (1 + square)
    half = Z / (1 + square) * math.sqrt(share * (1 - share) / rows + square / (4 * rows))
    return round(100 * max(0.0, middle - half), 2), round(100 * min(1.0, middle + half), 2)
