"""What the judge makes of the GPUs: gates, what voids, what fails, and what nobody can tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge.rows.gpu_memory import kept_mib, lowest_mib
from harness.judge.samples import GpuReadings
from harness.judge.verdict import judge_case
from harness.observe.gpu.nvml import Reason
from harness.observe.memory import Series
from harness.records import GpuProcess, GpuSampling
from harness.words import Arm, Word

from .bundles import Session
from .gpus import GOOD, OWN, judged, only, row, seen_case

CONTROL, CANDIDATE = Arm.CONTROL, Arm.CANDIDATE
TRAINER = GpuProcess(pid=50, name="train.py", owner="foreign", compute=True, used_bytes=300 << 20)
SOMEBODY = GpuProcess(pid=51, name=None, owner="unknown", compute=True, used_bytes=None)
XORG = GpuProcess(pid=9, name="Xorg", owner="foreign", compute=False, used_bytes=200 << 20)
BIG_XORG = XORG.model_copy(update={"used_bytes": 400 << 20})
GPU_ROWS = (
    "GPU sampling",
    "foreign GPU processes",
    "GPU throttling",
    "GPU power limits",
    "GPU errors",
    "GPU memory back after exit",
    "lowest free",
    "clocks kept pace",
)


def test_equal_arms_on_a_free_gpu_pass_every_row(tmp_path: Path) -> None:
    verdict = judged(tmp_path)
    assert {name: row(verdict, name).word for name in GPU_ROWS} == dict.fromkeys(GPU_ROWS, Word.PASS)
    assert verdict.verdict is Word.PASS


def test_a_session_on_the_cpu_has_no_row_about_gpus(tmp_path: Path) -> None:
    names = {r.name for r in Session(tmp_path).judge().verdict.rows}
    assert not names & {*GPU_ROWS, "residency"} - {"clocks kept pace"}


# --- the gate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mib", "word", "whole"),
    [
        (512.0, Word.PASS, Word.PASS),
        (511.9, Word.WARN, Word.PASS),
        (256.0, Word.WARN, Word.PASS),
        (255.9, Word.FAIL, Word.FAIL),
    ],
)
def test_the_gate_of_the_lowest_free_memory(tmp_path: Path, mib: float, word: Word, whole: Word) -> None:
    free = {"before": 9_900.0, "idle": 1_000.0, "long": mib, "end": 950.0}
    verdict = judged(tmp_path, only(CANDIDATE, free=free))
    found = row(verdict, "lowest free")
    assert (found.word, verdict.verdict) == (word, whole)
    assert "first-prompt 96" in found.reason
    assert "read every 50 ms, at worst 51 ms" in found.reason


def test_the_worst_rank_decides(tmp_path: Path) -> None:
    case = seen_case(tmp_path, lambda _, seen: replace(seen, uuids=("GPU-0", "GPU-1")))
    for launch in case.launches.values():
        one = launch.gpu.gpus["GPU-1"]
        less = replace(one, free=Series(one.free.times_ns, tuple(mib - 700 for mib in one.free.mib)))
        launch.__dict__["gpu"] = replace(launch.gpu, gpus={**launch.gpu.gpus, "GPU-1": less})
        assert lowest_mib(launch) == 200
    found = row(judge_case(case), "lowest free")
    assert (found.word, found.candidate) == (Word.FAIL, "200 (200-900)")
    assert found.reason.startswith("below 256 MiB: 200 MiB")


def test_the_controls_low_memory_is_shown_and_fails_nobody(tmp_path: Path) -> None:
    verdict = judged(tmp_path, only(CONTROL, free={"before": 9_900.0, "idle": 1_000.0, "long": 10.0}))
    assert (row(verdict, "lowest free").word, row(verdict, "lowest free").control) == (Word.PASS, "10")


def test_a_gpu_without_a_sample_leaves_the_gate_open(tmp_path: Path) -> None:
    unread = only(CANDIDATE, free={}, unreadable={"memory": "NO_PERMISSION"})
    found = row(judged(tmp_path, unread), "lowest free")
    assert (found.word, found.candidate) == (Word.NOT_TESTED, None)
    assert "NO_PERMISSION" in found.reason


def test_what_a_prompt_took_and_kept_can_be_asked_for_by_others(tmp_path: Path) -> None:
    free = {"before": 9_900.0, "idle": 1_000.0, "long": 400.0, "after long": 850.0, "end": 850.0}
    case = seen_case(tmp_path, only(CANDIDATE, free=free))
    [cell] = case.cells
    assert (kept_mib(cell.candidate[0], 96), lowest_mib(cell.candidate[0])) == (150.0, 400.0)
    assert kept_mib(cell.candidate[0], 4096) is None


@pytest.mark.parametrize(
    ("control", "candidate", "word"),
    [(950.0, 930.0, Word.PASS), (950.0, 880.0, Word.WARN), (1_100.0, 1_000.0, Word.PASS), (880.0, 1_000.0, Word.PASS)],
    ids=["a little more", "more", "given back by the control alone", "less"],
)
def test_what_a_first_prompt_keeps_beyond_the_controls_is_a_warning(
    tmp_path: Path, control: float, candidate: float, word: Word
) -> None:
    after = {CONTROL: control, CANDIDATE: candidate}
    case = seen_case(tmp_path, lambda arm, seen: replace(seen, free={**seen.free, "after long": after[arm]}))
    assert row(judge_case(case), "memory kept by first prompt", context_tokens=96).word is word


def test_arms_of_unlike_gpus_are_not_held_against_each_other(tmp_path: Path) -> None:
    case = seen_case(tmp_path, lambda _, seen: replace(seen, uuids=("GPU-0", "GPU-1")))
    launch = case.cells[0].candidate[0]
    assert launch.gpu.watch is not None
    one = launch.gpu.watch.model_copy(update={"facts": launch.gpu.watch.facts[:1]})
    launch.__dict__["gpu"] = replace(launch.gpu, watch=one, gpus={"GPU-0": launch.gpu.gpus["GPU-0"]})
    assert row(judge_case(case), "memory kept by first prompt", context_tokens=96).word is Word.NOT_TESTED


# --- void ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arm", Arm)
@pytest.mark.parametrize(
    ("fields", "name", "told"),
    [
        ({"processes": ((), (OWN, TRAINER))}, "foreign GPU processes", "train.py (pid 50, 300 MiB)"),
        ({"processes": ((), (SOMEBODY,), (OWN, SOMEBODY))}, "foreign GPU processes", "pid namespace (pid 51)"),
        ({"reasons": (0, Reason.HW_THERMAL, 0)}, "GPU throttling", "(hw thermal) in 1 of 3 readings"),
        ({"reasons": (Reason.SW_THERMAL | Reason.POWER_CAP,)}, "GPU throttling", "(sw thermal) in 1 of 1"),
        ({"reasons": (Reason.HW_POWER_BRAKE,)}, "GPU throttling", "(hw power brake)"),
        ({"reasons": (Reason.HW_SLOWDOWN,)}, "GPU throttling", "(hw slowdown)"),
        ({"power_mw": (250_000,)}, "GPU power limits", "unequal power limits: control"),
        ({"power_mw": (300_000, 250_000)}, "GPU power limits", "250 W"),
        ({"wall_jump_s": 5.0}, "clocks kept pace", "wall clock went +5.0 s against the monotonic one (gpu.parquet)"),
        ({"sampling": None, "fault": "it ended with code -9"}, "GPU sampling", "it ended with code -9"),
        ({"sampling": None}, "GPU sampling", "no sampler ran to the end"),
        ({"sampling": GOOD.model_copy(update={"worst_gap_ms": 6_000.0})}, "GPU sampling", "6.0 s between two readings"),
    ],
    ids=[
        "foreign",
        "unknown beside own",
        "hw thermal",
        "sw thermal",
        "power brake",
        "slowdown",
        "limits",
        "limit changed",
        "clock",
        "sampler died",
        "no sampler",
        "sampler stood still",
    ],
)
def test_a_broken_measurement_is_void_in_either_arm(
    tmp_path: Path, arm: Arm, fields: dict[str, object], name: str, told: str
) -> None:
    verdict = judged(tmp_path, only(arm, **fields))
    found = row(verdict, name)
    assert (found.word, verdict.verdict) == (Word.VOID, Word.VOID)
    assert told in found.reason


def test_one_of_the_servers_own_that_had_just_ended_voids_nothing(tmp_path: Path) -> None:
    verdict = judged(tmp_path, only(CANDIDATE, processes=((), (OWN, SOMEBODY), (OWN,))))
    assert row(verdict, "foreign GPU processes").word is Word.PASS


def test_a_limit_that_changes_alike_in_both_arms_is_no_constant_machine(tmp_path: Path) -> None:
    found = row(judged(tmp_path, lambda _, seen: replace(seen, power_mw=(300_000, 250_000))), "GPU power limits")
    assert found.word is Word.VOID
    assert "the limit of GPU-0 changed: 250 W to 300 W" in found.reason


def test_both_arms_at_the_same_lower_limit_are_comparable(tmp_path: Path) -> None:
    verdict = judged(tmp_path, lambda _, seen: replace(seen, power_mw=(250_000,)))
    assert row(verdict, "GPU power limits").word is Word.PASS


@pytest.mark.parametrize("bits", [Reason.POWER_CAP, Reason.IDLE, Reason.SYNC_BOOST, Reason.APPLICATION_CLOCKS])
def test_what_a_loaded_card_does_anyway_voids_nothing(tmp_path: Path, bits: Reason) -> None:
    assert row(judged(tmp_path, only(CANDIDATE, reasons=(bits,))), "GPU throttling").word is Word.PASS


def test_somebody_who_was_gone_before_the_start_voids_nothing(tmp_path: Path) -> None:
    verdict = judged(tmp_path, only(CANDIDATE, processes=((TRAINER,), (OWN,))))
    assert row(verdict, "foreign GPU processes").word is Word.PASS


def test_a_constant_desktop_is_named_and_voids_nothing(tmp_path: Path) -> None:
    found = row(judged(tmp_path, lambda _, s: replace(s, processes=((XORG,), (XORG, OWN)))), "foreign GPU processes")
    assert found.word is Word.PASS
    assert "Xorg (pid 9, 200 MiB)" in found.reason


def test_a_desktop_that_grows_is_a_warning(tmp_path: Path) -> None:
    verdict = judged(tmp_path, only(CANDIDATE, processes=((XORG,), (XORG, OWN), (BIG_XORG, OWN))))
    found = row(verdict, "foreign GPU processes")
    assert found.word is Word.WARN
    assert "used 200 to 400 MiB" in found.reason


# --- fail ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"xids": (79,)}, "Xid 79 on GPU-0 in first-prompt 96"),
        ({"ecc": (3, 3, 4)}, "1 uncorrectable ECC error(s) on GPU-0"),
        ({"unreadable": {"gpu": "GPU_IS_LOST"}}, "GPU-0 was lost in"),
    ],
    ids=["Xid", "ECC", "lost"],
)
def test_a_gpu_that_breaks_fails_the_candidate_and_voids_the_control(
    tmp_path: Path, fields: dict[str, object], told: str
) -> None:
    for arm, word in ((CANDIDATE, Word.FAIL), (CONTROL, Word.VOID)):
        verdict = judged(tmp_path / arm, only(arm, **fields))
        found = row(verdict, "GPU errors")
        assert (found.word, verdict.verdict) == (word, word)
        assert told in found.reason


def test_ecc_errors_of_before_the_launch_are_not_its_own(tmp_path: Path) -> None:
    assert row(judged(tmp_path, only(CANDIDATE, ecc=(3, 3))), "GPU errors").word is Word.PASS


# --- unknown ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "name", "told"),
    [
        ({"reasons": (), "unreadable": {"clock_reasons": "NOT_SUPPORTED"}}, "GPU throttling", "NOT_SUPPORTED"),
        ({"power_mw": (), "unreadable": {"power_limit_mw": "NOT_SUPPORTED"}}, "GPU power limits", "NOT_SUPPORTED"),
        ({"unreadable": {"users": "NO_PERMISSION"}}, "foreign GPU processes", "NO_PERMISSION"),
        ({"processes": ((), (SOMEBODY,))}, "foreign GPU processes", "nobody's can be told apart"),
        ({"processes": ()}, "foreign GPU processes", "nobody's can be told apart"),
        ({"unreadable": {"xids": "NOT_SUPPORTED"}}, "GPU errors", "Xids are not readable"),
        ({"free": {}, "mig": True}, "lowest free", "MIG is on"),
        ({"returned": None}, "GPU memory back after exit", ""),
    ],
    ids=["reasons", "limits", "processes", "strangers only", "none listed", "Xids", "MIG", "memory"],
)
def test_what_cannot_be_read_is_not_tested_and_passes_nothing(
    tmp_path: Path, fields: dict[str, object], name: str, told: str
) -> None:
    verdict = judged(tmp_path, lambda _, seen: replace(seen, **fields))  # type: ignore[arg-type]
    found = row(verdict, name)
    assert found.word is Word.NOT_TESTED
    assert told in found.reason


def test_memory_that_did_not_return_is_a_warning_that_names_who_holds_it(tmp_path: Path) -> None:
    verdict = judged(tmp_path, only(CANDIDATE, returned=False, holders="GPU-0 is in use by vllm (pid 7)"))
    found = row(verdict, "GPU memory back after exit")
    assert (found.word, verdict.verdict) == (Word.WARN, Word.PASS)
    assert "vllm (pid 7)" in found.reason


def test_a_sampler_that_stood_still_is_a_warning(tmp_path: Path) -> None:
    slow = GpuSampling(**(GOOD.model_dump() | {"worst_gap_ms": 501.0}))
    found = row(judged(tmp_path, only(CANDIDATE, sampling=slow)), "GPU sampling")
    assert found.word is Word.WARN
    assert "501 ms between two readings" in found.reason


# --- ranks and clocks --------------------------------------------------------------------------------


def test_a_rank_without_a_figure_leaves_none_for_the_lane(tmp_path: Path) -> None:
    case = seen_case(tmp_path, lambda _, seen: seen)
    launch = next(iter(case.launches.values()))
    seen = launch.gpu
    assert lowest_mib(launch) == 900
    assert seen.watch is not None
    [facts] = seen.watch.facts
    two = seen.watch.model_copy(update={"facts": (facts, facts.model_copy(update={"uuid": "GPU-1"}))})
    launch.__dict__["gpu"] = replace(seen, watch=two, gpus={**seen.gpus, "GPU-1": GpuReadings()})
    assert lowest_mib(launch) is None
