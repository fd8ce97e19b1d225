"""Sessions that trip gates: what an arm, its evidence or a reader of it does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.config.image import Image
from harness.config.model import Stack
from harness.evidence.bundle import Bundle, read_record, write_record
from harness.evidence.manifest import seal
from harness.judge import kinds
from harness.judge.case import read_case
from harness.judge.looks import first_look
from harness.judge.read import LaunchEvidence
from harness.judge.rows import kinds as kind_rows
from harness.judge.verdict import judge, judge_case
from harness.records import ArmImage, Lock, RequestRecord, Verdict
from harness.records.client import SelfTest
from harness.words import Arm, Step
from tests.checks.local import ended
from tests.checks.written import junit, write_check

from .asked import asked
from .bundles import COLD, WARM, WARM_TOO, Session, stack
from .gpus import only, seen_case
from .test_client_rows import GOOD as SELF_TEST
from .test_reruns import PAIRS, decided, disturbed
from .test_source_checks import REFERENCE, TESTS
from .test_source_checks import Case as Checked

STATES: dict[str, object] = {"plan.warmups": ["engine", "primed"], "plan.caches": ["warm"]}
TWO_LOOKS: dict[str, object] = {"plan.pairs": 2, "plan.escalate_by": 2, "plan.caches": ["warm"]}
Made = Callable[[Path], Verdict]


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


def claiming(claim: Mapping[str, object]) -> Stack:
    fields = {"name": "patched", "description": "an arm", "claims": [claim]}
    return Stack.model_validate_json(json.dumps(fields))


def claims(claim: Mapping[str, object], overrides: Mapping[str, object] | None = None, **candidate: Any) -> Made:
    """A session whose candidate claims something."""

    def made(root: Path) -> Verdict:
        return Session(root, overrides, candidate=claiming(claim)).candidate(**candidate).judge().verdict

    return made


def claims_memory(claim: Mapping[str, object], mib: float) -> Made:
    """The same, on a GPU with so much free memory in the candidate."""

    def made(root: Path) -> Verdict:
        case = seen_case(root, only(Arm.CANDIDATE, free={"before": 9_900, "idle": mib, "long": mib, "end": mib}))
        return judge_case(replace(case, plan=case.plan.model_copy(update={"candidate": claiming(claim)})))

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


def changed_once_sealed(bundle: Bundle) -> None:
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
    place: dict[str, Any] = {"window": "request-kinds/0/0", "step": Step.REQUEST_KINDS, "kind": kind}
    if complete:
        return asked(**place)
    nothing: dict[str, Any] = {"event_ns": (), "event_tokens": (), "usage": None, "finish_reason": None}
    return asked(**place, **nothing, status=400, error="HTTP 400: refused")


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
