"""The thermal gate's row: how fast the temperature still changed when a lane's last burn-in was over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge.case import Case
from harness.judge.verdict import judge_case
from harness.observe.gpu.nvml import Field
from harness.words import Step, Word

from .bundles import Judged, Session
from .gpus import watched

GATE = "thermal gate"
BURN_IN: dict[str, object] = {"host.gpus": 1, "plan.burn_in": 1}
STEADY, RISING, FALLING = (60, 60, 60, 60), (54, 56, 58, 60), (66, 64, 62, 60)
"""Degrees Celsius, one reading each 20 s."""


def warmed(root: Path, *gpus: Sequence[int], **seen: object) -> Case:
    """A session whose burn-in ended at these temperatures, by GPU."""
    session = Session(root, BURN_IN).both(where={"pair": -1}, course=(Step.FIRST_PROMPT, Step.SETTLING))
    fields = {"uuids": tuple(f"GPU-{n}" for n in range(len(gpus))), **seen}
    case = watched(session, lambda _, found: replace(found, **fields))  # type: ignore[arg-type]
    [burn_in] = [case.launches[x.id] for x in case.plan.launches if x.burn_in]
    end = max(m.mono_ns for m in burn_in.marks if m.step is Step.SETTLING)
    readings = {}
    for (uuid, found), degrees in zip(burn_in.gpu.gpus.items(), gpus, strict=True):
        times = [end - 20_000_000_000 * n for n in reversed(range(len(degrees)))]
        temperature = tuple(zip(times, degrees, strict=True))
        # What comes after the gate is another load, and none of its business.
        after = ((end + 1, 90),)
        readings[uuid] = replace(found, states={**found.states, Field.TEMPERATURE_C: (*temperature, *after)})
    burn_in.__dict__["gpu"] = replace(burn_in.gpu, gpus=readings)
    return case


def judged(root: Path, *gpus: Sequence[int], **seen: object) -> Judged:
    return Judged(judge_case(warmed(root, *gpus, **seen)))


def test_a_temperature_that_stands_still_passes_with_its_slope(tmp_path: Path) -> None:
    row = judged(tmp_path, STEADY).row(GATE)
    assert (row.word, row.control, row.unit) == (Word.PASS, "+0.0 °C/min at 60 °C", "lane 0")
    assert row.sources == ("launches/001-control-mtp1-burn-in/gpu.parquet temperature_c",)


@pytest.mark.parametrize(("degrees", "slope"), [(RISING, "+6.0"), (FALLING, "-6.0")], ids=["rising", "falling"])
def test_one_that_still_changes_is_a_warning_and_costs_no_verdict(
    tmp_path: Path, degrees: Sequence[int], slope: str
) -> None:
    found = judged(tmp_path, degrees)
    row = found.row(GATE)
    assert (row.word, row.control) == (Word.WARN, f"{slope} °C/min at 60 °C")
    assert "the gate is below 1 °C/min over 60 s; the order of the pairs cancels a steady drift" in row.reason
    assert found.verdict.verdict is Word.PASS, found.words()


def test_the_gpu_that_changes_fastest_counts(tmp_path: Path) -> None:
    row = judged(tmp_path, STEADY, FALLING).row(GATE)
    assert (row.word, row.control) == (Word.WARN, "-6.0 °C/min at 60 °C, 60 °C")


def test_a_slope_that_nobody_could_take_is_not_guessed(tmp_path: Path) -> None:
    few = judged(tmp_path / "few", STEADY[:2]).row(GATE)
    assert (few.word, few.control, few.reason) == (Word.NOT_TESTED, None, "too few readings of the temperature")
    error = {str(Field.TEMPERATURE_C): "NVML_ERROR_NOT_SUPPORTED"}
    none = judged(tmp_path / "none", (), unreadable=error).row(GATE)
    assert (none.word, none.control) == (Word.NOT_TESTED, None)
    assert none.reason == "temperature_c of GPU-0: NVML_ERROR_NOT_SUPPORTED"


def test_a_burn_in_that_did_not_come_to_it_shows_nothing(tmp_path: Path) -> None:
    row = Judged(judge_case(watched(Session(tmp_path, BURN_IN), lambda _, seen: seen))).row(GATE)
    assert row.word is Word.NOT_TESTED
    assert row.reason == "001-control-mtp1-burn-in did not come to it"


def test_without_a_burn_in_nothing_is_shown(tmp_path: Path) -> None:
    row = Judged(judge_case(watched(Session(tmp_path, {"host.gpus": 1}), lambda _, seen: seen))).row(GATE)
    assert row.word is Word.NOT_TESTED
    assert "no burn-in launch is planned" in row.reason


def test_cpus_have_no_such_row(tmp_path: Path) -> None:
    assert not Session(tmp_path, {"plan.burn_in": 1}).judge().rows(GATE)
