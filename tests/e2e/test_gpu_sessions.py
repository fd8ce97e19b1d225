"""Sessions on GPUs, end to end, with what real ones do not do on demand: each rule is broken once, and named."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from harness.fakes.nvml import Gpu
from harness.judge.case import read_case
from harness.judge.rows.gpu_health import BLIND_MS
from harness.judge.samples import gpu_evidence
from harness.records import GPU_STAGE, GpuWatch
from harness.words import Arm, ExitCode, LaunchStatus, Word

from .gpus import GpuBench
from .sessions import Finished, left_running, run, start, wait_for

NAME = Path(sys.executable).name
"""As the system names a process of this Python."""
STILL_S = 1.0
"""Twice the ten periods of 50 ms that are named as a gap."""


def watched_while_it_asks(bench: GpuBench) -> tuple[subprocess.Popen[str], psutil.Process]:
    """A session in its first launch's course, at a slow pace, and that launch's sampler."""
    bench.settings.append("serve.env.QUALIFY_FAKE_STEP_S='0.02'")
    results = bench.folder / "results"
    process = start(results, *bench.options(), env=bench.env)
    wait_for(lambda: any(results.glob("*-fake-*/launches/001-*/requests.jsonl")))
    children = psutil.Process(process.pid).children(recursive=True)
    [sampler] = [c for c in children if "harness.observe.gpu" in c.cmdline()]
    return process, sampler


def watches(done: Finished) -> dict[Arm, GpuWatch]:
    """What was written about the GPUs, by arm."""
    records = [x.record for x in read_case(done.bundle).launches.values()]
    return {r.launch.arm: r.gpu for r in records if r is not None and r.gpu is not None}


class TestPhases:
    def test_every_phase_has_its_figure_and_equal_arms_pass(self, bench: GpuBench) -> None:
        done = bench.run()
        assert done.code == ExitCode.PASS, done.out
        expected = {
            "residency": "29,452",
            "free at idle": "2,048",
            "lowest free": "2,048",
            "free at the end": "2,048",
            "free after exit": "31,500",
            "GPU memory used before start": "0",
        }
        for name, figure in expected.items():
            row = done.row(name)
            assert (row.control, row.candidate, row.unit) == (figure, figure, "MiB/rank"), name
        assert done.row("lowest free").word is Word.PASS
        for name in ("GPU throttling", "GPU power limits", "GPU errors", "foreign GPU processes", "clocks kept pace"):
            assert done.row(name).word is Word.PASS, done.row(name)
        assert done.row("GPU memory back after exit").word is Word.PASS
        report = (done.bundle.report_dir / "report.md").read_text("utf-8")
        assert "the GPUs are those of the fake NVML: nothing here was measured on a real one" in report

    def test_what_a_first_long_prompt_takes_and_keeps_is_told_apart(self, bench: GpuBench) -> None:
        done = bench.run(candidate="gpu-peaks=700,gpu-keeps=150")
        taken, kept = (
            {r.context_tokens: (r.control, r.candidate) for r in done.rows(f"memory {what} by first prompt")}
            for what in ("taken", "kept")
        )
        assert taken == {64: ("0", "0"), 2048: ("0", "700")}
        assert kept == {64: ("0", "0"), 2048: ("0", "150")}
        words = {r.context_tokens: r.word for r in done.rows("memory kept by first prompt")}
        assert (words, done.code) == ({64: Word.PASS, 2048: Word.WARN}, ExitCode.PASS)
        row = done.row("memory kept by first prompt", context_tokens=2048)
        assert row.reason.startswith("taken late and not given back: 150 MiB more than in the control, 001-candidate")
        assert done.row("lowest free in first prompt", context_tokens=2048).candidate == "1,348"
        assert done.row("free at the end").candidate == "1,898"
        row = done.row("lowest free")
        assert (row.word, row.candidate) == (Word.PASS, "1,348")
        assert "first-prompt 2048" in row.reason

    @pytest.mark.parametrize(
        ("faults", "word", "code", "told"),
        [
            ("gpu-leaves=600,gpu-peaks=100", Word.WARN, ExitCode.PASS, "below 512 MiB: 500 MiB in"),
            ("gpu-leaves=600,gpu-peaks=350", Word.FAIL, ExitCode.FAIL, "below 256 MiB: 250 MiB in"),
        ],
        ids=["warn", "fail"],
    )
    def test_the_lowest_free_memory_of_the_candidate_is_gated(
        self, bench: GpuBench, faults: str, word: Word, code: ExitCode, told: str
    ) -> None:
        done = bench.run(candidate=faults)
        row = done.row("lowest free")
        assert (row.word, done.code) == (word, code), done.out
        assert row.reason.startswith(told)
        assert "first-prompt 2048" in row.reason

    def test_ranks_are_kept_apart_and_the_worst_one_counts(self, bench: GpuBench) -> None:
        bench.gpus = (Gpu("GPU-a"), Gpu("GPU-b", memory_mib=32_400))
        done = bench.run()
        row = done.row("free at idle")
        assert row.candidate == "2,048 (2,048-2,448)"
        assert done.row("GPU power limits").candidate == "575 W | 575 W"

    def test_samples_are_typed_and_of_the_lanes_gpus_only(self, bench: GpuBench) -> None:
        bench.gpus = (Gpu("GPU-0"), Gpu("GPU-other"))
        done = bench.run(arguments=("--set", "host.gpus=1"))
        for launch in read_case(done.bundle).launches.values():
            table = pq.read_table(launch.folder.gpu_samples_file)
            assert set(table["gpu"].to_pylist()) == {"GPU-0"}
            assert {str(f.type) for f in table.schema if f.name != "gpu"} == {"int64"}
            assert table["free_bytes"].null_count < table.num_rows
        assert not (bench.nvml / "reads" / "GPU-other").exists()

    def test_judging_again_gives_the_same_bytes(self, bench: GpuBench) -> None:
        done = bench.run()
        files = [done.bundle.verdict_file, *sorted(p for p in done.bundle.report_dir.rglob("*") if p.is_file())]
        first = [f.read_bytes() for f in files]
        for command in ("judge", "report"):
            again = run(done.results, str(done.bundle.root), program=("-m", "harness.cli", command))
            assert again.code == 0, again.out
        assert [f.read_bytes() for f in files] == first


class TestVoid:
    @pytest.mark.parametrize(
        ("arm", "faults", "name", "told"),
        [
            ("candidate", "gpu-throttled", "GPU throttling", "GPU-0 was throttled (hw thermal) in"),
            ("candidate", "gpu-power-limit=400", "GPU power limits", "control 575 W, candidate 400 W"),
            ("control", "gpu-xid=79", "GPU errors", "in the control: 002-control-mtp1-engine-cold: Xid 79 on GPU-0"),
        ],
        ids=["throttled", "unequal limits", "Xid in the control"],
    )
    def test_it_says_what_broke_and_is_no_judgement(
        self, bench: GpuBench, arm: str, faults: str, name: str, told: str
    ) -> None:
        done = bench.run(**{arm: faults})
        row = done.row(name)
        assert (row.word, done.code) == (Word.VOID, ExitCode.VOID), done.out
        assert told in row.reason
        assert done.verdict.verdict is Word.VOID

    def test_a_card_at_its_power_cap_is_shown_and_voids_nothing(self, bench: GpuBench) -> None:
        done = bench.run(candidate="gpu-power-capped")
        row = done.row("GPU throttling")
        assert (row.word, row.control, row.candidate) == (Word.PASS, "none", "power cap 100 %")

    def test_somebody_who_computes_beside_the_server(self, bench: GpuBench) -> None:
        with bench.somebody(used_mib=300, with_server=True) as pid:
            done = bench.run()
        row = done.row("foreign GPU processes")
        assert (row.word, done.code) == (Word.VOID, ExitCode.VOID), done.out
        assert f"somebody else computed on the GPU: {NAME} (pid {pid}, 300 MiB)" in row.reason

    def test_a_clock_that_is_set(self, bench: GpuBench) -> None:
        bench.describe(wall_jump_s=-3600.0)
        done = bench.run()
        row = done.row("clocks kept pace")
        assert (row.word, done.code) == (Word.VOID, ExitCode.VOID), done.out
        assert "the wall clock went" in row.reason
        assert "gpu.parquet" in row.reason

    def test_a_sampler_that_was_killed(self, bench: GpuBench) -> None:
        """What it wrote until then is kept, and the launch is not called watched."""
        process, sampler = watched_while_it_asks(bench)
        sampler.send_signal(signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
        done = Finished(process.returncode, out, bench.folder / "results")
        row = done.row("GPU sampling")
        assert (row.word, done.code) == (Word.VOID, ExitCode.VOID), out
        assert "it ended with code -9" in row.reason
        first = next(iter(read_case(done.bundle).launches.values()))
        assert first.record is not None
        assert first.record.status is LaunchStatus.COMPLETED
        assert first.gpu.gpus["GPU-0"].free.times_ns
        assert not left_running(done.results)


def test_a_sampler_that_stands_still_leaves_a_gap_that_is_named(bench: GpuBench) -> None:
    """Where this machine makes five seconds of it, the launch was not watched."""
    process, sampler = watched_while_it_asks(bench)
    sampler.suspend()
    resume_at = time.monotonic() + STILL_S
    wait_for(lambda: time.monotonic() > resume_at)
    sampler.resume()
    out, _ = process.communicate(timeout=60)
    done = Finished(process.returncode, out, bench.folder / "results")
    samplings = {
        x.folder.id: x.record.gpu.sampling
        for x in read_case(done.bundle).launches.values()
        if x.record and x.record.gpu
    }
    gaps_ms = {
        launch: s.worst_gap_ms for launch, s in samplings.items() if s is not None and s.worst_gap_ms is not None
    }
    assert gaps_ms[min(gaps_ms)] > 1000 * STILL_S / 2
    row, broken = done.row("GPU sampling"), max(gaps_ms.values()) > BLIND_MS
    assert row.word is (Word.VOID if broken else Word.WARN), out
    named = [
        f"{i}: {f'{gap / 1000:.1f} s' if broken else f'{gap:.0f} ms'} between two readings"
        for i, gap in gaps_ms.items()
    ]
    assert any(text in row.reason for text in named), row
    assert not left_running(done.results)


class TestFail:
    @pytest.mark.parametrize(
        ("faults", "told"),
        [
            ("gpu-xid=31", "Xid 31 on GPU-0 in"),
            ("gpu-ecc", "1 uncorrectable ECC error(s) on GPU-0"),
            ("gpu-lost", "GPU-0 was lost in"),
        ],
        ids=["Xid", "ECC", "lost"],
    )
    def test_a_gpu_that_breaks_under_the_candidate(self, bench: GpuBench, faults: str, told: str) -> None:
        done = bench.run(candidate=faults)
        row = done.row("GPU errors")
        assert (row.word, done.code) == (Word.FAIL, ExitCode.FAIL), done.out
        assert told in row.reason
        assert row.control == "none"


class TestUnknown:
    """What cannot be read is said to be so: it is no zero, and it passes nothing."""

    @pytest.mark.parametrize(
        ("gpu", "told"),
        [
            (
                Gpu("GPU-0", unreadable={"memory": "NO_PERMISSION", "power_limit_mw": "NOT_SUPPORTED"}),
                {
                    "lowest free": "not readable: memory of GPU-0: NO_PERMISSION",
                    "free at idle": "not readable: memory of GPU-0: NO_PERMISSION",
                    "GPU power limits": "power_limit_mw of GPU-0: NOT_SUPPORTED",
                },
            ),
            (
                Gpu(
                    "GPU-0",
                    unreadable={"users": "NO_PERMISSION", "clock_reasons": "NOT_SUPPORTED", "xids": "NOT_SUPPORTED"},
                ),
                {
                    "foreign GPU processes": "processes are not listed (users of GPU-0: NO_PERMISSION)",
                    "GPU throttling": "clock_reasons of GPU-0: NOT_SUPPORTED",
                    "GPU errors": "Xids are not readable",
                },
            ),
            (Gpu("GPU-0", mig=True), {"lowest free": "MIG is on", "residency": "MIG is on"}),
        ],
        ids=["memory and limit", "processes, clocks and Xids", "MIG"],
    )
    def test_a_reading_that_fails(self, bench: GpuBench, gpu: Gpu, told: dict[str, str]) -> None:
        bench.gpus = (gpu,)
        done = bench.run()
        assert done.code == ExitCode.PASS, done.out
        for name, reason in told.items():
            row = done.row(name)
            assert row.word is Word.NOT_TESTED, row
            assert reason in row.reason
            assert row.control in (None, "none")

    def test_in_a_namespace_of_its_own_the_harness_calls_nobody_foreign_before_it_found_its_own(
        self, bench: GpuBench
    ) -> None:
        bench.describe(host_pids=False)
        with bench.somebody(used_mib=300, with_server=True) as pid:
            done = bench.run()
        # The server's own process was found by its number, so the numbers mean the same after all.
        row = done.row("foreign GPU processes")
        assert (row.word, done.code) == (Word.VOID, ExitCode.VOID), done.out
        assert f"(pid {pid}, 300 MiB)" in row.reason


class TestNotFree:
    def test_a_process_that_is_there_before_keeps_the_session_from_starting(self, bench: GpuBench) -> None:
        bench.settings.append("timeouts.gpu_release_s=0.3")
        with bench.somebody(used_mib=9_000) as pid:
            done = bench.run()
        assert (done.code, done.verdict.verdict) == (ExitCode.SETUP_FAILURE, Word.SETUP_FAILURE), done.out
        for launch in read_case(done.bundle).launches.values():
            record = launch.record
            assert record is not None
            assert (record.status, record.stage) == (LaunchStatus.FAILED, GPU_STAGE)
            assert record.reason is not None
            assert f"GPU-0 is in use by {NAME} (pid {pid}, 9,000 MiB)" in record.reason
            assert launch.mark_ns("process started") is None

    def test_a_gpu_that_hangs_without_a_process_keeps_the_session_from_starting(self, bench: GpuBench) -> None:
        bench.settings.append("timeouts.gpu_release_s=0.3")
        bench.gpus = (Gpu("GPU-0", values={"gpu_pct": 100}),)
        done = bench.run()
        assert (done.code, done.verdict.verdict) == (ExitCode.SETUP_FAILURE, Word.SETUP_FAILURE), done.out
        assert "GPU-0 is 100 % busy, and the driver lists nobody on it" in done.row("served to the end").reason

    def test_memory_that_does_not_return_keeps_the_next_launch_from_starting(self, bench: GpuBench) -> None:
        bench.settings.append("timeouts.gpu_release_s=0.3")
        done = bench.run(candidate="gpu-lingers=600", control="gpu-lingers=600")
        first, second = read_case(done.bundle).launches.values()
        assert first.record is not None
        assert first.record.gpu is not None
        assert first.record.gpu.returned is False
        assert "29,452 MiB more in use than when it is free" in first.record.gpu.holders
        assert second.record is not None
        assert second.record.stage == GPU_STAGE
        assert "held by nobody that the driver lists" in (second.record.reason or "")
        assert done.code == ExitCode.SETUP_FAILURE
        assert done.row("GPU memory back after exit").word is Word.WARN

    def test_memory_that_returns_late_is_waited_for(self, bench: GpuBench) -> None:
        done = bench.run(candidate="gpu-lingers=1", control="gpu-lingers=1")
        assert done.code == ExitCode.PASS, done.out
        for watch in watches(done).values():
            assert watch.returned
            assert watch.return_s is not None
            assert watch.return_s >= 0.5

    def test_a_desktop_is_recorded_and_subtracted_and_voids_nothing(self, bench: GpuBench) -> None:
        with bench.somebody(used_mib=400, compute=False) as pid:
            done = bench.run()
        assert done.code == ExitCode.PASS, done.out
        row = done.row("foreign GPU processes")
        assert row.word is Word.PASS
        assert f"(pid {pid}, 400 MiB)" in row.reason
        assert done.row("GPU memory used before start").candidate == "400"
        assert done.row("residency").candidate == "29,452", "the server's own, as without a desktop"
        assert done.row("free at idle").candidate == "1,648", "what is really free"

    def test_a_driver_that_does_not_answer_is_no_host_without_gpus(self, bench: GpuBench) -> None:
        bench.describe(state="silent")
        done = bench.run()
        assert done.code == ExitCode.SETUP_FAILURE
        assert "NVML gives no answer" in done.out


def test_after_a_kill_the_samples_until_then_are_read(bench: GpuBench) -> None:
    """The sampler ends with the harness, and its journal is as good as the file that it would have become."""
    bench.settings.append("serve.env.QUALIFY_FAKE_STEP_S='0.02'")
    results = bench.folder / "results"
    process = start(results, *bench.options(), env=bench.env)
    wait_for(lambda: any(results.glob("*-fake-*/launches/001-*/requests.jsonl")))
    process.kill()
    process.communicate(timeout=90)
    launch = next(iter(read_case(Finished(process.returncode, "", results).bundle).launches.values()))
    journal = launch.folder.gpu_samples_file.with_suffix(".journal")
    wait_for(lambda: not samplers(journal))
    assert launch.record is not None
    evidence = gpu_evidence(launch.folder, launch.record.gpu)
    assert evidence.gpus["GPU-0"].free.mib[0] == 31_500
    again = run(results, *bench.options(), env=bench.env)
    assert again.code == ExitCode.PASS, again.out
    assert not left_running(results)


def samplers(journal: Path) -> list[psutil.Process]:
    """Samplers that write this journal."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(journal) in process.cmdline():
                found.append(process)
    return found
