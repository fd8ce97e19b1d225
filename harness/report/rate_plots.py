"""The pictures of throughput: a point per pass, a bar for the launch's median."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup
from matplotlib.axes import Axes

from harness.records import PlannedLaunch
from harness.report import svg
from harness.report.axes import ARM_COLOURS, ARM_MARKERS, SMALL, pixel_axes, plain
from harness.report.speeds import Column, Panel
from harness.words import Cache

LEAST_SPAN = 0.05
"""A rate's axis spans at least this share of the rate, so that noise is not magnified to look like news."""

MANY_FOLD = 10
"""Rates that differ by more than this are shown on a logarithmic axis."""

PANEL_WIDTH, PANEL_HEIGHT, PANEL_COLUMN = 480, 230, 44


def throughput(panel: Panel, name: str) -> Markup:
    """One faint point per pass and the launch's median, launches in run order."""
    width = max(PANEL_WIDTH, 70 + PANEL_COLUMN * len(panel.columns))
    notes: dict[str, tuple[str, str]] = {}
    with svg.drawing(width, PANEL_HEIGHT) as figure:
        axes = pixel_axes(figure, 70, 26, width - 8, PANEL_HEIGHT - 24)
        for x, column in enumerate(panel.columns):
            _draw_column(axes, x, column, panel.unit, notes)
        _set_rate_axis(axes, panel)
        _name_groups(axes, [c.launch for c in panel.columns])
        axes.set_xticks(range(len(panel.columns)), [f"#{c.launch.ordinal}" for c in panel.columns], fontsize=SMALL)
        axes.set_xlim(-0.6, len(panel.columns) - 0.4)
        axes.grid(visible=False, axis="x")
        title = f"{panel.title}: {panel.points} passes of {len(panel.columns)} launches in run order"
        return svg.rendered(figure, name, title, notes)


def _draw_column(axes: Axes, x: int, column: Column, unit: str, notes: dict[str, tuple[str, str]]) -> None:
    colour = ARM_COLOURS[column.launch.arm]
    cold = column.launch.cache is Cache.COLD
    for n, point in enumerate(column.points):
        gid = f"point-{x}-{n}"
        where = f"{column.launch.id}, pass {point.pass_number}"
        at = x + (n - (len(column.points) - 1) / 2) * min(0.16, 0.6 / len(column.points))
        if point.value is None:
            notes[gid] = ("void", f"{where}: no figure: {point.fault}")
            axes.plot(at, 0.03, "x", color=colour, markersize=5, transform=axes.get_xaxis_transform(), gid=gid)
            continue
        notes[gid] = ("pass", f"{where}: {point.value:,.2f} {unit}")
        face, alpha = ("none", 0.8) if cold else (colour, 0.5)
        axes.plot(
            at,
            point.value,
            ARM_MARKERS[column.launch.arm],
            color=colour,
            markerfacecolor=face,
            markersize=5.5,
            alpha=alpha,
            gid=gid,
        )
    if column.median is not None:
        gid = f"median-{x}"
        notes[gid] = ("median", f"{column.launch.id}, median: {column.median:,.2f} {unit}")
        axes.plot([x - 0.33, x + 0.33], [column.median] * 2, color=colour, linewidth=2.4, gid=gid)


def _set_rate_axis(axes: Axes, panel: Panel) -> None:
    values = [p.value for c in panel.columns for p in c.points if p.value is not None]
    if not values:
        axes.set_yticks([])
        return
    low, high = min(values), max(values)
    if panel.fold > MANY_FOLD:
        axes.set_yscale("log")
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(plain)
        axes.set_ylim(low / 1.5, high * 1.5)
        return
    axes.locator_params(axis="y", nbins=6)
    middle, half = (low + high) / 2, max((high - low) * 0.62, LEAST_SPAN * high / 2)
    axes.set_ylim(middle - half, middle + half)


def _group(launch: PlannedLaunch) -> str:
    if launch.burn_in:
        return "burn-in"
    return f"{launch.warmup} {launch.cache}{' trace' if launch.trace else ''}"


def _name_groups(axes: Axes, launches: Sequence[PlannedLaunch]) -> None:
    """Above the panel: which launches share warm-up and cache."""
    begin = 0
    for label, members in groupby(launches, key=_group):
        end = begin + len(list(members))
        axes.text(
            (begin + end - 1) / 2,
            1.04,
            label,
            ha="center",
            fontsize=SMALL,
            color=svg.FAINT,
            transform=axes.get_xaxis_transform(),
        )
        if begin:
            axes.axvline(begin - 0.5, color=svg.GRID, linewidth=1)
        begin = end
