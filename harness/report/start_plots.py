"""The picture of the start-ups: phases where they happened, and beside them what no phase explains."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup
from matplotlib.axes import Axes

from harness.report import svg
from harness.report.axes import ARM_COLOURS, SMALL, pixel_axes
from harness.report.starts import Start, phase_names

WIDTH, ROW, LEFT, BELOW = 900, 27, 212, 38
UNEXPLAINED_LEFT, MIDDLE = 770, 660
NUMBER_FITS_PX = 15
"""A phase narrower than its number stays without one; the order of the numbers tells it still."""


def start_up(found: Sequence[Start]) -> Markup:
    """One bar per launch, in run order; phases by number, gaps hatched; at the right all gaps together as one bar."""
    height = ROW * len(found) + BELOW
    numbers = {name: n for n, name in enumerate(phase_names(found))}
    notes: dict[str, tuple[str, str]] = {}
    with svg.drawing(WIDTH, height) as figure:
        axes = pixel_axes(figure, LEFT, BELOW, MIDDLE, height - 2)
        axes.set_xlim(0, max((s.stretches[-1].end_s for s in found if s.stretches), default=1.0) * 1.02)
        for row, start in enumerate(found):
            _draw(axes, row, start, numbers, notes)
        axes.set_yticks(range(len(found)), [s.launch.id for s in found], fontsize=SMALL)
        for label, start in zip(axes.get_yticklabels(), found, strict=True):
            label.set_color(ARM_COLOURS[start.launch.arm])
        axes.set_xlabel("seconds since the process was started", fontsize=SMALL)
        gaps = pixel_axes(figure, UNEXPLAINED_LEFT, BELOW, WIDTH - 60, height - 2)
        seconds = [sum(x.end_s - x.begin_s for x in s.stretches if x.name is None) for s in found]
        for row, (start, length) in enumerate(zip(found, seconds, strict=True)):
            gaps.broken_barh(
                [(0, length)], (row - 0.36, 0.72), facecolor="none", edgecolor=svg.UNEXPLAINED, hatch="////"
            )
            _beside(gaps, length, row, f"{start.unexplained} s")
        gaps.set_xlim(0, max([*seconds, 0.1]))
        gaps.set_yticks([])
        gaps.set_xlabel("unexplained, s", fontsize=SMALL)
        gaps.locator_params(axis="x", nbins=3)
        for each in (axes, gaps):
            each.set_ylim(len(found) - 0.5, -0.5)
            each.grid(visible=False, axis="y")
        told = "; ".join(f"{s.launch.id} {s.total} s, {s.unexplained} s of it unexplained" for s in found)
        return svg.rendered(figure, "start-up", "Start-up of each launch by phase, in seconds", notes, told=told)


def _draw(axes: Axes, row: int, start: Start, numbers: dict[str, int], notes: dict[str, tuple[str, str]]) -> None:
    pixels_per_s = axes.get_window_extent().width / axes.get_xlim()[1]
    for n, stretch in enumerate(start.stretches):
        gid, seconds = f"stretch-{row}-{n}", stretch.end_s - stretch.begin_s
        notes[gid] = ("stretch", f"{start.launch.id}: {stretch.name or 'unexplained'}, {seconds:.2f} s")
        axes.broken_barh(
            [(stretch.begin_s, seconds)],
            (row - 0.36, 0.72),
            facecolor=svg.PHASES[numbers[stretch.name] % len(svg.PHASES)] if stretch.name else "none",
            edgecolor="none" if stretch.name else svg.UNEXPLAINED,
            hatch=None if stretch.name else "////",
            linewidth=0 if stretch.name else 0.6,
            gid=gid,
        )
        if stretch.name and seconds * pixels_per_s >= NUMBER_FITS_PX:
            middle, number = (stretch.begin_s + stretch.end_s) / 2, numbers[stretch.name]
            axes.text(middle, row, str(number + 1), ha="center", va="center", fontsize=9.5, color=svg.on_phase(number))
    text = f"{start.total} s" if start.ready else f"{start.total} s, not ready"
    _beside(axes, start.stretches[-1].end_s if start.stretches else 0.0, row, text)


def _beside(axes: Axes, end: float, row: int, text: str) -> None:
    axes.annotate(text, (end, row), (5, 0), textcoords="offset points", va="center", fontsize=SMALL)
