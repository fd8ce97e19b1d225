"""Pictures of differences between the arms: a forest of the primary metrics, and tok/s taken apart.

A difference is of no arm and has the colour of none: what came out is dark, and what it is made of is grey.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup
from matplotlib.axes import Axes

from harness.report import svg
from harness.report.axes import SMALL, pixel_axes
from harness.report.decomposition import Split
from harness.report.effects import Effect
from harness.report.text import signed

WIDTH, ROW, BELOW, LEFT, RIGHT = 900, 26, 40, 272, 236
SPLIT_LEFT, SPLIT_RIGHT = 190, 282
LEAST_PCT = 2.0
"""An axis of changes spans at least this much to either side, so that noise does not look like news."""


def forest(found: Sequence[Effect]) -> Markup:
    """A line per metric: margin as a band, pairs as faint points, mean and interval in front."""
    height = ROW * len(found) + BELOW
    with svg.drawing(WIDTH, height) as figure:
        axes = pixel_axes(figure, LEFT, BELOW, WIDTH - RIGHT, height - 2)
        for row, effect in enumerate(found):
            _draw_effect(axes, row, effect)
        _percent_axis(axes, [e.title for e in found], "candidate against control, % (+ is better)")
        axes.set_xlim(*_range([x for e in found for x in _extent(e)]))
        told = "; ".join(map(_told, found))
        return svg.rendered(figure, "forest", "Primary metrics: candidate against control, in percent", told=told)


def decomposition(found: Sequence[Split]) -> Markup:
    """A bar per factor: steps/s and tokens per step; a mark where tok/s came out."""
    height = ROW * len(found) + BELOW
    with svg.drawing(WIDTH, height) as figure:
        axes = pixel_axes(figure, SPLIT_LEFT, BELOW, WIDTH - SPLIT_RIGHT, height - 2)
        for row, split in enumerate(found):
            _draw_split(axes, row, split)
        _percent_axis(axes, [s.title for s in found], "candidate against control, % of tok/s")
        axes.set_xlim(*_range([x for s in found for x in _split_extent(s)]))
        told = "; ".join(map(_split_told, found))
        return svg.rendered(figure, "decomposition", "tok/s as steps/s times tokens per step", told=told)


def _draw_effect(axes: Axes, row: int, effect: Effect) -> None:
    axes.broken_barh(
        [(effect.edge_pct, effect.margin_pct - effect.edge_pct)], (row - 0.42, 0.84), facecolor=svg.BANDS[0]
    )
    pairs = effect.pairs_pct
    spread = [row + (n - (len(pairs) - 1) / 2) * min(0.1, 0.6 / len(pairs)) for n in range(len(pairs))]
    axes.plot(pairs, spread, "o", color=svg.FAINT, markersize=4 if effect.tested else 6, markerfacecolor="none")
    text = f"not tested: {len(pairs)} pair"
    if (tested := effect.tested) is not None:
        axes.plot([tested.low_pct, tested.high_pct], [row, row], color=svg.INK, linewidth=1.8, solid_capstyle="butt")
        for end in (tested.low_pct, tested.high_pct):
            axes.plot([end, end], [row - 0.18, row + 0.18], color=svg.INK, linewidth=1.8)
        axes.plot(tested.change_pct, row, "D", color=svg.INK, markersize=6)
        text = f"{signed(tested.change_pct)} ({signed(tested.low_pct)} to {signed(tested.high_pct)})"
    _beside(axes, row, text)


def _draw_split(axes: Axes, row: int, split: Split) -> None:
    steps, per_step = split.steps.change_pct, split.per_step.change_pct if split.per_step else 0.0
    axes.broken_barh([_bar(0, steps)], (row - 0.34, 0.34), facecolor=svg.FAINT, alpha=0.55)
    axes.broken_barh([_bar(0, per_step)], (row, 0.34), facecolor="none", edgecolor=svg.FAINT, hatch="////")
    axes.plot(split.tokens.change_pct, row, "D", color=svg.INK, markersize=6)
    _beside(axes, row, f"{signed(split.tokens.change_pct)}: steps/s {signed(steps)}, tok/step {signed(per_step)}")


def _beside(axes: Axes, row: int, text: str) -> None:
    axes.annotate(
        text, (1, row), (8, 0), xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
        fontsize=SMALL,
    )  # fmt: skip


def _percent_axis(axes: Axes, names: Sequence[str], label: str) -> None:
    axes.axvline(0, color=svg.FAINT, linewidth=1)
    axes.set_yticks(range(len(names)), names, fontsize=SMALL)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(label, fontsize=SMALL)


def _bar(begin: float, end: float) -> tuple[float, float]:
    return min(begin, end), abs(end - begin)


def _extent(effect: Effect) -> list[float]:
    interval = [effect.tested.low_pct, effect.tested.high_pct] if effect.tested else []
    return [*effect.pairs_pct, *interval, effect.edge_pct, effect.margin_pct]


def _split_extent(split: Split) -> list[float]:
    return [p.change_pct for p in (split.tokens, split.steps, split.per_step) if p is not None]


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(*values, -LEAST_PCT), max(*values, LEAST_PCT)
    room = 0.05 * (high - low)
    return low - room, high + room


def _told(effect: Effect) -> str:
    """The line in words, for those who cannot see it."""
    if (t := effect.tested) is None:
        return f"{effect.title}: {', '.join(map(signed, effect.pairs_pct))}, not tested"
    interval = f"{t.confidence_pct:g} % interval {signed(t.low_pct)} to {signed(t.high_pct)}"
    return f"{effect.title}: {signed(t.change_pct)}, {interval}, margin {effect.margin_pct:g} %, {effect.word}"


def _split_told(split: Split) -> str:
    per_step = "" if split.per_step is None else f", tokens per step {signed(split.per_step.change_pct)}"
    return f"{split.title}: tok/s {signed(split.tokens.change_pct)}, steps/s {signed(split.steps.change_pct)}{per_step}"
