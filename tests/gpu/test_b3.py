"""The origin's silent bug on real Triton: from the program through the tracer and the ledger to the sentence.

On a GPU, with the Python that has torch and Triton (default: the one beside the real vLLM, else this one):

    QUALIFY_TEST_GPU_PYTHON=/path/to/python python -m pytest -m gpu tests/gpu/test_b3.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.evidence.bundle import LaunchDir, append_record, write_record
from harness.judge.ledger import launch_mismatches, ledger
from harness.judge.read import LaunchEvidence, read_launch
from harness.launch.tracing import TRACER, VARIABLE
from harness.observe.jit.ledger import Source
from harness.observe.jit.trace import read_trace
from harness.paths import PROJECT
from harness.records import LaunchRecord, Mark, PlannedLaunch
from harness.words import Arm, Cache, LaunchStatus, Step, Warmup

PROGRAM = Path(__file__).with_name("b3_program.py")
KERNEL = "_map_global_topk_to_gathered_ckv_kernel"
SENTENCE = f"{KERNEL}: warm-up DCP_SIZE=1 DCP_INTERLEAVE=1; serving DCP_SIZE=4 DCP_INTERLEAVE=64"
LINES = {
    "KV sized": "(EngineCore pid=1) INFO 11-29 18:00:00 [kv_cache_utils.py:1] GPU KV cache size: 257,024 tokens",
    "monitor armed": "(Worker pid=1) INFO 11-29 18:00:00 [jit_monitor.py:79] Kernel JIT monitor activated; x",
}


def _python() -> Path:
    named = os.environ.get("QUALIFY_TEST_GPU_PYTHON")
    beside = PROJECT / ".venv-vllm" / "bin" / "python"
    return Path(named) if named else beside if beside.exists() else Path(sys.executable)


def _has(program: str) -> bool:
    done = subprocess.run([str(_python()), "-c", program], capture_output=True, check=False, timeout=120)
    return done.returncode == 0


@pytest.fixture(scope="module")
def gpu() -> None:
    if not _has("import torch, triton; assert torch.cuda.is_available()"):
        pytest.skip(f"no GPU, or {_python()} has no torch and Triton")


@pytest.fixture(scope="module")
def real_triton() -> None:
    if not _has("import triton; assert hasattr(triton, 'knobs')"):
        pytest.skip(f"{_python()} has no Triton from 3.4 on")


def launch_of(folder: Path, *arguments: str) -> LaunchEvidence:
    """Run the program with the tracer, and put its course into the evidence of a launch."""
    found = LaunchDir(folder / "004-candidate-mtp1-engine-cold-trace")
    found.trace_dir.mkdir(parents=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(TRACER),
        "TRITON_CACHE_DIR": str(folder / "cache"),
        VARIABLE: str(found.trace_dir),
        **{k: v for k, v in os.environ.items() if k.startswith(("CUDA", "NVIDIA", "LD_LIBRARY"))},
    }
    command = [str(_python()), "-W", "ignore", str(PROGRAM), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    moments: dict[str, int] = json.loads(done.stdout.splitlines()[-1])

    planned = PlannedLaunch(
        ordinal=4,
        id=found.id,
        lane=0,
        arm=Arm.CANDIDATE,
        mode="mtp1",
        warmup=Warmup.ENGINE,
        cache=Cache.COLD,
        pair=0,
        trace=True,
    )
    record = LaunchRecord(
        launch=planned,
        status=LaunchStatus.COMPLETED,
        argv=(),
        env={},
        begin_ns=moments["process started"],
        begin_wall="",
    )
    write_record(found.record_file, record)
    steps = {"long prompt begins": "step begins", "long prompt ends": "step ends"}
    offset = 0
    for name, time_ns in moments.items():
        if name in LINES:
            text = f"{LINES[name]}\n".encode()
            offset += len(text)
            with found.log_file.open("ab") as log, found.log_times_file.open("a") as times:
                log.write(text)
                times.write(f"[{offset}, {time_ns}]\n")
            continue
        step = Step.FIRST_PROMPT if name in steps else None
        mark = Mark(mark=steps.get(name, name), mono_ns=time_ns, wall="", source="program", step=step)
        append_record(found.timeline_file, mark.model_copy(update={"context_tokens": 32_768 if step else None}))
    return read_launch(found)


def check_the_bug(launch: LaunchEvidence) -> None:
    """The sentence, and the ledger around it."""
    [mismatch] = launch_mismatches(launch)
    assert str(mismatch) == SENTENCE
    found = ledger(launch)
    assert found.tracer == "seen"
    late = [line for line in found.late(Source.TRACER) if line.what == "compiled"]
    assert [(x.kernel, x.phase, x.specialisation) for x in late] == [
        (KERNEL, "first-prompt 32768", "DCP_SIZE=4 DCP_INTERLEAVE=64 BLOCK=1024")
    ]


def check_the_mend(launch: LaunchEvidence) -> None:
    """Nothing is late, and nothing is missed."""
    assert launch_mismatches(launch) == []
    found = ledger(launch)
    assert found.tracer == "seen"
    assert found.late(Source.TRACER) == []
    assert KERNEL in {line.kernel for line in found.lines}, "the warm-up was seen"


@pytest.mark.usefixtures("real_triton")
class TestCompiledOnly:
    """Without a GPU: Triton compiles for an H200, and launches nothing."""

    def test_the_bug_is_named(self, tmp_path: Path) -> None:
        check_the_bug(launch_of(tmp_path, "--no-gpu"))

    def test_its_mend_is_seen(self, tmp_path: Path) -> None:
        check_the_mend(launch_of(tmp_path, "--no-gpu", "--fixed"))


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu")
class TestOnTheGpu:
    """With a GPU: the kernel runs, and the device's memory is read around every event."""

    def test_the_bug_is_named_and_so_is_the_memory(self, tmp_path: Path) -> None:
        launch = launch_of(tmp_path)
        check_the_bug(launch)
        late = ledger(launch).late(Source.TRACER)
        assert {line.what for line in late} == {"compiled", "loaded onto the device"}
        assert all(line.taken_mib is not None for line in late), "torch is there, so the memory can be read"
        events = read_trace(launch.folder.trace_dir).events
        assert all(e.torch_allocated_peak_bytes for e in events)

    def test_its_mend_is_seen(self, tmp_path: Path) -> None:
        check_the_mend(launch_of(tmp_path, "--fixed"))
