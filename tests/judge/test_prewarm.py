"""The origin's case: a patch that compiles the prefill kernels before KV sizing. It must come out right both ways."""

from __future__ import annotations

import json
from pathlib import Path

from harness.config.model import Stack
from harness.judge.case import read_case
from harness.judge.verdict import judge_case
from harness.words import Arm, ExitCode, Word

from .bundles import Judged, Session
from .gpus import Seen, evidence

GATHER, PREFILL = "_map_global_topk_to_gathered_ckv_kernel", "UnifiedPrefillMGKernel"
CLAIMS = (
    {"type": "late_jit_removed", "kernels": [GATHER, PREFILL]},
    {"type": "kv_tokens_min_change", "change_pct": -2.0},
    {"type": "free_mib_min", "mib": 512.0},
    {"type": "free_mib_min_change", "change_mib": 100.0},
)
KV_BEFORE, KV_AFTER = 2_097_152, 2_060_000
"""The prewarmed kernels take 1.8 % of it: a cost, beyond the margin of 1 %, that the claim declares."""


def judged(root: Path, *still_late: str) -> Judged:
    """The control takes its kernels' memory late, during the first long prompt; the candidate before KV sizing."""
    fields = {"name": "prewarm", "description": "prewarm before KV sizing", "claims": CLAIMS}
    session = Session(root, {"host.gpus": 1}, candidate=Stack.model_validate_json(json.dumps(fields)))
    session.both(armed=True).control(late_kernels=(GATHER, PREFILL), kv_tokens=KV_BEFORE)
    session.candidate(late_kernels=still_late, kv_tokens=KV_AFTER)
    case = read_case(session.build())
    for launch in case.launches.values():
        assert launch.record is not None
        prewarmed = launch.record.launch.arm is Arm.CANDIDATE and not still_late
        free = {"before": 9_900, "idle": 1_000, "long": 990 if prewarmed else 800, "end": 950}
        launch.__dict__["gpu"] = evidence(launch, Seen(free=free))
    return Judged(judge_case(case))


def test_a_correct_prewarm_passes_although_it_costs_kv_tokens(tmp_path: Path) -> None:
    found = judged(tmp_path)
    for claim in CLAIMS:
        row = found.row(f"claim {claim['type']}")
        assert (row.word, row.reason[:6]) == (Word.PASS, "HELD: "), row.reason
    kv = found.row("KV tokens")
    assert kv.word is Word.NOTE
    assert "inside the declared cost of -2 %" in kv.reason
    higher = found.row("claim free_mib_min_change")
    assert (higher.control, higher.candidate) == ("800", "950")
    assert found.verdict.exit_code == ExitCode.PASS


def test_a_prewarm_of_the_wrong_specialisation_is_refuted_although_nothing_new_is_late(tmp_path: Path) -> None:
    found = judged(tmp_path, GATHER)
    row = found.row("claim late_jit_removed")
    assert row.word is Word.FAIL
    assert row.reason.startswith(f"REFUTED: {GATHER} still late in the candidate")
    memory = found.row("claim free_mib_min_change")
    assert (memory.word, memory.reason[:7]) == (Word.FAIL, "REFUTED")
    assert found.row("claim kv_tokens_min_change").word is Word.PASS, "the cost is paid all the same"
    assert found.verdict.exit_code == ExitCode.FAIL
