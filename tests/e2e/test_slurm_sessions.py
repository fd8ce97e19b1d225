"""Sessions as jobs of a real Slurm: on the GPUs that it gives, and sealed when their time is over."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.fakes.nvml import Gpu
from harness.judge.case import read_case
from harness.words import ExitCode

from .gpus import GpuBench
from .sessions import ROOT, Finished, environment, left_running, wait_for
from .slurm import GPUS, MISSING, Cluster, cluster

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(bool(MISSING), reason=f"Slurm is not installed: {', '.join(MISSING)} (slurm-wlm, munge)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a cluster of one's own needs root"),
]
TWO = ("--gres=gpu:pro6000:2",)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


@pytest.fixture
def node(bench: GpuBench) -> GpuBench:
    """The node's GPUs, as its driver lists them to every job."""
    bench.gpus = tuple(Gpu(f"GPU-{n}") for n in range(GPUS))
    return bench


def test_a_job_measures_on_its_own_gpus_and_on_no_others(slurm: Cluster, node: GpuBench) -> None:
    results = node.folder / "results"
    qualify = (sys.executable, "-m", "harness.cli", "run", *node.options(), "--set", "host.gpus=2")
    with slurm.start("srun", *TWO, "sleep", "600", env=environment(results)) as other:
        wait_for(lambda: "R" in slurm.do("squeue", "--noheader", "--format=%t"))  # it has the first two
        done = slurm.start("srun", *TWO, *qualify, env=environment(results, node.env))
        out, _ = done.communicate(timeout=240)
        assert other.poll() is None, "the other job is over, and its GPUs were free to give"
        other.terminate()
    session = Finished(done.returncode, out, results)
    assert session.code == ExitCode.PASS, out
    seen = {tuple(launch.gpu.gpus) for launch in read_case(session.bundle).launches.values()}
    assert seen == {("GPU-2", "GPU-3")}


def test_a_job_of_too_few_gpus_says_what_slurm_left_it(slurm: Cluster, node: GpuBench) -> None:
    results = node.folder / "results"
    qualify = (sys.executable, "-m", "harness.cli", "run", *node.options(), "--set", "host.gpus=3")
    with slurm.start("srun", *TWO, *qualify, env=environment(results, node.env)) as job:
        out, _ = job.communicate(timeout=60)
    assert job.returncode == ExitCode.SETUP_FAILURE
    assert "needs 3 x NVIDIA GPU" in out
    assert "of which CUDA_VISIBLE_DEVICES=0,1 leaves 2" in out


def test_a_job_whose_time_is_nearly_over_seals_what_it_has(slurm: Cluster, node: GpuBench, tmp_path: Path) -> None:
    results = node.folder / "results"
    more = {**node.env, "QUALIFY": f"{sys.executable} -m harness.cli"}
    script = ROOT / "deploy" / "slurm" / "qualify.sbatch"
    log = tmp_path / "job.log"
    submit = ("sbatch", "--parsable", *TWO, f"--output={log}", f"--chdir={ROOT}", str(script), *node.options())
    job = slurm.do(*submit, "--set", "host.gpus=2", "--pairs", "4", env=environment(results, more)).strip()
    wait_for(lambda: bool(left_running(results)), 60)
    slurm.do("scancel", "--batch", "--signal=TERM", job)  # as --signal=B:TERM@120 does, without two hours of waiting
    wait_for(lambda: not slurm.state(job), 60)
    session = Finished(0, log.read_text("utf-8"), results)
    assert session.bundle.run().interrupted is not None, session.out
    assert (session.bundle.root / "SHA256SUMS").is_file()
    assert left_running(results) == []
