"""Bundles on disk, written through the real records, of sessions that never ran."""

from __future__ import annotations

from pathlib import Path

from harness.config.course import Context, Course
from harness.config.model import Mode, Model, PlanConfig, Profile, Stack
from harness.evidence.bundle import Bundle, write_record
from harness.evidence.manifest import seal
from harness.records import HostFacts, Lock, Origin, Plan, PlannedLaunch, Run
from harness.words import Arm, Cache, Warmup
from tests.report.writing import CONTEXT, MODEL, Faults, LaunchWriter

ENDED = "2026-01-02T03:09:00+00:00"


def launch(ordinal: int, arm: Arm, cache: Cache = Cache.COLD, pair: int = 0) -> PlannedLaunch:
    return PlannedLaunch(
        ordinal=ordinal,
        id=f"{ordinal:03d}-{arm}-mtp1-engine-{cache}",
        lane=0,
        arm=arm,
        mode="mtp1",
        warmup=Warmup.ENGINE,
        cache=cache,
        pair=pair,
    )


def plan(stacks: tuple[Stack, Stack] | None = None) -> Plan:
    mode = Mode(flags={"speculative-config": {"method": "mtp", "num_speculative_tokens": 1}}, draft_tokens=1)
    control, candidate = stacks or (
        Stack(name="base", description="as it is"),
        Stack.model_validate({"name": "patched", "description": "with it", "serve": {"flags": {"max-num-seqs": 4}}}),
    )
    return Plan(
        session="20260102T030405Z-tiny-abcdef",
        profile=Profile(
            name="tiny",
            description="a profile of tests",
            model=Model(path=MODEL),
            modes={"mtp1": mode},
            plan=PlanConfig(modes=("mtp1",), warmups=(Warmup.ENGINE,), caches=(Cache.COLD,)),
            course=Course(contexts=(Context(prompt_tokens=CONTEXT),)),
        ),
        control=control,
        candidate=candidate,
        smoke=False,
        seed=5,
        launches=(launch(1, Arm.CONTROL), launch(2, Arm.CANDIDATE)),
        estimate_s=1.0,
        primary_metrics=(),
    )


def make_bundle(root: Path, faults: Faults | None = None, of: Plan | None = None) -> Bundle:
    """A session of two cold launches, control and candidate, each with its whole course."""
    faults, of, bundle = faults or Faults(), of or plan(), Bundle(root)
    root.mkdir(parents=True)
    write_record(bundle.plan_file, of)
    write_record(
        bundle.run_file,
        Run(
            session=of.session,
            started_wall="2026-01-02T03:04:05+00:00",
            ended_wall=None if faults.interrupted else ENDED,
            harness=Origin(version="0.1.0", commit=faults.commit, dirty=faults.dirty, packages={}),
            host=HostFacts(system="Linux", processor="a CPU", cores=2, memory_mib=1000, gpus=()),
            selection="",
            interrupted=faults.interrupted,
        ),
    )
    for arm in Arm:
        write_record(
            bundle.lock_file(arm),
            Lock(
                arm=arm,
                stack=of.stack(arm).name,
                engine_version="0.32.0",
                model=MODEL,
                model_sha256={"model.safetensors": "c0ffee" * 10 + "1234"},
                known_answers=False,
            ),
        )
    for planned in of.launches:
        if planned.id not in faults.not_started:
            LaunchWriter(bundle.launch(planned.id), planned, faults).write()
    seal(root)
    return bundle
