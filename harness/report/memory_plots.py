"""Pictures of memory over time: phases shaded, late kernels marked, one strip per rank where there are several."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup
from matplotlib.axes import Axes

from harness.config.limits import Gates
from harness.report import svg
from harness.report.axes import ARM_COLOURS, ARM_LINES, LETTER_PX, SMALL, labelled, pixel_axes, shade_course
from harness.report.memories import Track

WIDTH, ONE, STRIP, BELOW, ABOVE = 480, 165, 74, 40, 12
"""Of a strip alone, and of one among several; below is the axis of time, above are the marks of late kernels."""

LEFT, MIDDLE, GAP, RIGHT = 52, 150, 14, 62

LINE_PX = 12
"""Figures beside a strip that are closer than this would touch."""
NEAR_GATE = 4
"""Gates are drawn where free memory comes below this many times the warning."""

HEADROOM = 0.12
"""Share of a strip that stays empty below and above its lines."""


def memory(track: Track, name: str, all_tracks: Sequence[Track], gates: Gates | None = None) -> Markup:
    """Start-up on the left, from zero; the course on the right with its own scale; both shared by all launches."""
    top = BELOW + (ONE if len(track.lines) == 1 else STRIP) * len(track.lines)
    notes: dict[str, tuple[str, str]] = {}
    with svg.drawing(WIDTH, top + ABOVE + _labels_px(all_tracks)) as figure:
        ready = track.end_s if track.ready_s is None else track.ready_s
        middle = WIDTH - RIGHT - GAP if track.ready_s is None else MIDDLE
        start = pixel_axes(figure, LEFT, BELOW, middle, top)
        _draw(start, track, (track.begin_s, ready), (0.0, max(max(line.mib) for t in all_tracks for line in t.lines)))
        start.set_xlabel("start-up, s", fontsize=SMALL)
        _draw_late(start, track, notes)
        if track.ready_s is not None:
            course = pixel_axes(figure, middle + GAP, BELOW, WIDTH - RIGHT, top)
            low, high = course_range(all_tracks)
            near = gates is not None and low < NEAR_GATE * gates.free_mib_warn
            scale = (0.0 if near else low, high)
            place = _draw(course, track, (ready, track.course_end_s), scale)
            course.yaxis.tick_right()
            course.set_xlabel("course, s", fontsize=SMALL)
            shade_course(course, track.course, track.course_end_s - ready, ABOVE)
            if gates is not None and near:
                _draw_gates(course, track, gates, place)
            _draw_extremes(course, track, place, notes)
            _draw_late(course, track, notes)
        title = f"{track.launch.id}: {track.measure} over time, in MiB"
        return svg.rendered(figure, name, title, notes, told=told(track))


def course_range(all_tracks: Sequence[Track]) -> tuple[float, float]:
    """Lowest and highest sample of any course, in MiB."""
    sizes = [
        m
        for t in all_tracks
        if t.ready_s is not None
        for line in t.lines
        for s, m in zip(line.times_s, line.mib, strict=True)
        if t.ready_s <= s <= t.end_s
    ]
    return min(sizes, default=0.0), max(sizes, default=1.0)


def told(track: Track) -> str:
    """The picture's figures in words."""
    extremes = [(line, track.extreme(line)) for line in track.lines]
    word = "lowest" if track.free else "highest"
    figures = "; ".join(f"{line.name} {word} {e[1]:,.0f} MiB at {e[0]:.1f} s" for line, e in extremes if e is not None)
    late = f"; {len(track.late)} late kernels" if track.late else ""
    return f"{figures or 'it was never ready'}{late}"


def _labels_px(all_tracks: Sequence[Track]) -> int:
    """Room for the names of steps: the same for all launches, whose pictures stand beside each other."""
    width = WIDTH - RIGHT - MIDDLE - GAP
    named = [
        band
        for t in all_tracks
        if t.ready_s is not None
        for band in labelled(t.course, t.course_end_s - t.ready_s, width)
    ]
    return math.ceil(LETTER_PX * max((len(band.label) for band in named), default=0))


Place = Callable[[int, float], float]
"""Strip and MiB -> place on the axis, one unit per strip, the first on top."""


def _draw(axes: Axes, track: Track, span: tuple[float, float], scale: tuple[float, float]) -> Place:
    begin, end = span
    low, high = scale
    size = max(high - low, 0.02 * high, 1.0)
    count = len(track.lines)

    def place(strip: int, mib: float) -> float:
        return count - 1 - strip + HEADROOM + (1 - 2 * HEADROOM) * (mib - low) / size

    for n, line in enumerate(track.lines):
        times, sizes = line.between(begin, end)
        axes.plot(
            times,
            [place(n, m) for m in sizes],
            color=ARM_COLOURS[track.launch.arm],
            linewidth=1.4,
            linestyle=ARM_LINES[track.launch.arm],
            drawstyle="steps-post" if track.free else "default",  # nothing is known between two readings
        )
        if n:
            axes.axhline(count - n, color=svg.GRID, linewidth=1)
        if count > 1 and begin == track.begin_s:
            axes.text(begin, place(n, low) + 0.04, f" {line.name}", va="bottom", fontsize=9.5)
    ticks = [(n, m) for n in range(count) for m in (low, low + size)]
    axes.set_yticks([place(n, m) for n, m in ticks], [f"{m:,.0f}" for _, m in ticks])
    axes.set_ylim(0, count)
    axes.set_xlim(begin, max(end, begin + 1e-3))
    axes.grid(visible=False, axis="x")
    axes.locator_params(axis="x", nbins=3 if axes.get_window_extent().width < WIDTH / 2 else 6)
    return place


def _draw_gates(axes: Axes, track: Track, gates: Gates, place: Place) -> None:
    for n in range(len(track.lines)):
        for mib, style in ((gates.free_mib_warn, (0, (4, 3))), (gates.free_mib_fail, (0, (1, 2)))):
            axes.axhline(place(n, mib), color=svg.UNEXPLAINED, linewidth=1, linestyle=style)


def _draw_extremes(axes: Axes, track: Track, place: Place, notes: dict[str, tuple[str, str]]) -> None:
    """The lowest free, or the highest used, marked on each strip; its figure is beside the axis, where no line runs."""
    mark, shape = ("▼", "v") if track.free else ("▲", "^")
    per_px = len(track.lines) / axes.get_window_extent().height
    ticks = dict(zip(axes.get_yticks(), [label.get_text() for label in axes.get_yticklabels()], strict=True))
    for n, line in enumerate(track.lines):
        if (found := track.extreme(line)) is None:
            continue
        time_s, mib = found
        gid, at = f"extreme-{n}", place(n, mib)
        notes[gid] = ("extreme", f"{line.name}: {mib:,.0f} MiB at {time_s:.2f} s")
        axes.plot(time_s, at, shape, color=svg.INK, markersize=6, gid=gid)
        nearest = min(ticks, key=lambda tick: abs(tick - at))
        if ticks[nearest] == f"{mib:,.0f}":
            del ticks[nearest]  # it would say the same
        elif abs(nearest - at) < LINE_PX * per_px:
            at = nearest + math.copysign(LINE_PX * per_px, at - nearest)
        axes.annotate(
            f"{mark} {mib:,.0f}", (1, at), (3.5, 0), xycoords=axes.get_yaxis_transform(),
            textcoords="offset points", va="center", fontsize=SMALL,
        )  # fmt: skip
    axes.set_yticks(list(ticks), list(ticks.values()))


def _draw_late(axes: Axes, track: Track, notes: dict[str, tuple[str, str]]) -> None:
    """A line through all strips at every late kernel of the axes' time, with a mark above it."""
    begin, end = axes.get_xlim()
    for n, mark in enumerate(track.late):
        if begin < mark.time_s <= end:
            gid = f"late-{n}"
            notes[gid] = ("late", f"late: {mark.kernel}, {mark.source}, {mark.time_s:.2f} s")
            axes.axvline(mark.time_s, color=svg.LATE, linewidth=1, linestyle=(0, (2, 2)))
            axes.plot(
                mark.time_s, 1.0, "v", color=svg.LATE, markersize=7, clip_on=False, gid=gid,
                transform=axes.get_xaxis_transform(),
            )  # fmt: skip
