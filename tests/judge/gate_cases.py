"""For every gate of gates.toml a session that trips it and, where there is one, what its row must say."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness.config.image import Image
from harness.config.model import Stack
from harness.evidence.bundle import Bundle, read_record, write_record
from harness.evidence.manifest import seal
from harness.forge.recipe import Recipe
from harness.judge import kinds
from harness.judge.case import read_case
from harness.judge.looks import first_look
from harness.judge.read import LaunchEvidence
from harness.judge.rows import kinds as kind_rows
from harness.judge.verdict import judge, judge_case
from harness.observe.gpu.nvml import Reason
from harness.records import ArmImage, Lock, RequestRecord, Usage, Verdict
from harness.records.client import SelfTest
from harness.words import Arm, Step
from tests.checks.local import ended
from tests.checks.written import junit, write_check

from .bundles import COLD, COURSE, TRACED, WARM, WARM_TOO, Session, stack
from .gpus import GOOD as SAMPLED
from .gpus import OWN, Seen, only, seen_case
from .test_client_rows import GOOD as SELF_TEST
from .test_nights import FLAT, GAINED, LOST, SLOW, with_nights
from .test_reruns import PAIRS, decided, disturbed
from .test_source_checks import REFERENCE, TESTS
from .test_source_checks import Case as Checked
from .test_thermal import RISING, warmed

KERNEL = "_late_kernel"
FOUR: dict[str, object] = {"plan.pairs": 4, "plan.caches": ["warm"]}
STATES: dict[str, object] = {"plan.warmups": ["engine", "primed"], "plan.caches": ["warm"]}
STREAMS: dict[str, object] = {
    "course.contexts": [{"prompt_tokens": 48, "prefill_passes": 1, "decode_passes": 2, "streams": [1, 4]}]
}
TWO_LOOKS: dict[str, object] = {"plan.pairs": 2, "plan.escalate_by": 2, "plan.caches": ["warm"]}
BOTH_PASSES = {"identity/0/0": 7, "identity/0/1": 7}
MANY_PROMPTS: dict[str, object] = {"course.identity_prompts": 8}
Made = Callable[[Path], Verdict]


@dataclass(frozen=True)
class Tripped:
    """A session that trips a gate, and how its row is found."""

    made: Made
    row: str = ""
    """Name of the row, where the gate's own stands for many."""
    told: str = ""
    """In its reason; two gates of one row and word are told apart by it."""


def plain(overrides: Mapping[str, object] | None = None, **candidate: Any) -> Made:
    """A session whose candidate does this."""
    return lambda root: Session(root, overrides).candidate(**candidate).judge().verdict


def both_when_cold(**does: Any) -> Made:
    """A session whose arms both do this when they find no caches."""
    return lambda root: Session(root, WARM_TOO).both(where=COLD, **does).judge().verdict


def no_op_variable(root: Path) -> Verdict:
    """A session whose candidate is the control with a variable that the engine does not list."""
    serve = {"env": {"VLLM_NO_SUCH": "1"}}
    fields = {"name": "candidate", "description": "an arm", "serve": serve}
    session = Session(root, candidate=Stack.model_validate_json(json.dumps(fields)))
    said = "Unknown vLLM environment variable detected: VLLM_NO_SUCH"
    return session.candidate(said_at_start=(said,)).judge().verdict


def control(overrides: Mapping[str, object] | None = None, **does: Any) -> Made:
    """A session whose control does this."""
    return lambda root: Session(root, overrides).control(**does).judge().verdict


def unknown(**candidate: Any) -> Made:
    """A session of a model whose answers nobody knows."""
    return lambda root: Session(root, forged=False).candidate(**candidate).judge().verdict


def forged(fields: Mapping[str, int | float | bool], overrides: Mapping[str, object] | None = None) -> Made:
    """A session whose candidate serves another forged model."""
    return lambda root: Session(root, overrides, candidate=stack("other", fields)).judge().verdict


def armed(which: str = "both", **candidate: Any) -> Made:
    """A session with the engine's monitor armed."""

    def made(root: Path) -> Verdict:
        session: Session = getattr(Session(root), which)(armed=True)
        return session.candidate(**candidate).judge().verdict

    return made


def gpu(which: Arm, **fields: object) -> Made:
    """A session on a GPU that was seen like this."""
    return lambda root: judge_case(seen_case(root, only(which, **fields)))


def _claiming(claim: Mapping[str, object]) -> Stack:
    fields = {"name": "patched", "description": "an arm", "claims": [claim]}
    return Stack.model_validate_json(json.dumps(fields))


def claims(claim: Mapping[str, object], overrides: Mapping[str, object] | None = None, **candidate: Any) -> Made:
    """A session whose candidate claims something."""

    def made(root: Path) -> Verdict:
        return Session(root, overrides, candidate=_claiming(claim)).candidate(**candidate).judge().verdict

    return made


def claims_memory(claim: Mapping[str, object], mib: float) -> Made:
    """The same, on a GPU with so much free memory in the candidate."""

    def made(root: Path) -> Verdict:
        case = seen_case(root, only(Arm.CANDIDATE, free={"before": 9_900, "idle": mib, "long": mib, "end": mib}))
        return judge_case(replace(case, plan=case.plan.model_copy(update={"candidate": _claiming(claim)})))

    return made


def written(change: Callable[[Bundle], None]) -> Made:
    """A session whose bundle was changed afterwards."""

    def made(root: Path) -> Verdict:
        bundle = Session(root).build()
        change(bundle)
        return judge(bundle)

    return made


def self_tested(**changes: Any) -> Made:
    """A session with such a self-test of the client."""
    return written(lambda bundle: write_record(bundle.selftest_file, SelfTest(**(SELF_TEST | changes))))


def _changed(bundle: Bundle) -> None:
    seal(bundle.root)
    (bundle.root / "launches" / "more.txt").write_text("added later", "utf-8")


def checked(control: Mapping[str, str], candidate: Mapping[str, str]) -> Made:
    """A session with a source check whose tests fail with these messages."""

    def made(root: Path) -> Verdict:
        case = Checked(root, TESTS)
        case.tests(dict(control), dict(candidate))
        return case.judge().verdict

    return made


def check_without_its_tool(root: Path) -> Verdict:
    case = Checked(root, TESTS)
    for arm in Arm:
        error = "exec pytest failed: No such file or directory"
        write_check(case.bundle, TESTS, arm, ended(127, error=error), report_fault="it left none")
    return case.judge().verdict


def check_that_was_changed(root: Path) -> Verdict:
    case = Checked(root, TESTS)
    case.tests({"good": ""}, {"good": ""})
    [report] = case.bundle.checks_dir.glob("*/candidate/junit.xml")
    report.write_bytes(junit({"good": "", "more": ""}))
    return case.judge().verdict


def imaged(*, looked: bool) -> Made:
    """A session in containers: of another image than the lock's, or into which nobody looked."""

    def made(root: Path) -> Verdict:
        session = Session(root)
        changes = {"launcher": "docker", "image": Image(reference=REFERENCE)}
        session.profile = session.profile.model_copy(update=changes)
        bundle = session.build()
        for arm in Arm:
            image = ArmImage(name=REFERENCE, image_id=f"sha256:{'1' * 64}", base_reference=REFERENCE)
            lock = read_record(bundle.lock_file(arm), Lock)
            write_record(bundle.lock_file(arm), lock.model_copy(update={"image": image}))
        if looked:
            for folder in bundle.root.glob("launches/*"):
                _write_container(folder / "launch.json")
        return judge(bundle)

    return made


def _write_container(file: Path) -> None:
    tree = json.loads(file.read_text("utf-8"))
    tree["container"] = {
        "container_id": "c",
        "image_reference": REFERENCE,
        "image_id": f"sha256:{'2' * 64}",
        "repo_digests": [],
        "engine_version": "20.10",
        "runtime": "runc",
        "network": "internal",
    }
    file.write_text(json.dumps(tree), "utf-8")


def probed(**does: Any) -> Made:
    """A session that asked one kind of request; `served` says whether the candidate served it."""

    def made(root: Path) -> Verdict:
        served = does.get("served", True)
        session = Session(root).control(armed=does.get("control_armed", True))
        session.candidate(armed=True, late_kernels=does.get("late_kernels", ()))
        case = read_case(session.build())
        name = case.plan.profile.course.kinds[0].name

        def probes(launch: LaunchEvidence) -> dict[str, kinds.Probe]:
            assert launch.record is not None
            candidate = launch.record.launch.arm is Arm.CANDIDATE
            request = _asked(name, complete=served or not candidate)
            return {name: kinds.Probe(launch, request, 0, 1 << 62)}

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind_rows, "probes", probes)
            return judge_case(case)

    return made


def _asked(kind: str, *, complete: bool) -> RequestRecord:
    return RequestRecord(
        request="0001",
        window="request-kinds/0/0",
        step=Step.REQUEST_KINDS,
        context_tokens=None,
        pass_number=0,
        index=0,
        kind=kind,
        prompt_sha256="a" * 64,
        prompt_tokens=4,
        asked_tokens=1,
        sampling={},
        status=200 if complete else 400,
        begin_ns=0,
        sent_ns=10,
        event_ns=(20,) if complete else (),
        event_tokens=(1,) if complete else (),
        end_ns=90,
        usage=Usage(prompt_tokens=4, completion_tokens=1) if complete else None,
        finish_reason="length" if complete else None,
        error=None if complete else "HTTP 400: refused",
    )


def runners(root: Path) -> Verdict:
    session = Session(root).control(said_at_start=("Using V2 Model Runner",))
    v1 = "Model Runner V2 requires Triton; using the V1 model runner instead."
    return session.candidate(said_at_start=(v1,)).judge().verdict


def near_tie(root: Path) -> Verdict:
    tied = stack("tied", {"near_tie": True, "changed_successor": True})
    session = Session(root, control=stack("tie", {"near_tie": True}), candidate=tied)
    return session.both(tie_nat=0.05).judge().verdict


def near_tie_between_states(root: Path) -> Verdict:
    session = Session(root, STATES, forged=False)
    return (
        session.candidate(where={"warmup": "primed"}, ties_itself="identity/0/0")
        .candidate(where={"warmup": "engine"}, ties_itself="identity/0/1")
        .judge()
        .verdict
    )


def killed(root: Path) -> Verdict:
    return Session(root).candidate(survivors=1).judge().verdict


def interrupted(root: Path) -> Verdict:
    return Session(root).interrupted("stopped by the user or the system").judge().verdict


def looked(*speeds: float, goes_on: bool) -> Made:
    """A session of two looks whose decision is this one, whatever its evidence gives."""

    def made(root: Path) -> Verdict:
        session = Session(root, TWO_LOOKS)
        for pair, speed in enumerate(speeds):
            session.candidate(where=WARM | {"pair": pair}, speed=speed)
        if len(speeds) <= 2:
            session.both(where={"look": 2}, begins=False)
        bundle = session.build()
        found = first_look(bundle, "mtp1").model_copy(update={"goes_on": goes_on})
        write_record(bundle.look_file("mtp1"), found)
        return judge(bundle)

    return made


def again_though_it_stood(root: Path) -> Verdict:
    session = Session(root, PAIRS)
    session.runs_again = frozenset({1})
    return session.judge().verdict


def again_otherwise(root: Path) -> Verdict:
    return judge(decided(disturbed(root, again=True).build(), 1, ("decode 96: another reason",)))


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
            Session(root, candidate=_claiming(LATE_CLAIM)).both(armed=True, late_kernels=(KERNEL,)).judge().verdict
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
    "client-stalled": Tripped(plain(client_lag_ms=5.5), told="woke 5.5 ms late"),
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
    "unknown-variable": Tripped(no_op_variable, told="nothing else tells the arms apart"),
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
    "evidence-changed": Tripped(written(_changed), told="is not as it was sealed"),
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
}
