"""Trace launches end to end, on the fake server: the plan, the tracer in its process, rows, claim and report."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.judge.case import read_case
from harness.observe.jit.trace import read_trace
from harness.words import ExitCode, Word

from .sessions import Finished, fake_profile, run, stack

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "_map_global_topk_to_gathered_ckv_kernel"
SENTENCE = f"{KERNEL}: warm-up DCP_SIZE=1 DCP_INTERLEAVE=1; serving DCP_SIZE=4 DCP_INTERLEAVE=64"
WRONG = f"trace-mismatch={KERNEL}/DCP_SIZE:1:4/DCP_INTERLEAVE:1:64/BLOCK:8:8"
LATE, RIGHT = f"trace-late={KERNEL}", f"trace-warm={KERNEL}"
CLAIM = f"""
[[claims]]
type = "late_jit_removed"
kernels = ["{KERNEL}"]
"""


def traced(folder: Path, control: str, candidate: str, *sets: str, **env: str) -> Finished:
    """A session whose arms have these faults; the candidate claims to have removed the kernel."""
    arms = [stack(folder, name, QUALIFY_FAKE_FAULTS=f, **env) for name, f in (("old", control), ("new", candidate))]
    with arms[1].open("a", encoding="utf-8") as stream:
        stream.write(CLAIM)
    arguments = ("--control", str(arms[0]), "--candidate", str(arms[1]), "--set", "plan.trace=true")
    # The fake server is a Python program of this project; its own path must survive the tracer's.
    path = ("--set", f"serve.env.PYTHONPATH='{ROOT}'", *(word for one in sets for word in ("--set", one)))
    return run(folder / "results", "--profile", str(fake_profile(folder)), *arguments, *path)


def test_a_correct_prewarm_holds_what_it_claims(tmp_path: Path) -> None:
    done = traced(tmp_path, LATE, RIGHT)
    assert done.code == ExitCode.PASS, done.out
    claim = done.row("claim late_jit_removed")
    assert (claim.word, claim.reason) == (
        Word.PASS,
        f"HELD: {KERNEL} late in the control, not late in the candidate (tracer)",
    )
    assert claim.control == f"{KERNEL}: late in first-prompt 2048 (tracer)"
    assert done.row("specialisation mismatch").word is Word.PASS
    for launch in read_case(done.bundle).launches.values():
        assert launch.record is not None
        assert launch.record.launch.id.endswith("-trace") == launch.record.launch.trace
        assert bool(read_trace(launch.folder.trace_dir).processes) == launch.record.launch.trace


def test_a_prewarm_of_the_wrong_specialisation_is_named_and_refuted(tmp_path: Path) -> None:
    """B3: nothing new is late, and yet the patch does nothing."""
    done = traced(tmp_path, LATE, WRONG)
    assert done.code == ExitCode.FAIL
    assert done.row("late JIT (tracer)").word is Word.PASS
    assert done.row("specialisation mismatch").reason == SENTENCE
    claim = done.row("claim late_jit_removed")
    assert (claim.word, claim.reason) == (Word.FAIL, f"REFUTED: {KERNEL} still late in the candidate")
    assert f"fail: specialisation mismatch [mtp1 engine cold]: {SENTENCE}" in done.out
    report = (done.bundle.report_dir / "report.html").read_text("utf-8")
    assert "DCP_SIZE=4 DCP_INTERLEAVE=64 BLOCK=8" in report
    assert KERNEL in (done.bundle.report_dir / "jit.json").read_text("utf-8")


@pytest.mark.parametrize(
    ("control", "candidate", "armed", "told"),
    [
        ("trace-sees", "trace-sees", "0", "not late in the control either"),
        (LATE, "trace-changed", "0", "late in the control, but the candidate was not armed for: tracer"),
    ],
)
def test_what_nobody_could_see_is_not_shown(
    tmp_path: Path, control: str, candidate: str, armed: str, told: str
) -> None:
    done = traced(tmp_path, control, candidate, QUALIFY_FAKE_JIT_MONITOR=armed)
    claim = done.row("claim late_jit_removed")
    assert (claim.word, claim.reason) == (Word.INCONCLUSIVE, f"NOT SHOWN: {KERNEL} {told}")
    assert done.code == (ExitCode.VOID if candidate == "trace-changed" else ExitCode.INCONCLUSIVE)
    mismatch = done.row("specialisation mismatch")
    assert mismatch.word is (Word.VOID if candidate == "trace-changed" else Word.PASS)


def test_warm_launches_are_traced_too_where_the_plan_says_so(tmp_path: Path) -> None:
    done = traced(tmp_path, LATE, WRONG, 'plan.trace_caches=["cold", "warm"]')
    assert done.code == ExitCode.FAIL
    found = [r for r in done.verdict.rows if r.name == "specialisation mismatch"]
    assert [(r.cache, r.word, r.reason) for r in found] == [
        ("cold", Word.FAIL, SENTENCE),
        ("unproven", Word.FAIL, SENTENCE),  # that fake engine prints no hit
    ]
    warm = [x for x in read_case(done.bundle).launches.values() if x.folder.id.endswith("-warm-trace")]
    assert [x.record.launch.warm_from is not None for x in warm if x.record] == [True, True]
    assert all(read_trace(x.folder.trace_dir).processes for x in warm)


def test_judge_and_report_give_the_same_bytes_again(tmp_path: Path) -> None:
    done = traced(tmp_path, LATE, WRONG)
    files = [done.bundle.verdict_file, *sorted(p for p in done.bundle.report_dir.rglob("*") if p.is_file())]
    first = [f.read_bytes() for f in files]
    for command in ("judge", "report"):
        run(done.results, str(done.bundle.root), program=("-m", "harness.cli", command))
        assert [f.read_bytes() for f in files] == first
