"""A host that saw changes where none can be does not judge speed until it passes again (docs/history.md).

Its sessions run all the same, and everything that needs no statistics is judged: only the rows that rest
on the noise of pairs are refused, and say what they would have said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.judge.case import Case
from harness.judge.voids import JUDGED
from harness.records import Row
from harness.records.history import Calibration
from harness.words import Word

SPEED_CLAIMS = ("claim throughput_min_change", "claim cold_start_max_change")
NIGHTS = "nights, "
"""How rows of a nightly series begin."""


def rows(case: Case) -> Iterator[Row]:
    """One row where the right is lost; a host that has it needs no row."""
    found = case.plan.calibration
    if found is None or found.trusted:
        return
    yield Row(
        name="host calibration",
        control=f"{found.alarms} of {found.rows}" if found.rows else None,
        unit="A/A rows",
        word=Word.REFUSED,
        reason=f"{_lost(found)}; it judges speed again once at most 10 % of them do (qualify history list)",
        sources=("plan.json",),
    )


def refused(case: Case, rows: Iterable[Row]) -> Iterator[Row]:
    """The rows, those on speed refused where the host has lost the right to judge it."""
    found = case.plan.calibration
    if found is None or found.trusted:
        yield from rows
        return
    for row in rows:
        if row.word in JUDGED and (row.tested is not None or row.name.startswith((*SPEED_CLAIMS, NIGHTS))):
            reason = f"{_lost(found)}; would say {row.word}: {row.reason}"
            yield row.model_copy(update={"word": Word.REFUSED, "reason": reason})
        else:
            yield row


def _lost(found: Calibration) -> str:
    return (
        f"this host lost the right to judge speed in {found.lost_in}: {found.lost_at} of A/A sessions saw a change; "
        f"since then {found.counted}"
    )
