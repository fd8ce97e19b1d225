"""What a verdict is about, in a few lines below it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.judge.case import Case, read_case
from harness.judge.verdict import judge
from harness.records import Verdict
from harness.report.facts import arm_text, engine_text, host_text, session_facts
from harness.words import Arm
from tests.judge.bundles import Session

Judged = tuple[Case, Verdict]


def test_profile_arms_host_session_and_root_stand_below_the_verdict(sound: Judged) -> None:
    case, verdict = sound
    facts = dict(session_facts(case, verdict))
    assert facts["profile"] == "tiny: a profile of tests"
    assert facts["control"].startswith("base: vLLM 0.32.0; tiny-mtp, model.safetensors sha256 c0ffee")
    assert facts["candidate"].endswith("; --max-num-seqs 4")
    assert facts["host"] == "a CPU, 2 cores, 1,000 MiB, no GPU"
    assert facts["session"].startswith(f"{case.run.session}, 2026-01-02T03:04:05")
    assert facts["plan"] == "2 launches, seed 5"
    assert facts["evidence root"] == verdict.evidence_root_sha256
    assert {"challenge", "statements", "ledger"} <= facts.keys(), "all are said, whichever way they stand"


def test_equal_gpus_are_counted(sound: Judged) -> None:
    case, _ = sound
    run = case.run.model_copy(update={"host": case.run.host.model_copy(update={"gpus": ("A", "B", "A")})})
    assert host_text(replace(case, run=run)).endswith("2 x A, 1 x B")


def test_a_log_that_names_another_version_than_the_lock_is_told(tmp_path: Path, sound: Judged) -> None:
    line = "(APIServer pid=7) INFO 01-02 03:04:09 [core.py:1] Initializing a V1 LLM engine (v9.9.9) with config"
    case = read_case(Session(tmp_path).candidate(said_at_start=(line,)).build())
    assert "9.9.9" in engine_text(case, Arm.CANDIDATE)
    assert "9.9.9" not in arm_text(case, Arm.CONTROL)
    assert engine_text(sound[0], Arm.CONTROL) == "vLLM 0.32.0"
    assert judge(case.bundle).session == "a-session"
