"""Decode with several streams side by side, per context: achieved concurrency first, then what it gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from harness.judge.case import Case, Cell, shown
from harness.judge.family import Figure, Metric
from harness.judge.loads import InFlight, Load, in_flight, load_pass, phase_s, server_peak, tokens_per_sequence_step
from harness.judge.rates import median
from harness.judge.read import LaunchEvidence
from harness.judge.rows.speed import figure_row
from harness.judge.window import WindowEvidence
from harness.records import Row
from harness.words import Cache, Step, Word


def metrics(case: Case, cell: Cell) -> Iterator[Metric]:
    """Rates of several streams in a warm cell."""
    if cell.cache is Cache.WARM:
        for context in case.plan.profile.course.contexts:
            for streams in (n for n in context.streams if n > 1):
                yield from _Block(case, cell, context.prompt_tokens, streams).metrics()


def rows(case: Case) -> Iterator[Row]:
    """One block per context, number of streams above one, and cell."""
    for context in case.plan.profile.course.contexts:
        for streams in (n for n in context.streams if n > 1):
            for cell in case.cells:
                block = _Block(case, cell, context.prompt_tokens, streams)
                yield block.concurrency()
                yield from block.rates()
                yield from block.phases()


class _Block:
    """The rows of one context and number of streams in one cell."""

    def __init__(self, case: Case, cell: Cell, context: int, streams: int) -> None:
        self._case = case
        self._cell = cell
        self._context = context
        self._streams = streams

    def concurrency(self) -> Row:
        """As many requests at a time as were asked for, in the client and in the server."""
        sides = [[w for x in side for w in self._windows(x)] for _, side in self._cell.arms()]
        flights = [[in_flight(w.requests) for w in side] for side in sides]
        peaks = [[None if f is None else f.peak for f in side] for side in flights]
        served = [[server_peak(w) for w in side] for side in sides]
        fewer = [p for p in served[0] + served[1] if p is not None and p < self._streams]
        if not all(sides):
            word, reason = Word.NOT_TESTED, "an arm has no window of so many streams"
        elif any(p is None or p < self._streams for side in peaks for p in side):
            word, reason = Word.VOID, f"the client never had {self._streams} requests in flight in one of the windows"
        elif fewer:
            word, reason = Word.WARN, f"the server ran at most {min(fewer):g} at a time: the others waited in its queue"
        elif not any(p is not None for side in served for p in side):
            word, reason = Word.PASS, "by the client; no window was long enough for a sample of the server's gauge"
        else:
            word, reason = Word.PASS, "in the client, and by the server's own gauge"
        texts = [_achieved(c, s) for c, s in zip(flights, served, strict=True)]
        return self._cell.row(
            self._name("concurrency"),
            word,
            reason,
            context_tokens=self._context,
            control=texts[0],
            candidate=texts[1],
            unit="requests at a time",
            sources=tuple(f"launches/{x.folder.id}/windows.jsonl" for _, side in self._cell.arms() for x in side),
        )

    def metrics(self) -> Iterator[Metric]:
        """What pairs of launches are compared by."""
        gates, speculates = self._case.plan.profile.gates, bool(self._case.draft_tokens(self._cell.mode))
        tokens, steps = self._of(lambda p: p.tokens_per_s), self._of(lambda p: p.steps_per_s)
        name, context = self._name, self._context
        yield Metric(name("decode"), context, tokens, gates.throughput_pct, more_is_better=True, gated=not speculates)
        if speculates:
            yield Metric(name("decode steps"), context, steps, gates.steps_pct, more_is_better=True)

    def rates(self) -> Iterator[Row]:
        """Under MTP the steps are judged, without it the tokens, which are the same."""
        tokens, steps = self._of(lambda p: p.tokens_per_s), self._of(lambda p: p.steps_per_s)
        if not self._case.draft_tokens(self._cell.mode):
            yield self._row("decode", "tok/s", tokens, gated=True)
            return
        per_step = self._median(tokens_per_sequence_step)
        unit = "sequence-steps/s"
        yield self._row("decode steps", unit, steps, gated=True)
        note = "not judged under MTP, where it is engine speed times acceptance"
        yield self._row("decode", "tok/s", tokens, note=note)
        yield self._row("tokens per step", "tok/step", per_step)

    def phases(self) -> Iterator[Row]:
        """Waiting and running, apart: a full queue is not a slow engine."""
        for name, phase in (("queue time", "queue"), ("service time", "service")):
            figure = self._median(partial(phase_s, phase=phase))
            note = "mean per request, by the server's histogram; shown, not judged"
            yield self._row(name, "s", figure, note=note)

    def _row(self, name: str, unit: str, figure: Figure, *, gated: bool = False, note: str = "") -> Row:
        what = (self._name(name), self._context)
        return figure_row(self._case, self._cell, what, unit, figure, gated=gated, note=note)

    def _name(self, what: str) -> str:
        return f"{what}, {self._streams} streams"

    def _windows(self, launch: LaunchEvidence) -> list[WindowEvidence]:
        return launch.windows_of(Step.DECODE, self._context, streams=self._streams)

    def _median(self, of_pass: Callable[[WindowEvidence], float | None]) -> Figure:
        return lambda launch: median([of_pass(w) for w in self._windows(launch)])

    def _of(self, figure: Callable[[Load], float]) -> Figure:
        def of_pass(window: WindowEvidence) -> float | None:
            found = load_pass(window)
            return None if found is None else figure(found)

        return self._median(of_pass)


def _achieved(client: list[InFlight | None], server: list[float | None]) -> str | None:
    """`client 4 / 4, mean 3.9 / 3.8; server 4 / 4`, a value per pass; the last round of a loop lowers the mean."""
    peaks = shown([None if f is None else f.peak for f in client], "{:.0f}")
    means = shown([None if f is None else f.mean for f in client])
    return peaks and f"client {peaks}, mean {means}; server {shown(server, '{:.0f}') or 'not sampled'}"
