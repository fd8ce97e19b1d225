"""Prefill and decode rates of every pass, as points per launch and never as a mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.judge.case import Case
from harness.judge.rates import Decode, decode_pass, prefill_rate
from harness.judge.read import LaunchEvidence
from harness.judge.rows import speed
from harness.judge.window import WindowEvidence, prompt_class
from harness.records import PlannedLaunch
from harness.report.launches import in_order
from harness.report.text import tokens_text
from harness.words import Step


@dataclass(frozen=True)
class Point:
    """One pass of one launch."""

    pass_number: int
    value: float | None
    fault: str | None
    """Why there is no value."""
    source: str


@dataclass(frozen=True)
class Column:
    """One launch's passes and their median, as the judge took it."""

    launch: PlannedLaunch
    points: tuple[Point, ...]
    median: float | None


@dataclass(frozen=True)
class Panel:
    """One metric at one context in one mode, over launches in run order."""

    metric: str
    unit: str
    mode: str
    context_tokens: int
    columns: tuple[Column, ...]

    @property
    def title(self) -> str:
        """`mtp1: prefill 2K, tok/s`."""
        return f"{self.mode}: {self.metric} {tokens_text(self.context_tokens)}, {self.unit}"

    @property
    def fold(self) -> float:
        """The largest rate over the smallest; 1 without any."""
        values = [p.value for c in self.columns for p in c.points if p.value is not None]
        return max(values) / min(values) if values else 1.0

    @property
    def points(self) -> int:
        """How many points there are to draw."""
        return sum(len(c.points) for c in self.columns)


Pass = Callable[[WindowEvidence], float | None]
Median = Callable[[LaunchEvidence, int], float | None]
Metric = tuple[str, str, Step, Pass, Median]

PREFILL: Metric = (
    "prefill",
    "tok/s",
    Step.PREFILL,
    lambda w: None if w.fault or w.stalled or len(w.requests) != 1 else prefill_rate(w.requests[0]),
    speed.prefill,
)


def _decode(name: str, unit: str, figure: Callable[[Decode], float]) -> Metric:
    def of_pass(window: WindowEvidence) -> float | None:
        found = decode_pass(window)
        return None if found is None else figure(found)

    return name, unit, Step.DECODE, of_pass, lambda launch, context: speed.decode(launch, context, figure)


DECODE = _decode("decode", "tok/s", lambda d: d.tokens_per_s)
STEPS = _decode("decode steps", "steps/s", lambda d: d.steps_per_s)


def panels(case: Case) -> list[Panel]:
    """Every panel that has a point: by mode, metric and context."""
    modes = dict.fromkeys(x.mode for x in in_order(case))
    found = [
        _panel(case, mode, context, metric)
        for mode in modes
        for metric in ((PREFILL, STEPS, DECODE) if case.draft_tokens(mode) else (PREFILL, DECODE))
        for context in case.contexts
    ]
    return [p for p in found if p.points]


def _panel(case: Case, mode: str, context: int, metric: Metric) -> Panel:
    name, unit, step, of_pass, median = metric
    columns = []
    for planned in in_order(case):
        launch = case.launches[planned.id]
        windows = launch.windows_of(step, context) if planned.mode == mode and not planned.trace else []
        if windows:
            points = tuple(_point(planned, w, of_pass(w)) for w in windows)
            columns.append(Column(planned, points, median(launch, context)))
    if step is Step.DECODE and case.draft_tokens(mode):
        drafted = (w for p in in_order(case) if p.mode == mode for w in case.launches[p.id].windows_of(step, context))
        unit = f"{unit}, {prompt_class(drafted)}"
    return Panel(name, unit, mode, context, tuple(columns))


def _point(planned: PlannedLaunch, window: WindowEvidence, value: float | None) -> Point:
    fault = None if value is not None else window.fault or window.stalled or "its requests were not timed"
    asked = ", ".join(r.request for r in window.requests)
    return Point(window.window.pass_number, value, fault, f"launches/{planned.id}/requests.jsonl request {asked}")
