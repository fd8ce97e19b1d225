"""Memory of the server's processes on the host, by phase; the memory that is gated is the GPUs'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.judge.case import Case, Cell, shown
from harness.judge.read import LaunchEvidence
from harness.observe.memory import Series
from harness.records import Row
from harness.words import Step, Word

MEANINGS = {
    "PSS": "proportional set size: shared pages are counted once",
    "RSS": "resident set size: pages that processes share are counted once per process",
}


def series(launch: LaunchEvidence, measure: str = "") -> Series:
    """Samples summed over processes, by the better measure or by the named one; empty where none were taken."""
    memory = launch.host_memory
    return {"": memory.best[1], "PSS": memory.pss, "RSS": memory.rss}[measure]


def idle_mib(launch: LaunchEvidence, measure: str = "") -> float | None:
    """After the first served request and before anything else was asked."""
    return None if launch.ready_ns is None else series(launch, measure).last_before(launch.moments.asked_ns)


def first_prompt_mib(launch: LaunchEvidence, context_tokens: int, measure: str = "") -> float | None:
    """Peak while the first prompt of this length was served; the last sample where none fell into it."""
    windows = launch.windows_of(Step.FIRST_PROMPT, context_tokens)
    if not windows:
        return None
    found, window = series(launch, measure), windows[0].window
    peak = found.peak(window.begin_ns, window.end_ns)
    return found.last_before(window.end_ns) if peak is None else peak


def end_mib(launch: LaunchEvidence, measure: str = "") -> float | None:
    """Just before the server was asked to stop."""
    return None if launch.ready_ns is None else series(launch, measure).last_before(launch.moments.stop_ns)


def rows(case: Case) -> Iterator[Row]:
    """Idle, during each first prompt, at the end; shown, not gated."""
    for cell in case.cells:
        measure = measure_of(cell)
        figures: list[tuple[str, int | None, tuple[list[float | None], list[float | None]]]] = [
            ("idle", None, cell.values(lambda x, m=measure: idle_mib(x, m))),  # type: ignore[misc]
            *(
                ("first prompt", c, cell.values(lambda x, c=c, m=measure: first_prompt_mib(x, c, m)))  # type: ignore[misc]
                for c in case.contexts
            ),
            ("at the end", None, cell.values(lambda x, m=measure: end_mib(x, m))),  # type: ignore[misc]
        ]
        reason = (
            f"memory of all processes of the server on the host, {MEANINGS[measure]}{_period(cell, measure)}; "
            "no gate: the memory gates are for GPUs"
        )
        for name, context, (control, candidate) in figures:
            yield cell.row(
                f"host {measure} {name}",
                Word.NOT_TESTED,
                reason,
                context_tokens=context,
                control=shown(control, "{:,.0f}"),
                candidate=shown(candidate, "{:,.0f}"),
                unit="MiB",
                sources=tuple(f"launches/{x.folder.id}/host.parquet" for _, side in cell.arms() for x in side),
            )


def measure_of(cell: Cell) -> str:
    """`PSS` where every sampled launch has it, else `RSS`: two measures are not compared."""
    return measure_of_all(x for _, side in cell.arms() for x in side)


def measure_of_all(launches: Iterable[LaunchEvidence]) -> str:
    """The same of any launches."""
    sampled = [x.host_memory for x in launches if x.host_memory.rss.times_ns]
    return "PSS" if sampled and all(m.pss.times_ns for m in sampled) else "RSS"


def _period(cell: Cell, measure: str) -> str:
    periods = [p for _, side in cell.arms() for x in side if (p := series(x, measure).period_s()) is not None]
    return f", read every {max(periods):.2g} s" if periods else ""
