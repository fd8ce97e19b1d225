"""What a verdict is about, in a few lines: profile, arms, host, session, and what its evidence is known by."""

from __future__ import annotations

from harness.judge.case import Case
from harness.observe.log import Kind
from harness.records import Verdict
from harness.report.about import about
from harness.report.images import head_names
from harness.report.launches import model_text, stack_differences
from harness.report.sealing import is_sealed
from harness.report.text import plural, shortened
from harness.words import Arm

Fact = tuple[str, str]
"""Name and text."""


def session_facts(case: Case, verdict: Verdict) -> list[Fact]:
    """Lines below the verdict. They rest on evidence alone, so that the same evidence gives the same page."""
    plan, run, itself = case.plan, case.run, about(case, verdict)
    smoke = ", smoke" if plan.smoke else ""
    selection = f", selection {run.selection}" if run.selection else ""
    return [
        ("profile", f"{plan.profile.name}{smoke}: {plan.profile.description}"),
        *((str(arm), arm_text(case, arm)) for arm in Arm),
        ("host", host_text(case)),
        ("session", f"{run.session}, {run.started_wall} to {run.ended_wall or 'no recorded end'}"),
        ("plan", f"{plural(len(plan.launches), 'launch', 'launches')}, seed {plan.seed}{selection}"),
        ("challenge", itself.challenge or "none: nothing from outside dates this run"),
        ("evidence root", f"{verdict.evidence_root_sha256}{'' if is_sealed(case) else ', not sealed'}"),
        ("statements", itself.signature or "not signed"),
        ("ledger", itself.sessions or "no session ledger"),
    ]


def arm_text(case: Case, arm: Arm) -> str:
    """`patched: vLLM 0.25.1, forged model, ...; vllm #258 63b77c803149 merged; --max-num-seqs 4`."""
    lock, stack = case.locks[arm], case.plan.stack(arm)
    image = [f"image {lock.image.image_id.removeprefix('sha256:')[:12]}"] if lock.image else []
    heads = [shortened(head_names(case, arm), 6)] if head_names(case, arm) else []
    changes = [shortened(stack_differences(case, arm), 6)] if stack_differences(case, arm) else []
    parts = [engine_text(case, arm), model_text(lock), *image, *heads, *changes]
    return f"{stack.name}: {'; '.join(parts)}"


def engine_text(case: Case, arm: Arm) -> str:
    """`vLLM 0.32.0`: as the lock has it, and what the logs say where that is something else."""
    launches = [case.launches[x.id] for x in case.plan.launches if x.arm is arm]
    events = [e for x in launches for kind in (Kind.ENGINE_BANNER, Kind.VERSION) for e in x.of_kind(kind)]
    printed = sorted({str(e.values["version"]) for e in events if "version" in e.values})
    known = case.locks[arm].engine_version
    return f"vLLM {known}" if printed in ([], [known]) else f"vLLM {known}, by its log {' and '.join(printed)}"


def host_text(case: Case) -> str:
    """Processor, memory and GPUs; equal GPUs counted."""
    host = case.run.host
    gpus = [f"{host.gpus.count(gpu)} x {gpu}" for gpu in dict.fromkeys(host.gpus)]
    return ", ".join([host.processor, plural(host.cores, "core"), f"{host.memory_mib:,} MiB", *(gpus or ["no GPU"])])
