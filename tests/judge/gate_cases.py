"""For every gate of gates.toml a session that trips it and, where there is one, what its row must say."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.forge.recipe import Recipe
from harness.judge.verdict import judge, judge_case
from harness.observe.gpu.nvml import Reason
from harness.words import Arm, Step

from .bundles import COURSE, TRACED, WARM, WARM_TOO, Session
from .gate_sessions import (
    STATES,
    Made,
    again_otherwise,
    again_though_it_stood,
    armed,
    both_when_cold,
    changed_once_sealed,
    check_that_was_changed,
    check_without_its_tool,
    checked,
    claiming,
    claims,
    claims_memory,
    control,
    forged,
    gpu,
    imaged,
    interrupted,
    killed,
    looked,
    near_tie,
    near_tie_between_states,
    no_op_variable,
    plain,
    probed,
    runners,
    self_tested,
    unknown,
    written,
)
from .gpus import GOOD as SAMPLED
from .gpus import OWN, Seen
from .test_nights import FLAT, GAINED, LOST, SLOW, with_nights
from .test_thermal import RISING, warmed

KERNEL = "_late_kernel"
FOUR: dict[str, object] = {"plan.pairs": 4, "plan.caches": ["warm"]}
STREAMS: dict[str, object] = {
    "course.contexts": [{"prompt_tokens": 48, "prefill_passes": 1, "decode_passes": 2, "streams": [1, 4]}]
}
BOTH_PASSES = {"identity/0/0": 7, "identity/0/1": 7}
MANY_PROMPTS: dict[str, object] = {"course.identity_prompts": 8}


@dataclass(frozen=True)
class Tripped:
    """A session that trips a gate, and how its row is found."""

    made: Made
    row: str = ""
    """Name of the row, where the gate's own stands for many."""
    told: str = ""
    """In its reason; two gates of one row and word are told apart by it."""


LATE_CLAIM = {"type": "late_jit_removed", "kernels": [KERNEL]}
NO_DECODE = tuple(s for s in COURSE if s is not Step.DECODE)
LOW = {"before": 9_900, "idle": 600, "long": 500, "end": 600}
TOO_LOW = {**LOW, "long": 200}
STRANGER = replace(Seen(), processes=((), (OWN, OWN.model_copy(update={"pid": 50, "owner": "foreign"}))))
DESKTOP = [
    OWN.model_copy(update={"pid": 60, "owner": "foreign", "compute": False, "used_bytes": mib << 20})
    for mib in (100, 900)
]

CASES: dict[str, Tripped] = {
    "died": Tripped(plain(stage="health"), told="failed at health"),
    "both-died": Tripped(lambda root: Session(root).both(stage="health").judge().verdict, told="failed at health"),
    "had-to-be-killed": Tripped(killed, told="had to be killed at the end"),
    "late-kernel": Tripped(armed(late_kernels=(KERNEL,)), told=f"new against control: {KERNEL}"),
    "monitor-in-one-arm": Tripped(armed("candidate"), told="in one arm only"),
    "late-compile": Tripped(plain(late_compiles=2), told="2 more than in the control came late"),
    "late-files": Tripped(plain(late_files=3), told="3 more new cache files"),
    "late-loads": Tripped(plain(late_loads=1), told="1 more first loaded late"),
    "traced-late": Tripped(plain(TRACED, served=((KERNEL, {}),)), told=f"new against control: {KERNEL}"),
    "mismatch": Tripped(
        plain(TRACED, warmed=((KERNEL, {"SIZE": 1}),), served=((KERNEL, {"SIZE": 4}),)),
        told=f"{KERNEL}: warm-up SIZE=1; serving SIZE=4",
    ),
    "traced-in-one-arm": Tripped(plain(TRACED, traced=""), told="the arms cannot be compared: candidate not seen"),
    "claim-late-jit": Tripped(
        lambda root: (
            Session(root, candidate=claiming(LATE_CLAIM)).both(armed=True, late_kernels=(KERNEL,)).judge().verdict
        ),
        told=f"REFUTED: {KERNEL} still late",
    ),
    "kind-not-served": Tripped(probed(served=False), "request kind", "HTTP 400: refused"),
    "kind-late-kernel": Tripped(probed(late_kernels=(KERNEL,)), "request kind", f"not late in the control: {KERNEL}"),
    "kind-monitor-in-one-arm": Tripped(probed(control_armed=False), "request kind", "armed in some of the launches"),
    "kv-disagrees": Tripped(plain(kv_log=1_000_000), told="/metrics says 2,097,152 tokens, the log says 1,000,000"),
    "kv-less": Tripped(plain(kv_tokens=2_070_000), told="beyond the margin of 1 %"),
    "kv-starts": Tripped(both_when_cold(kv_tokens=2_000_000), told="and not one size"),
    "free-low": Tripped(gpu(Arm.CANDIDATE, free=LOW), told="below 512 MiB: 500 MiB"),
    "free-too-low": Tripped(gpu(Arm.CANDIDATE, free=TOO_LOW), told="below 256 MiB: 200 MiB"),
    "kept-more": Tripped(
        gpu(Arm.CANDIDATE, free={**Seen().free, "after long": 880}),
        told="70 MiB more than in the control, 001-candidate",
    ),
    "claim-kv": Tripped(
        claims({"type": "kv_tokens_min_change", "change_tokens": -1000}, kv_tokens=2_096_000), told="REFUTED"
    ),
    "claim-free": Tripped(claims_memory({"type": "free_mib_min", "mib": 1000.0}, 999.0), told="REFUTED"),
    "claim-free-change": Tripped(
        claims_memory({"type": "free_mib_min_change", "change_mib": 200.0}, 1000.0), told="REFUTED"
    ),
    "claim-cold-start": Tripped(
        claims({"type": "cold_start_max_change", "change_s": 5.0}, start_s=17.0), told="REFUTED"
    ),
    "claim-throughput": Tripped(
        claims({"type": "throughput_min_change", "metric": "prefill", "change_pct": 5.0}, FOUR, speed=1.02),
        told="REFUTED",
    ),
    "acceptance-fewer-prompts": Tripped(
        forged({"wrong_drafts": 0.6}), "accepted / drafted, decode", "(too few prompts for a test)"
    ),
    "acceptance": Tripped(
        forged({"wrong_drafts": 0.6}, MANY_PROMPTS), "accepted / drafted, identity prompts", "90 % interval"
    ),
    "answers-control": Tripped(control(diverge={"prefill/48/1": 0}), told="the control is not what its model must be"),
    "answers": Tripped(plain(drafter=Recipe(vocab=24, seed=1, wrong_drafts=0.6)), told="accepted/drafted"),
    "draft-arithmetic": Tripped(plain(faults={"decode/96/0": "lost-draft"}), told="decode/96/0"),
    "diverged": Tripped(forged({"changed_successor": True}), told="3 of 3 outputs differ"),
    "unstable": Tripped(unknown(diverge={"identity/0/1": 5}), told="does not agree with itself, the control does"),
    "near-tie": Tripped(near_tie, told="diverged at a near tie"),
    "not-comparable": Tripped(unknown(lost=("identity/0/0",)), told="0 outputs of the control, 3 of the candidate"),
    "control-not-comparable": Tripped(control(lost=("identity/0/1",)), told="the control does not agree with itself"),
    "measured-diverged": Tripped(unknown(diverge={"decode/96/0": 3}), told="1 of "),
    "measured-near-tie": Tripped(near_tie, told="the identity prompts part at near ties only"),
    "states-diverged": Tripped(
        lambda root: (
            Session(root, STATES, forged=False)
            .candidate(where={"warmup": "primed"}, diverge=BOTH_PASSES)
            .judge()
            .verdict
        ),
        told="token 7",
    ),
    "states-near-tie": Tripped(near_tie_between_states, told="1 of 3 outputs differ"),
    "garbage-control": Tripped(
        lambda root: Session(root, forged=False).control(empty=("decode/48/0",)).judge().verdict,
        told="the control's outputs are garbage",
    ),
    "garbage": Tripped(unknown(empty=("decode/48/0",)), told="an empty output"),
    "regressed": Tripped(plain(FOUR, speed=0.9), "decode steps", "regressed: -10.0 %"),
    "night-regressed": Tripped(
        lambda root: judge(with_nights(root, [*FLAT, SLOW], tonight=0.98)), "nights, decode steps", "regressed: -2.0 %"
    ),
    "night-improvement-lost": Tripped(
        lambda root: judge(with_nights(root, GAINED)), "nights, decode steps", "an improvement over the anchor was lost"
    ),
    "host-uncalibrated": Tripped(
        lambda root: judge(with_nights(root, FLAT, calibration=LOST)), told="lost the right to judge speed in s"
    ),
    "speed-refused": Tripped(
        lambda root: judge(with_nights(root, FLAT, tonight=0.9, calibration=LOST)), "decode steps", "would say fail"
    ),
    "client-stalled": Tripped(plain(client_lag_ms=5.5), told="woke 5.50 ms late"),
    "concurrency-client": Tripped(plain(STREAMS, one_by_one=True), "concurrency, 4 streams", "never had 4 requests"),
    "concurrency-server": Tripped(plain(STREAMS, slots=2), "concurrency, 4 streams", "at most 2 at a time"),
    "short-control": Tripped(control(short=("decode/96/0",)), told="the control did not serve in full"),
    "short": Tripped(plain(short=("decode/96/0",)), told="decode/96/0"),
    "asked-otherwise": Tripped(plain(course=NO_DECODE), told="the arms were not asked the same"),
    "miscounted": Tripped(plain(faults={"decode/96/0": "miscount"}), told="generation_tokens"),
    "clock-set": Tripped(plain(clock_set=("health", 3600.0)), told="the wall clock went +3,600.0 s"),
    "errors": Tripped(plain(errors=("it broke",)), told="only in the candidate"),
    "errors-control": Tripped(control(errors=("it broke",)), told="in the control"),
    "check": Tripped(plain(failed_checks=(("test_own.py::test_x", None, "is worse"),)), "check test_own", "is worse"),
    "source-check-broken": Tripped(check_that_was_changed, "source check focused", "is not what the check left"),
    "source-check-setup": Tripped(check_without_its_tool, "source check focused", "could not be compared"),
    "source-check": Tripped(checked({"a": ""}, {"a": "assert 0"}), "source check focused", "1 new"),
    "source-check-vanished": Tripped(checked({"a": "", "b": ""}, {"a": ""}), "source check focused", "no longer run"),
    "image-differs": Tripped(imaged(looked=True), told=f"ran image sha256:{'2' * 64}"),
    "image-unseen": Tripped(imaged(looked=False), told="nobody looked into its container"),
    "runner": Tripped(runners, told="different model runners"),
    "gpu-unwatched": Tripped(gpu(Arm.CONTROL, sampling=None), told="no sampler ran to the end"),
    "gpu-gap": Tripped(
        gpu(Arm.CANDIDATE, sampling=SAMPLED.model_copy(update={"worst_gap_ms": 501.0})), told="501 ms between"
    ),
    "gpu-foreign": Tripped(gpu(Arm.CANDIDATE, processes=STRANGER.processes), told="somebody else computed"),
    "gpu-desktop": Tripped(
        gpu(Arm.CANDIDATE, processes=((DESKTOP[0],), (OWN, DESKTOP[0]), (OWN, DESKTOP[1]))),
        told="graphics memory was not constant",
    ),
    "gpu-throttled": Tripped(gpu(Arm.CANDIDATE, reasons=(0, Reason.HW_THERMAL)), told="was throttled (hw thermal)"),
    "gpu-power": Tripped(gpu(Arm.CANDIDATE, power_mw=(250_000,)), told="unequal power limits"),
    "gpu-errors-control": Tripped(gpu(Arm.CONTROL, xids=(79,)), told="in the control: "),
    "gpu-errors": Tripped(gpu(Arm.CANDIDATE, ecc=(0, 1)), told="1 uncorrectable ECC error"),
    "thermal": Tripped(lambda root: judge_case(warmed(root, RISING)), told="cancels a steady drift, not all of it"),
    "gpu-not-back": Tripped(
        gpu(Arm.CANDIDATE, returned=False, holders="GPU-0: 900 MiB more in use"), told="900 MiB more in use"
    ),
    "client-untested": Tripped(
        self_tested(error="no port", events_expected=None, events_received=None), told="could not be run: no port"
    ),
    "client-miscounts": Tripped(self_tested(tokens_received=9001), told="9001 tokens of 9000"),
    "client-slow": Tripped(self_tested(delivery_p99_ms=5.01), told="delivery p99 5.01 ms, bar 5"),
    "launch-missing": Tripped(plain(WARM_TOO, where=WARM, begins=False), told="1 launches are missing or unfinished"),
    "session-interrupted": Tripped(interrupted, told="the session was interrupted"),
    "launch-order": Tripped(lambda root: Session(root).both(early_s=2.0).judge().verdict, told="began before"),
    "evidence-changed": Tripped(written(changed_once_sealed), told="is not as it was sealed"),
    "evidence-broken": Tripped(plain(cut_log=True), told="is not what the server's pipe gave"),
    "again-though-it-stood": Tripped(again_though_it_stood, told="although the pair was not void"),
    "again-otherwise": Tripped(again_otherwise, told="does not say what the evidence says"),
    "look-otherwise": Tripped(looked(0.90, 1.05, goes_on=False), told="does not say what the evidence"),
    "look-against-rule": Tripped(looked(1.0, 1.0, 1.0, 1.0, goes_on=True), told="ran although the first look"),
    "beside-a-stranger": Tripped(
        armed(late_kernels=(KERNEL,), faults={"prefill/48/0": "foreign"}),
        "late JIT (engine's monitor)",
        "a foreign request ran",
    ),
    "computed-otherwise": Tripped(
        unknown(faults={"identity/0/1": "prefix-hit"}, diverge={"identity/0/1": 3}),
        "identity, candidate vs control",
        "prefix_hits: the client counts 0",
    ),
    "unknown-variable": Tripped(no_op_variable, told="nothing else tells the arms apart"),
}
