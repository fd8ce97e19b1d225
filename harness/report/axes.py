"""What all pictures share: axes placed by pixels, and how an arm and a step of the course look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report import svg
from harness.report.memories import Band
from harness.words import Arm, Step

SMALL = 10.5
ARM_COLOURS = {Arm.CONTROL: svg.CONTROL, Arm.CANDIDATE: svg.CANDIDATE}
ARM_MARKERS = {Arm.CONTROL: "o", Arm.CANDIDATE: "s"}
"""An arm is never told by its colour alone."""

ARM_LINES: dict[Arm, Any] = {Arm.CONTROL: "solid", Arm.CANDIDATE: (0, (5, 1.2))}
STEP_BANDS = dict(zip(Step, svg.BANDS, strict=False))
LABEL_FITS_PX = 13
"""A band narrower than a line of its upright label stays without one; the legend names it by its colour."""
LETTER_PX = 5.8
"""Height of a letter of such a label, on the average of the widest of them."""


def pixel_axes(figure: Figure, left: float, bottom: float, right: float, top: float) -> Axes:
    """Axes between these pixels of the figure, counted from its lower left corner."""
    width, height = (figure.get_size_inches() * svg.PIXELS_PER_INCH).tolist()
    axes = figure.add_axes((left / width, bottom / height, (right - left) / width, (top - bottom) / height))
    axes.tick_params(labelsize=SMALL)
    axes.yaxis.set_major_formatter(plain)
    return axes


def plain(value: float, place: float) -> str:
    """A tick's label: 12,000 and not 1.2e4."""
    del place
    return f"{value:,.10g}"


def labelled(course: Sequence[Band], seconds: float, width_px: float) -> list[Band]:
    """Those steps of a course that are wide enough for their label, on axes of so many pixels."""
    pixels_per_s = width_px / max(seconds, 1e-3)
    return [b for b in course if (b.end_s - b.begin_s) * pixels_per_s >= LABEL_FITS_PX]


def shade_course(axes: Axes, course: Sequence[Band], seconds: float, above_px: float) -> None:
    """Steps of the course as bands behind the lines; their names so far above the axes, where no line runs."""
    for band in course:
        axes.axvspan(band.begin_s, band.end_s, facecolor=STEP_BANDS[band.step], linewidth=0, zorder=0.1)
    for band in labelled(course, seconds, axes.get_window_extent().width):
        axes.annotate(
            band.label, ((band.begin_s + band.end_s) / 2, 1), (0, above_px), xycoords=axes.get_xaxis_transform(),
            textcoords="offset points", rotation=90, ha="center", va="bottom", fontsize=9.5, color=svg.FAINT,
        )  # fmt: skip
