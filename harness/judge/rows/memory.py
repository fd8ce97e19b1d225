"""Memory of the server's processes on the host, by phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.judge.case import Case, shown
from harness.judge.read import LaunchEvidence
from harness.records import Row
from harness.words import Step, Word

MIB = 1 << 20
UNGATED = "host RSS, all processes of the server; no gate: the memory gates are for GPUs, and there is none here"


@dataclass(frozen=True)
class Series:
    """Resident memory of all processes together at each sample."""

    times_ns: tuple[int, ...]
    mib: tuple[float, ...]

    def last_before(self, time_ns: int | None) -> float | None:
        """The last sample at or before a time, in MiB."""
        if time_ns is None:
            return None
        before = [m for t, m in zip(self.times_ns, self.mib, strict=True) if t <= time_ns]
        return before[-1] if before else None

    def peak(self, begin_ns: int, end_ns: int) -> float | None:
        """The largest sample of a stretch, in MiB; None where no sample fell into it."""
        return max((m for t, m in zip(self.times_ns, self.mib, strict=True) if begin_ns <= t <= end_ns), default=None)


def series(launch: LaunchEvidence) -> Series:
    """The launch's samples summed over processes; empty where none were taken, or their file is torn."""
    if not launch.folder.host_samples_file.is_file():
        return Series((), ())
    import pyarrow as pa  # noqa: PLC0415  # heavy, and only needed here
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        table = pq.read_table(launch.folder.host_samples_file).to_pydict()
    except pa.ArrowInvalid:  # the harness was killed while it wrote
        return Series((), ())
    sums: dict[int, int] = {}
    for time_ns, size in zip(table["mono_ns"], table["rss_bytes"], strict=True):
        sums[time_ns] = sums.get(time_ns, 0) + size
    times = sorted(sums)
    return Series(tuple(times), tuple(sums[t] / MIB for t in times))


def idle_mib(launch: LaunchEvidence) -> float | None:
    """After the first served request and before anything else was asked."""
    ready = launch.ready_ns
    if ready is None:
        return None
    following = [m.mono_ns for m in launch.marks if m.mark == "step begins" and m.mono_ns > ready]
    return series(launch).last_before(following[0] if following else launch.mark_ns("stop asked"))


def first_prompt_mib(launch: LaunchEvidence, context_tokens: int) -> float | None:
    """Peak while the first prompt of this length was served; the last sample where none fell into it."""
    windows = launch.windows_of(Step.FIRST_PROMPT, context_tokens)
    if not windows:
        return None
    found = series(launch)
    window = windows[0].window
    peak = found.peak(window.begin_ns, window.end_ns)
    return found.last_before(window.end_ns) if peak is None else peak


def end_mib(launch: LaunchEvidence) -> float | None:
    """Just before the server was asked to stop."""
    return series(launch).last_before(launch.mark_ns("stop asked")) if launch.ready_ns is not None else None


def rows(case: Case) -> Iterator[Row]:
    """Idle, during each first prompt, at the end; shown, not gated."""
    for cell in case.cells:
        figures: list[tuple[str, int | None, tuple[list[float | None], list[float | None]]]] = [
            ("host RSS idle", None, cell.values(idle_mib)),
            *(
                ("host RSS first prompt", c, cell.values(lambda x, c=c: first_prompt_mib(x, c)))  # type: ignore[misc]
                for c in case.contexts
            ),
            ("host RSS at the end", None, cell.values(end_mib)),
        ]
        for name, context, (control, candidate) in figures:
            yield cell.row(
                name,
                Word.NOT_TESTED,
                UNGATED,
                context_tokens=context,
                control=shown(control, "{:,.0f}"),
                candidate=shown(candidate, "{:,.0f}"),
                unit="MiB",
                sources=tuple(f"launches/{x.folder.id}/host.parquet" for _, side in cell.arms() for x in side),
            )
