"""Sessions on four GPUs, end to end: one server of four ranks, and four lanes of one GPU each."""

from __future__ import annotations

import psutil

from harness.fakes.nvml import Gpu
from harness.judge.case import read_case
from harness.words import Arm, ExitCode, LaunchStatus, Word

from .gpus import GpuBench
from .sessions import Finished, left_running, run, start


class TestFourRanks:
    """Tensor parallel 4: what one rank alone does is told of that rank, and never averaged away."""

    FOUR = tuple(Gpu(f"GPU-{n}") for n in range(4))
    LOUD = (
        *("--set", "serve.flags.tensor-parallel-size=4", "--set", "serve.flags.jit-monitor-verbose=true"),
        *("--set", "serve.env.QUALIFY_FAKE_JIT_MONITOR='1'"),
    )

    @staticmethod
    def comment(done: Finished) -> str:
        return (done.bundle.report_dir / "report.md").read_text("utf-8").replace("\u00a0", " ")

    def test_four_lanes_of_one_gpu_each_run_side_by_side_and_a_fifth_has_to_wait(self, bench: GpuBench) -> None:
        bench.gpus = self.FOUR
        patient = [f"timeouts.{name}_s=120" for name in ("health", "model_named", "first_request", "request")]
        one_each = [*bench.options(), *(part for value in ("host.gpus=1", *patient) for part in ("--set", value))]
        more = ("--set", "modes.a={ draft_tokens = 0 }", "--set", "modes.b={ draft_tokens = 0 }")
        results = bench.folder / "results"
        alone = bench.folder / "fifth"
        third = {**bench.env, "QUALIFY_GPUS": "GPU-2"}
        servers: list[psutil.Process] = []
        with start(results, *one_each, *more, "--modes=mtp0,mtp1,a,b", "--lanes=4", env=bench.env) as four:
            try:
                while len(servers) < len(self.FOUR):  # each as soon as it is there, so that no lane comes to its end
                    for server in set(left_running(results)) - set(servers):
                        server.suspend()
                        servers.append(server)
                    assert four.poll() is None
                refused = run(alone, *one_each, "--modes=mtp0", env=third)
            finally:
                for server in servers:
                    server.resume()
            out, _ = four.communicate(timeout=240)
        assert refused.code == ExitCode.SETUP_FAILURE, refused.out
        assert "GPU-2 is in use by another launch; wait for it, or use another lane" in refused.out
        done = Finished(four.returncode, out, results)
        seen = [(x.record, tuple(x.gpu.gpus)) for x in read_case(done.bundle).launches.values() if x.record]
        assert {(x.launch.lane, gpus) for x, gpus in seen} == {(n, (f"GPU-{n}",)) for n in range(4)}, done.out
        assert {x.status for x, _ in seen} == {LaunchStatus.COMPLETED}, done.out
        first = [min((x for x, _ in seen if x.launch.lane == n), key=lambda x: x.begin_ns) for n in range(4)]
        assert max(x.begin_ns for x in first) < min(x.end_ns or 0 for x in first), "all four ran at one time"
        assert run(alone, *one_each, "--modes=mtp0", env=third).code == ExitCode.PASS

    def test_a_dip_of_one_rank_fails_and_the_other_three_hide_nothing(self, bench: GpuBench) -> None:
        bench.gpus = self.FOUR
        done = bench.run(candidate="gpu-peaks=1900,on-rank=2", arguments=self.LOUD)
        row = done.row("lowest free")
        assert (row.word, done.code) == (Word.FAIL, ExitCode.FAIL), done.out
        assert (row.control, row.candidate) == ("2,048 (2,048-2,048)", "148 (148-2,048)")
        assert row.reason.startswith(
            "below 256 MiB: 148 MiB in 001-candidate-mtp1-engine-cold, first-prompt 2048, GPU 2"
        )
        taken = done.row("memory taken by first prompt", context_tokens=2048)
        assert (taken.control, taken.candidate) == ("0 (0-0)", "1,900 (0-1,900)")
        assert done.row("free at the end").candidate == "2,048 (2,048-2,048)"
        assert "; lowest 148 (148-2,048) |" in self.comment(done)
        page = (done.bundle.report_dir / "report.html").read_text("utf-8")
        assert "148 <span" in page
        assert "(1,900, GPU 2)" in page

    def test_what_one_rank_keeps_for_good_is_a_warning_that_names_it(self, bench: GpuBench) -> None:
        bench.gpus = self.FOUR
        done = bench.run(candidate="gpu-keeps=100,on-rank=2", arguments=self.LOUD)
        row = done.row("memory kept by first prompt", context_tokens=2048)
        assert (row.word, row.candidate, done.code) == (Word.WARN, "100 (0-100)", ExitCode.PASS), done.out
        assert "100 MiB more than in the control, 001-candidate-mtp1-engine-cold, GPU 2" in row.reason
        [line] = [x for x in self.comment(done).splitlines() if x.startswith("| free MiB/rank")]
        assert line.split(" | ")[1] == "**warn**"

    def test_a_kernel_that_is_late_on_one_rank_alone_is_late(self, bench: GpuBench) -> None:
        bench.gpus = self.FOUR
        late = "late-jit=_k,trace-late=_k,late-compile=c,on-rank=2"
        sees = "trace-sees,late-load=c"
        done = bench.run(control=sees, candidate=f"{sees},{late}", arguments=(*self.LOUD, "--set", "plan.trace=true"))
        assert done.code == ExitCode.FAIL, done.out
        named, traced = done.row("late JIT (engine's monitor)"), done.row("late JIT (tracer)")
        assert (named.word, named.reason) == (Word.FAIL, "new against control: _k (TP2)")
        assert (traced.word, traced.reason) == (Word.FAIL, "new against control: _k (rank 2)")
        for name in ("late JIT by rank (engine's monitor)", "late JIT by rank (tracer)"):
            row = done.row(name)
            assert (row.control, row.candidate) == ("0 (0-0)", "1 (0-1)"), row
            assert "worst of the candidate: TP2 in" in row.reason
        # The other ranks of the candidate print no line of a cache, which is not the same as no compilation.
        row = done.row("late compiles by rank")
        assert (row.control, row.candidate) == ("0 (0-0)", "1"), row
        assert "not told by TP0, TP1, TP3 in" in row.reason
        page = (done.bundle.report_dir / "report.html").read_text("utf-8")
        assert "Rank by rank" in page
        assert "<td>TP3</td>" in page
        assert "| late kernels/rank, tracer | not tested | 0 | 1 (0-1) | +1 |" in self.comment(done)

    def test_a_launch_whose_worker_died_has_failed_though_its_server_still_runs(self, bench: GpuBench) -> None:
        """vLLM needs up to ten seconds to end of it: where that is in the last step, the stop comes first."""
        bench.gpus = self.FOUR
        done = bench.run(candidate="worker-death@3,on-rank=2", arguments=self.LOUD)
        assert done.code == ExitCode.FAIL, done.out
        records = [x.record for x in read_case(done.bundle).launches.values() if x.record]
        [failed] = [r for r in records if r.status is LaunchStatus.FAILED]
        assert (failed.launch.arm, failed.stage) == (Arm.CANDIDATE, "after ready")
        assert failed.reason == "worker TP2 died (exit code -9)"
        assert "worker TP2 died" in done.row("served to the end").reason
