"""What breaks a measurement, and the one place that keeps it from turning into a pass or a fail.

The row that found it says what broke. Here every other row that the same evidence could have moved
becomes void too: a kernel that a stranger's request compiled is no late kernel of the candidate, and
an output that a prefix-cache hit computed in another way is no difference of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from harness.judge.case import Case, Cell
from harness.judge.read import LaunchEvidence
from harness.judge.window import WindowEvidence
from harness.records import Row
from harness.words import Step, Word

JUDGED = frozenset({Word.PASS, Word.IMPROVED, Word.WARN, Word.NOTE, Word.INCONCLUSIVE, Word.FAIL})

MEASURED = (Step.FIRST_PROMPT, Step.PREFILL, Step.DECODE)

Broken = Callable[[LaunchEvidence, Row], str | None]


def without_voided(case: Case, rows: Iterable[Row]) -> Iterator[Row]:
    """The rows, void where what they rest on is broken."""
    for row in rows:
        why = _broken(case, row) if row.word in JUDGED else None
        yield row.model_copy(update={"word": Word.VOID, "reason": f"{why}; {row.reason}"}) if why else row


def strangers(launch: LaunchEvidence) -> str | None:
    """The first window in which the server counted more requests or prompt tokens than we sent."""
    for window in launch.windows:
        for name, ours in (
            ("requests", window.sequences),
            ("prompt_tokens", sum(r.prompt_tokens * r.sequences for r in window.requests)),
        ):
            counted = window.counted(name)
            if counted is not None and counted > ours:
                where = f"{launch.folder.id} {window.window.window}"
                return f"{where}: a foreign request ran ({name}: {counted:,}, {ours:,} ours)"
    return None


def clock_jump(launch: LaunchEvidence) -> str | None:
    """Where the wall clock left the monotonic one, with the launch's name."""
    return f"{launch.folder.id}: {launch.clock_jump}" if launch.clock_jump else None


def _broken(case: Case, row: Row) -> str | None:
    test = _test_of(row)
    launches = (x for cell in _cells(case, row) for _, side in cell.arms() for x in side)
    return next((why for x in launches if test is not None and (why := test(x, row))), None)


def _test_of(row: Row) -> Broken | None:
    """What could have moved a row of this name."""
    if row.name.startswith(("late ", "specialisation ", "request kind ")):
        return lambda launch, _: strangers(launch)
    if row.name.startswith(("identity", "needles")):
        return _computed_otherwise
    return None


def _computed_otherwise(launch: LaunchEvidence, row: Row) -> str | None:
    """Another batch, or a prefix from the cache, is another computation; so is one that nobody counted."""
    steps: tuple[Step, ...]
    if row.name == "needles":
        steps, context = (Step.NEEDLE,), row.context_tokens
    else:
        steps, context = (MEASURED, row.context_tokens) if row.context_tokens else ((Step.IDENTITY,), None)
    windows: list[WindowEvidence] = [w for step in steps for w in launch.windows_of(step, context)]
    return next(
        (f"{launch.folder.id} {w.window.window}: {w.miscounted}" for w in windows if w.miscounted and not w.unserved),
        None,
    )


def _cells(case: Case, row: Row) -> list[Cell]:
    """Cells that a row speaks of: one, or all of its mode, or all."""
    return [
        cell
        for cell in case.cells
        if row.mode in (None, cell.mode) and row.warmup in (None, cell.warmup) and row.cache in (None, cell.cache_label)
    ]
