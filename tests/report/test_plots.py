"""The pictures, as text: what is drawn, in the page's colours, the same each time."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from harness.judge.case import Case
from harness.records import Verdict
from harness.report import plots
from harness.report.memories import tracks
from harness.report.speeds import panels
from harness.report.starts import starts
from harness.words import Step
from tests.report.writing import PASSES

Judged = tuple[Case, Verdict]


def titles(picture: str, css_class: str) -> list[str]:
    """What a pointer would show over each mark of a class."""
    found = [g.findtext("title") for g in ET.fromstring(picture).iter("g") if g.get("class") == css_class]
    return [t for t in found if t]


def test_pictures_take_the_pages_colours_and_fonts(sound: Judged) -> None:
    case, _ = sound
    pictures = [plots.start_up(starts(case)), plots.throughput(panels(case)[0], "p")]
    pictures += [plots.memory(t, f"m{n}", tracks(case)) for n, t in enumerate(tracks(case))]
    for picture in pictures:
        assert set(re.findall(r"#[0-9a-f]{6}\b", picture)) <= {"#000000"}
        assert "var(--" in picture
        assert not re.search(r"font-family|<style|<metadata|<!--|xlink|xmlns", picture)
        root = ET.fromstring(picture)
        assert root.get("role") == "img"
        assert root.findtext("title")


def test_pictures_are_the_same_each_time(sound: Judged) -> None:
    case, _ = sound
    panel = panels(case)[0]
    assert plots.throughput(panel, "p") == plots.throughput(panel, "p")
    assert plots.start_up(starts(case)) == plots.start_up(starts(case))
    first, *_ = found = tracks(case)
    assert plots.memory(first, "m", found) == plots.memory(first, "m", found)


def test_points_are_passes_and_the_bar_is_their_median(sound: Judged) -> None:
    case, _ = sound
    prefill = panels(case)[0]
    picture = plots.throughput(prefill, "p")
    shown = titles(picture, "pass")
    # 2,048 tokens in 100, 110 and 120 ms.
    rates = ["20,480.00", "18,618.18", "17,066.67"]
    assert shown == [f"{c.launch.id}, pass {n}: {r} tok/s" for c in prefill.columns for n, r in enumerate(rates)]
    assert titles(picture, "median") == [f"{c.launch.id}, median: 18,618.18 tok/s" for c in prefill.columns]


def test_panels_are_one_per_metric_and_context(faulty: Judged) -> None:
    case, _ = faulty
    found = panels(case)
    assert [p.title for p in found] == [
        "mtp1: prefill 2K, tok/s",
        "mtp1: decode steps 2K, steps/s, id prompts",
        "mtp1: decode 2K, tok/s, id prompts",
    ]
    steps = found[1]
    assert [len(c.points) for c in steps.columns] == [PASSES, PASSES]
    assert [c.median for c in steps.columns] == [100.0, 50.0]
    assert [p.value is None for p in found[0].columns[0].points] == [False, True, False]
    assert found[0].columns[0].points[1].source.endswith("requests.jsonl request 0004")


def test_start_up_is_drawn_without_a_gap(sound: Judged) -> None:
    case, _ = sound
    found = starts(case)
    for start in found:
        assert start.stretches[0].begin_s == 0
        assert all(a.end_s == b.begin_s for a, b in zip(start.stretches, start.stretches[1:], strict=False))
        assert f"{start.stretches[-1].end_s:.2f}" == start.total
    assert len(titles(plots.start_up(found), "stretch")) == sum(len(s.stretches) for s in found)


def test_dead_launch_is_drawn_up_to_its_end(hostile: Judged) -> None:
    case, _ = hostile
    served, dead = starts(case)
    assert served.ready
    assert not dead.ready
    assert dead.total == "8.00"
    assert "8.00 s, not ready" in plots.start_up([served, dead])
    assert "course, s" not in plots.memory(tracks(case)[1], "m", tracks(case))


def test_memory_is_banded_by_the_course(sound: Judged) -> None:
    case, _ = sound
    track = tracks(case)[0]
    assert [b.step for b in track.course] == [Step.FIRST_PROMPT, Step.PREFILL, Step.DECODE, Step.IDENTITY]
    assert [b.label for b in track.course][:2] == ["first-prompt 2K", "prefill 2K"]
    assert track.mib[:3] == (100.0, 101.0, 102.0)
    picture = plots.memory(track, "m", tracks(case))
    used = set(re.findall(r"--band-(\d)", picture))
    assert used == {str(list(Step).index(b.step)) for b in track.course}


def test_wide_apart_rates_get_a_logarithmic_axis(sound: Judged) -> None:
    case, _ = sound
    panel = panels(case)[0]
    assert panel.fold < plots.MANY_FOLD
    column = panel.columns[0]
    far = column.points[0].__class__(9, 1e9, None, "s")
    wide = panel.__class__("m", "u", "mtp1", 2048, (column.__class__(column.launch, (*column.points, far), 1.0),))
    assert wide.fold > plots.MANY_FOLD
    assert "100,000,000" in plots.throughput(wide, "p")
