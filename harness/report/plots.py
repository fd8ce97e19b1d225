"""The pictures: start-up phases, throughput per pass, memory over time. Figure objects only, no pyplot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.records import PlannedLaunch
from harness.report import svg
from harness.report.memories import Band, Track
from harness.report.speeds import Column, Panel
from harness.report.starts import Start, phase_names
from harness.words import Arm, Step

SMALL = 10.5
ARM_COLOURS = {Arm.CONTROL: svg.CONTROL, Arm.CANDIDATE: svg.CANDIDATE}
STEP_BANDS = dict(zip(Step, svg.BANDS, strict=True))
LEAST_SPAN = 0.05
"""A rate's axis spans at least this share of the rate, so that noise is not magnified to look like news."""

MANY_FOLD = 10
"""Rates that differ by more than this are shown on a logarithmic axis."""

PHASE_WIDTH, PHASE_ROW, PHASE_LEFT, PHASE_BELOW = 900, 27, 212, 38
PANEL_WIDTH, PANEL_HEIGHT, PANEL_COLUMN = 480, 230, 44
MEMORY_WIDTH, MEMORY_HEIGHT = 480, 215
LABEL_FITS_PX = 13
"""A band narrower than a line of its rotated label stays without one; the legend names it by its colour."""


def start_up(found: Sequence[Start]) -> Markup:
    """One bar per launch, in run order, phases where they happened and gaps hatched."""
    height = PHASE_ROW * len(found) + PHASE_BELOW
    colours = dict(zip(phase_names(found), svg.PHASES, strict=False))
    notes = {}
    with svg.drawing(PHASE_WIDTH, height) as figure:
        axes = pixel_axes(figure, PHASE_LEFT, PHASE_BELOW, PHASE_WIDTH - 110, height - 2)
        for row, start in enumerate(found):
            for n, stretch in enumerate(start.stretches):
                gid = f"stretch-{row}-{n}"
                seconds = stretch.end_s - stretch.begin_s
                notes[gid] = ("stretch", f"{start.launch.id}: {stretch.name or 'unexplained'}, {seconds:.2f} s")
                axes.broken_barh(
                    [(stretch.begin_s, seconds)],
                    (row - 0.36, 0.72),
                    facecolor=colours[stretch.name] if stretch.name else "none",
                    edgecolor="none" if stretch.name else svg.UNEXPLAINED,
                    hatch=None if stretch.name else "////",
                    linewidth=0 if stretch.name else 0.6,
                    gid=gid,
                )
            text = f"{start.total} s" if start.ready else f"{start.total} s, not ready"
            end = (start.stretches[-1].end_s if start.stretches else 0.0, row)
            axes.annotate(text, end, (5, 0), textcoords="offset points", va="center", fontsize=SMALL)
        axes.set_yticks(range(len(found)), [s.launch.id for s in found], fontsize=SMALL)
        for label, start in zip(axes.get_yticklabels(), found, strict=True):
            label.set_color(ARM_COLOURS[start.launch.arm])
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xlim(0, None)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("seconds since the process was started", fontsize=SMALL)
        return svg.rendered(figure, "start-up", "Start-up of each launch by phase, in seconds", notes)


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


def memory(track: Track, name: str, all_tracks: Sequence[Track]) -> Markup:
    """Start-up on the left, the course on the right with its own scale; both shared by all launches."""
    with svg.drawing(MEMORY_WIDTH, MEMORY_HEIGHT) as figure:
        bottom, top = 40, MEMORY_HEIGHT - 8
        middle = MEMORY_WIDTH - 60 if track.ready_s is None else 150
        start = pixel_axes(figure, 48, bottom, middle, top)
        ready = track.times_s[-1] if track.ready_s is None else track.ready_s
        _draw_memory(start, track, 0.0, ready)
        start.set_ylim(0, 1.08 * max(max(t.mib) for t in all_tracks))
        start.set_xlabel("start-up, s", fontsize=SMALL)
        if track.ready_s is not None:
            course = pixel_axes(figure, middle + 14, bottom, MEMORY_WIDTH - 46, top)
            _draw_course(course, track, track.ready_s, all_tracks)
        return svg.rendered(figure, name, f"{track.launch.id}: {track.measure} on the host over time, in MiB")


def pixel_axes(figure: Figure, left: float, bottom: float, right: float, top: float) -> Axes:
    """Axes between these pixels of the figure, counted from its lower left corner."""
    width, height = (figure.get_size_inches() * svg.PIXELS_PER_INCH).tolist()
    axes = figure.add_axes((left / width, bottom / height, (right - left) / width, (top - bottom) / height))
    axes.tick_params(labelsize=SMALL)
    axes.yaxis.set_major_formatter(_plain)
    return axes


def _plain(value: float, place: float) -> str:
    """A tick's label: 12,000 and not 1.2e4."""
    del place
    return f"{value:,.10g}"


def _draw_column(axes: Axes, x: int, column: Column, unit: str, notes: dict[str, tuple[str, str]]) -> None:
    colour = ARM_COLOURS[column.launch.arm]
    cold = column.launch.cache == "cold"
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
        axes.plot(at, point.value, "o", color=colour, markerfacecolor=face, markersize=5.5, alpha=alpha, gid=gid)
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
        axes.yaxis.set_major_formatter(_plain)
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


def _draw_memory(axes: Axes, track: Track, begin_s: float, end_s: float) -> None:
    times, sizes = track.between(begin_s, end_s)
    axes.plot(times, sizes, color=ARM_COLOURS[track.launch.arm], linewidth=1.4, marker="o", markersize=1.6)
    axes.set_xlim(begin_s, max(end_s, begin_s + 1e-3))
    axes.grid(visible=False, axis="x")
    axes.locator_params(axis="y", nbins=5)
    axes.locator_params(axis="x", nbins=3 if axes.get_window_extent().width < MEMORY_WIDTH / 2 else 6)


def _draw_course(axes: Axes, track: Track, ready_s: float, all_tracks: Sequence[Track]) -> None:
    end = max([b.end_s for b in track.course] + [track.stop_s or ready_s])
    _draw_memory(axes, track, ready_s, end)
    low, high = _course_range(all_tracks)
    axes.set_ylim(low, high)
    axes.yaxis.tick_right()
    axes.set_xlabel("course, s", fontsize=SMALL)
    shade_course(axes, track.course, end - ready_s)


def shade_course(axes: Axes, course: Sequence[Band], seconds: float) -> None:
    """Steps of the course as bands behind the lines; names where there is room for them."""
    pixels_per_s = axes.get_window_extent().width / max(seconds, 1e-3)
    for band in course:
        axes.axvspan(band.begin_s, band.end_s, facecolor=STEP_BANDS[band.step], linewidth=0, zorder=0.1)
        if (band.end_s - band.begin_s) * pixels_per_s >= LABEL_FITS_PX:
            middle = (band.begin_s + band.end_s) / 2
            place = {"rotation": 90, "ha": "center", "va": "top", "fontsize": 9.5, "color": svg.FAINT}
            axes.text(middle, 0.97, band.label, transform=axes.get_xaxis_transform(), **place)  # type: ignore[arg-type]


def _course_range(all_tracks: Sequence[Track]) -> tuple[float, float]:
    """Lowest and highest sample of any course, with room for the labels above."""
    sizes = [
        m
        for t in all_tracks
        if t.ready_s is not None
        for s, m in zip(t.times_s, t.mib, strict=True)
        if t.ready_s <= s <= (math.inf if t.stop_s is None else t.stop_s)
    ]
    low, high = min(sizes, default=0.0), max(sizes, default=1.0)
    span = max(high - low, 0.02 * high, 1.0)
    return low - 0.15 * span, high + 0.9 * span
