"""The picture of GPU memory: a line per GPU, the course behind it, gates where they are near."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.config.model import Gates
from harness.judge.case import Case, read_case
from harness.judge.verdict import judge_case
from harness.report.gpu_memories import course_range, gpu_tracks
from harness.report.gpu_plots import gpu_memory
from harness.report.html import page
from harness.words import Arm, Step
from tests.judge.bundles import Session
from tests.judge.gpus import Seen, seen_case

LOW: Mapping[str, float] = {"before": 9_900, "idle": 1_000, "long": 300, "after long": 850, "end": 850}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    seen = Seen(uuids=("GPU-0", "GPU-1"))
    low = Seen(uuids=("GPU-0", "GPU-1"), free=LOW)
    return seen_case(tmp_path, lambda arm, _: low if arm is Arm.CANDIDATE else seen)


def test_every_launch_has_a_track_with_a_line_per_gpu(case: Case) -> None:
    tracks = gpu_tracks(case)
    assert [t.launch.id for t in tracks] == [x.id for x in sorted(case.plan.launches, key=lambda x: x.ordinal)]
    assert [[line.gpu for line in t.lines] for t in tracks] == [[0, 1], [0, 1]]
    assert tracks[0].begin_s < 0, "the first sample is of before the start"
    assert tracks[0].stop_s == tracks[0].end_s
    assert {b.step for b in tracks[0].course} == {Step.FIRST_PROMPT, Step.PREFILL, Step.DECODE, Step.IDENTITY}
    assert course_range(tracks) == (300, 1_000)


def test_a_dip_of_one_sample_is_not_thinned_away(case: Case) -> None:
    track = next(t for t in gpu_tracks(case) if t.launch.arm is Arm.CANDIDATE)
    assert 300 in track.lines[0].between(0, track.end_s)[1]


def test_the_picture_is_the_same_each_time_and_names_what_it_shows(case: Case) -> None:
    first, *_ = found = gpu_tracks(case)
    picture = gpu_memory(first, "gpu-0", found, Gates())
    assert picture == gpu_memory(first, "gpu-0", found, Gates())
    root = ET.fromstring(picture)
    assert root.findtext("title") == f"{first.launch.id}: free memory of each GPU over time, in MiB"
    assert set(re.findall(r"#[0-9a-f]{6}\b", picture)) <= {"#000000"}
    assert picture.count("stroke-dasharray") >= 2, "the second GPU's line, and the gates"


def test_gates_are_drawn_only_where_memory_comes_near_them(case: Case) -> None:
    first, *_ = found = gpu_tracks(case)
    near = gpu_memory(first, "g", found, Gates())
    far = gpu_memory(first, "g", found, Gates(free_mib_warn=20, free_mib_fail=10))
    assert "var(--unexplained)" in near
    assert "var(--unexplained)" not in far


def test_the_page_shows_gpu_memory_first_and_says_which_line_is_which(case: Case) -> None:
    text = page(case, judge_case(case))
    assert text.index("Free GPU memory over time") < text.index("Host memory over time")
    assert "GPUs of the lane in order: solid, dashed." in text
    assert "512 MiB (warn, dashed) and 256 MiB (fail, dotted)" in text


def test_a_session_on_the_cpu_has_no_such_picture(tmp_path: Path) -> None:
    case = read_case(Session(tmp_path).build())
    assert gpu_tracks(case) == []
    assert "Free GPU memory" not in page(case, judge_case(case))
