"""The picture of a launch's GPU memory: free MiB over time, a line per GPU, phases shaded, gates drawn."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup
from matplotlib.axes import Axes

from harness.config.model import Gates
from harness.report import svg
from harness.report.gpu_memories import GpuTrack, course_range
from harness.report.plots import (
    ARM_COLOURS,
    MEMORY_HEIGHT,
    MEMORY_WIDTH,
    SMALL,
    pixel_axes,
    shade_course,
)

STYLES = ("solid", "dashed", "dotted", "dashdot")
"""By a GPU's place in the lane; from the fifth on they come again."""

NEAR_GATE = 4
"""Gates are drawn when free memory comes below this many times the warning."""


def gpu_memory(track: GpuTrack, name: str, all_tracks: Sequence[GpuTrack], gates: Gates) -> Markup:
    """Start-up on the left, from zero; the course on the right with its own scale; both shared by all launches."""
    with svg.drawing(MEMORY_WIDTH, MEMORY_HEIGHT) as figure:
        bottom, top = 40, MEMORY_HEIGHT - 8
        middle = MEMORY_WIDTH - 60 if track.ready_s is None else 150
        ready = track.end_s if track.ready_s is None else track.ready_s
        start = pixel_axes(figure, 48, bottom, middle, top)
        _draw(start, track, track.begin_s, ready)
        start.set_ylim(0, 1.05 * max(max(line.mib) for t in all_tracks for line in t.lines))
        start.set_xlabel("start-up, s", fontsize=SMALL)
        if track.ready_s is not None:
            course = pixel_axes(figure, middle + 14, bottom, MEMORY_WIDTH - 46, top)
            end = max([b.end_s for b in track.course] + [track.end_s])
            _draw(course, track, ready, end)
            low, high = course_range(all_tracks)
            _draw_gates(course, gates, low)
            floor = 0.0 if low < NEAR_GATE * gates.free_mib_warn else low
            span = max(high - floor, 0.02 * high, 1.0)
            course.set_ylim(max(0.0, floor - 0.15 * span), high + 0.9 * span)
            course.yaxis.tick_right()
            course.set_xlabel("course, s", fontsize=SMALL)
            shade_course(course, track.course, end - ready)
        return svg.rendered(figure, name, f"{track.launch.id}: free memory of each GPU over time, in MiB")


def _draw(axes: Axes, track: GpuTrack, begin_s: float, end_s: float) -> None:
    for line in track.lines:
        times, sizes = line.between(begin_s, end_s)
        axes.plot(
            times,
            sizes,
            color=ARM_COLOURS[track.launch.arm],
            linewidth=1.4,
            linestyle=STYLES[line.gpu % len(STYLES)],
            drawstyle="steps-post",  # a reading holds until the next one; nothing is known in between
        )
    axes.set_xlim(begin_s, max(end_s, begin_s + 1e-3))
    axes.grid(visible=False, axis="x")
    axes.locator_params(axis="y", nbins=5)
    axes.locator_params(axis="x", nbins=3 if axes.get_window_extent().width < MEMORY_WIDTH / 2 else 6)


def _draw_gates(axes: Axes, gates: Gates, low: float) -> None:
    if low >= NEAR_GATE * gates.free_mib_warn:
        return
    for mib, style in ((gates.free_mib_warn, (0, (4, 3))), (gates.free_mib_fail, (0, (1, 2)))):
        axes.axhline(mib, color=svg.UNEXPLAINED, linewidth=1.2, linestyle=style)
