"""Pictures of throughput: what is drawn, and how it is named."""

from __future__ import annotations

from harness.judge.case import Case
from harness.records import Verdict
from harness.report import rate_plots
from harness.report.speeds import panels
from tests.report.pictures import titles
from tests.report.writing import PASSES

Judged = tuple[Case, Verdict]


def test_points_are_passes_and_the_bar_is_their_median(sound: Judged) -> None:
    case, _ = sound
    prefill = panels(case)[0]
    picture = rate_plots.throughput(prefill, "p")
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


def test_wide_apart_rates_get_a_logarithmic_axis(sound: Judged) -> None:
    case, _ = sound
    panel = panels(case)[0]
    assert panel.fold < rate_plots.MANY_FOLD
    column = panel.columns[0]
    far = column.points[0].__class__(9, 1e9, None, "s")
    wide = panel.__class__("m", "u", "mtp1", 2048, (column.__class__(column.launch, (*column.points, far), 1.0),))
    assert wide.fold > rate_plots.MANY_FOLD
    assert "100,000,000" in rate_plots.throughput(wide, "p")
