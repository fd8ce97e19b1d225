"""Pictures of memory: the course behind it, a strip per rank, the lowest and late kernels marked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.config.limits import Gates
from harness.judge.case import Case, read_case
from harness.judge.verdict import judge_case
from harness.records import Verdict
from harness.report.axes import LETTER_PX
from harness.report.html import page
from harness.report.late_marks import LateMark
from harness.report.memories import Band, gpu_tracks, tracks
from harness.report.memory_plots import ABOVE, BELOW, LINE_PX, RIGHT, STRIP, WIDTH, course_range, memory
from harness.report.rank_figures import rank_figures
from harness.words import Arm, Step
from tests.judge.bundles import Session
from tests.judge.gpus import Seen, seen_case
from tests.report.pictures import check, places, titles

Judged = tuple[Case, Verdict]

LOW: Mapping[str, float] = {"before": 9_900, "idle": 1_000, "long": 300, "after long": 850, "end": 850}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Two GPUs per launch; in the candidate both fall to 300 MiB."""
    seen = Seen(uuids=("GPU-0", "GPU-1"))
    low = Seen(uuids=("GPU-0", "GPU-1"), free=LOW)
    return seen_case(tmp_path, lambda arm, _: low if arm is Arm.CANDIDATE else seen)


class TestGpus:
    def test_every_launch_has_a_track_with_a_line_per_gpu(self, case: Case) -> None:
        found = gpu_tracks(case)
        assert [t.launch.id for t in found] == [x.id for x in sorted(case.plan.launches, key=lambda x: x.ordinal)]
        assert [[line.name for line in t.lines] for t in found] == [["GPU 0", "GPU 1"], ["GPU 0", "GPU 1"]]
        assert found[0].begin_s < 0, "the first sample is of before the start"
        assert found[0].stop_s == found[0].end_s
        assert {b.step for b in found[0].course} == {Step.FIRST_PROMPT, Step.PREFILL, Step.DECODE, Step.IDENTITY}
        assert course_range(found) == (300, 1_000)

    def test_a_dip_of_one_sample_is_not_thinned_away(self, case: Case) -> None:
        track = next(t for t in gpu_tracks(case) if t.launch.arm is Arm.CANDIDATE)
        assert 300 in track.lines[0].between(0, track.end_s)[1]

    def test_a_dip_of_one_rank_is_marked_on_its_own_strip(self, case: Case) -> None:
        found = gpu_tracks(case)
        low = next(t for t in found if t.launch.arm is Arm.CANDIDATE)
        even = next(t for t in found if t.launch.arm is Arm.CONTROL)
        uneven = replace(low, lines=(even.lines[0], low.lines[1]))
        first, second = titles(memory(uneven, "g", found, Gates()), "extreme")
        assert first.startswith("GPU 0: 900 MiB at ")
        assert second.startswith("GPU 1: 300 MiB at ")

    def test_the_picture_is_the_same_each_time_and_says_its_figures(self, case: Case) -> None:
        found = gpu_tracks(case)
        low = next(t for t in found if t.launch.arm is Arm.CANDIDATE)
        picture = memory(low, "gpu-0", found, Gates())
        assert picture == memory(low, "gpu-0", found, Gates())
        root = check(picture)
        assert root.findtext("title") == f"{low.launch.id}: free memory of each GPU over time, in MiB"
        assert "GPU 0 lowest 300 MiB at " in (root.findtext("desc") or "")
        assert "stroke-dasharray" in picture, "the candidate's lines are dashed"

    def test_names_of_steps_stand_above_the_lines_and_inside_the_picture(self, case: Case) -> None:
        first, *_ = found = gpu_tracks(case)
        assert first.ready_s is not None
        assert len(first.lines) == 2, "strips that are lower than a name is long"
        wide = Band(Step.REQUEST_KINDS, "request-kinds", first.ready_s, first.end_s)
        long = replace(first, bands=(wide,))
        root = check(picture := memory(long, "g", [long, *found], Gates()))
        ((_, foot),) = places(picture)["request-kinds"]
        top = float(root.attrib["viewBox"].split()[3]) - BELOW - 2 * STRIP
        assert len(wide.label) * LETTER_PX <= foot <= top - ABOVE + 2, "its lower end, above the marks of late kernels"

    def test_pictures_are_equally_high_whatever_names_they_have(self, case: Case) -> None:
        first, second, *_ = gpu_tracks(case)
        assert first.ready_s is not None
        plain = replace(first, bands=())
        named = replace(second, bands=(Band(Step.IDENTITY, "identity", second.ready_s or 0, second.end_s),))
        heights = {check(memory(t, "g", [plain, named], Gates())).attrib["viewBox"] for t in (plain, named)}
        assert len(heights) == 1
        alone = check(memory(plain, "g", [plain], Gates())).attrib["viewBox"]
        assert float(alone.split()[3]) == BELOW + 2 * STRIP + ABOVE

    def test_the_figure_of_the_lowest_stands_beside_the_axis(self, case: Case) -> None:
        found = gpu_tracks(case)
        low = next(t for t in found if t.launch.arm is Arm.CANDIDATE)
        even = next(t for t in found if t.launch.arm is Arm.CONTROL)
        told = places(memory(replace(low, lines=(even.lines[0], low.lines[1])), "g", found))
        ((first, _), (second, _)) = *told["▼ 900"], *told["▼ 300"]
        assert first == second > WIDTH - RIGHT

    def test_of_a_lowest_that_is_the_scales_end_one_figure_is_enough(self, case: Case) -> None:
        found = gpu_tracks(case)
        low = next(t for t in found if t.launch.arm is Arm.CANDIDATE)
        told = places(memory(low, "g", found))
        assert len(told["▼ 300"]) == 2, "both GPUs"
        assert "300" not in told

    def test_a_lowest_close_to_the_scales_end_does_not_touch_its_figure(self, case: Case) -> None:
        found = gpu_tracks(case)
        even = next(t for t in found if t.launch.arm is Arm.CONTROL)
        close = replace(even.lines[0], mib=tuple(303.0 if m == 900 else m for m in even.lines[0].mib))
        told = places(memory(replace(even, lines=(close, even.lines[1])), "g", found))
        ((_, at),) = told["▼ 303"]
        assert min(abs(at - end) for _, end in told["300"]) >= LINE_PX - 0.1

    def test_gates_are_drawn_only_where_memory_comes_near_them(self, case: Case) -> None:
        first, *_ = found = gpu_tracks(case)
        near = memory(first, "g", found, Gates())
        far = memory(first, "g", found, Gates(free_mib_warn=20, free_mib_fail=10))
        assert "var(--unexplained)" in near
        assert "var(--unexplained)" not in far

    def test_a_late_kernel_is_marked_where_it_came(self, case: Case) -> None:
        first, *_ = found = gpu_tracks(case)
        assert first.ready_s is not None
        late = (LateMark(first.ready_s - 1, "tracer", "_s"), LateMark(first.ready_s + 0.5, "monitor", "_k<b>"))
        marked = memory(replace(first, late=late), "g", found, Gates())
        told = [f"late: {m.kernel}, {m.source}, {m.time_s:.2f} s" for m in late]
        assert titles(marked, "late") == told, "one in the start-up, one in the course"
        assert "2 late kernels" in (check(marked).findtext("desc") or "")
        assert not titles(memory(replace(first, late=()), "g", found, Gates()), "late")

    def test_ranks_have_their_least_and_their_spread(self, case: Case) -> None:
        found = rank_figures(case)
        low = next(r for r in found if r.launch.arm is Arm.CANDIDATE)
        assert (low.ranks, low.lowest("lowest"), low.spread("lowest"), low.worst("lowest")) == (2, 300, 0, None)
        apart = replace(low, phases={"lowest": (850.0, 300.0, None)})
        assert (apart.lowest("lowest"), apart.spread("lowest"), apart.worst("lowest")) == (300, 550, 1)
        unknown = replace(low, phases={"lowest": (None, None)})
        assert (unknown.lowest("lowest"), unknown.spread("lowest"), unknown.worst("lowest")) == (None, None, None)

    def test_the_page_shows_the_gpus_and_says_what_a_strip_is(self, case: Case) -> None:
        text = page(case, judge_case(case))
        assert "Free GPU memory over time" in text
        assert "Host memory over time" not in text, "its rows say enough"
        assert "One strip per GPU, in the lane's order" in text
        assert "512 MiB (warn, dashed) and 256 MiB (fail, dotted)" in text

    def test_a_session_on_the_cpu_has_no_such_picture(self, tmp_path: Path) -> None:
        case = read_case(Session(tmp_path).build())
        assert gpu_tracks(case) == []
        assert "Free GPU memory" not in page(case, judge_case(case))


class TestHost:
    def test_memory_is_banded_by_the_course(self, sound: Judged) -> None:
        case, _ = sound
        track = tracks(case)[0]
        assert [b.step for b in track.course] == [Step.FIRST_PROMPT, Step.PREFILL, Step.DECODE, Step.IDENTITY]
        assert [b.label for b in track.course][:2] == ["first-prompt 2K", "prefill 2K"]
        assert track.lines[0].mib[:3] == (100.0, 101.0, 102.0)
        picture = memory(track, "m", tracks(case))
        used = set(re.findall(r"--band-(\d)", picture))
        assert used == {str(list(Step).index(b.step)) for b in track.course}

    def test_of_used_memory_the_highest_is_marked(self, sound: Judged) -> None:
        case, _ = sound
        track = tracks(case)[0]
        highest = track.extreme(track.lines[0])
        assert highest is not None
        assert highest[1] == max(
            m for t, m in zip(track.lines[0].times_s, track.lines[0].mib, strict=True) if t <= track.end_s
        )
        assert titles(memory(track, "m", tracks(case)), "extreme") == [
            f"host: {highest[1]:,.0f} MiB at {highest[0]:.2f} s"
        ]

    def test_a_launch_that_was_never_ready_has_no_course(self, hostile: Judged) -> None:
        case, _ = hostile
        dead = tracks(case)[1]
        picture = memory(dead, "m", tracks(case))
        assert "course, s" not in picture
        assert not titles(picture, "extreme")
        assert dead.extreme(dead.lines[0]) is None
