"""The finished qualification of B12X pull request 126, by hand in its day: the same facts come out, in its order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.config.claims import LateJitRemoved
from harness.judge.case import read_case
from harness.judge.verdict import judge_case
from harness.records import Row
from harness.report.markdown import About, comment
from harness.words import Arm, Word
from tests.judge.bundles import COLD, WARM, WARM_TOO, Session, stack
from tests.judge.gpus import Seen, evidence
from tests.report.locks import OTHERS, Pull, write_locks
from tests.report.test_markdown import table

B12X_126 = Pull(126, "1a2b3c4d5e6f" + "7" * 28, "prewarm the draft's route-pack kernels before KV sizing", "b12x")
CLAIM = LateJitRemoved(type="late_jit_removed", kernels=("small_prefix", "sort"))
ASKING_S = 0.04
"""What the played server takes for its first request, once it is up."""
FREE = {"before": 31_000.0, "idle": 7_300.0, "long": 7_100.0, "end": 7_290.0}


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


def session(root: Path) -> Session:
    """Figures of the published comment: two late kernels gone, 192 tokens fewer, a cold start that compiles."""
    found = Session(
        root,
        {**WARM_TOO, "host.gpus": 1},
        control=stack("r28"),
        candidate=stack("route-pack-prewarm").model_copy(update={"claims": (CLAIM,)}),
    )
    return (
        found.both(armed=True)
        .both(where=WARM, start_s=6.80 - ASKING_S)
        .control(kv_tokens=1_865_920, late_kernels=("small_prefix", "sort"))
        .candidate(kv_tokens=1_865_728)
        .control(where=COLD, start_s=30.27 - ASKING_S)
        .candidate(where=COLD, start_s=43.04 - ASKING_S)
    )


def published(root: Path) -> str:
    """The comment of such a session on one RTX 5090; its counts of drafts are those of the hand-written one."""
    bundle = session(root).build()
    write_locks(bundle, (*OTHERS, B12X_126), OTHERS)
    case = read_case(bundle)
    for launch in case.launches.values():
        assert launch.record is not None
        taken = 2 if launch.record.launch.arm is Arm.CANDIDATE else 0
        free = {moment: mib - (taken if moment != "before" else 0) for moment, mib in FREE.items()}
        launch.__dict__["gpu"] = evidence(launch, replace(Seen(), free=free))  # as cached_property does
    case = replace(
        case, run=case.run.model_copy(update={"host": case.run.host.model_copy(update={"gpus": ("RTX 5090",)})})
    )
    verdict = judge_case(case)
    rows = tuple(map(_counted, verdict.rows))
    return comment(case, verdict.model_copy(update={"rows": rows}), About())


def _counted(row: Row) -> Row:
    if row.name != "accepted / drafted, identity prompts":
        return row
    text = "451/571 = 0.7898 (MAL 1.790)"
    return row.model_copy(update={"control": text, "candidate": text, "word": Word.PASS})


def test_the_same_facts_come_out_in_the_same_order(tmp_path: Path) -> None:
    lines = {cells[0]: cells for cells in table(published(tmp_path))}
    facts = {
        "late JIT, engine's monitor": ("small_prefix, sort", "none", "2 gone"),
        "KV tokens": ("1,865,920", "1,865,728", "-192 (-0.010 %)"),
        "residency, MiB/rank": ("23,700", "23,702", "+2"),
        "accepted / drafted": ("identity: 451/571 (79.0 %)", "the same", "equal"),
        "MAL": ("identity: 1.790", "the same", "equal"),
        "identity": ("with itself identical", "3 of 3 identical", "equal"),
        "cold start, s": ("30.27", "43.04", "+12.77 s; +42.2 %"),
        "warm start, s": ("6.80", "6.80", "+0.00 s; +0.0 %"),
    }
    assert [name for name in lines if name in facts] == list(facts)
    for name, (control, candidate, change) in facts.items():
        _, _, *found = lines[name]
        assert control in found[0], name
        assert candidate in found[1], name
        assert found[2] == change, name
    claim = lines["claim late_jit_removed"]
    assert (claim[1], claim[4]) == ("pass", "HELD")
    assert claim[3] == "small_prefix: not late; sort: not late"
    assert lines["late JIT, engine's monitor"][-1] == "mtp1 cold + warm", "still no post-start JIT with a warm cache"


def test_it_says_what_it_is_about_and_what_it_does_not_claim(tmp_path: Path) -> None:
    text = published(tmp_path)
    assert text.startswith("### PASS: route-pack-prewarm against r28, profile cpu-forged\n")
    assert "Host: RTX 5090." in text
    assert f"  - `b12x#126 {B12X_126.head} merged`\n" in text
    closing = text.partition("#### What is not claimed")[2]
    assert "- Speed, faster or slower: one pair shows no spread" in closing, "a reliability fix, not a throughput claim"
    assert "- Anything beyond the rows above: other models, prompts, lengths, hosts" in closing
