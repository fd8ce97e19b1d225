"""What the index keeps of a bundle, read from its evidence alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from harness.config.model import Stack
from harness.judge.case import Case
from harness.judge.cell_identity import host_class, planned_sha256
from harness.judge.family import primary_name
from harness.judge.verdict import Judged
from harness.records import HostFacts, Lock
from harness.words import Arm, Cache

Values = dict[str, object]
"""Columns of one row, without the keys that tie it to others."""


@dataclass(frozen=True)
class MetricEntry:
    """One metric in one cell of one session."""

    values: Values
    ratios: tuple[float, ...]


@dataclass(frozen=True)
class ComponentEntry:
    """A source tree of an arm's image, with the heads on it."""

    values: Values
    heads: tuple[Values, ...]


@dataclass(frozen=True)
class ArmEntry:
    """What an arm was."""

    values: Values
    components: tuple[ComponentEntry, ...]


@dataclass(frozen=True)
class Entry:
    """A session."""

    session: Values
    host: Values
    arms: tuple[ArmEntry, ...]
    metrics: tuple[MetricEntry, ...]


def read_entry(found: Judged) -> Entry:
    """What the index keeps of a session."""
    case, verdict = found.case, found.verdict
    plan, run = case.plan, case.run
    software = [software_sha256(case.locks[arm], plan.stack(arm)) for arm in Arm]
    return Entry(
        session={
            "root_sha256": verdict.evidence_root_sha256,
            "session": plan.session,
            "place": str(case.bundle.root),
            "profile": plan.profile.name,
            "kind": "A/A" if software[0] == software[1] else "A/B",
            "verdict": str(verdict.verdict),
            "exit_code": verdict.exit_code,
            "started_wall": run.started_wall,
            "ended_wall": run.ended_wall,
            "interrupted": run.interrupted,
            "measurement": plan.measurement,
            "smoke": plan.smoke,
            "seed": plan.seed,
            "harness_version": run.harness.version,
            "harness_commit": run.harness.commit,
            "harness_dirty": run.harness.dirty,
            "night": plan.night.date if plan.night else None,
            "anchor_sha256": plan.night.anchor if plan.night else None,
        },
        host=host_values(run.host),
        arms=tuple(_arm(case, arm) for arm in Arm),
        metrics=tuple(_metrics(case)),
    )


def host_values(host: HostFacts) -> Values:
    """A host by its random id and its class."""
    text = json.dumps(host_class(host), sort_keys=True)
    return {"host_id": host.id, "class_sha256": hashlib.sha256(text.encode()).hexdigest(), "class": text}


def software_sha256(lock: Lock, stack: Stack) -> str:
    """Hash over what an arm runs: two arms, or two nights' anchors, with the same one are the same thing.

    A lock stands for every byte of its image; a process of the host is known by its engine's version only.
    """
    image = lock.image
    what = f"engine {lock.engine_version}" if image is None else image.lock_sha256 or image.image_id
    tree = {"what": what, "model": lock.model_sha256 or lock.model, "serve": stack.serve.model_dump(mode="json")}
    return _sha256(tree)


def _arm(case: Case, arm: Arm) -> ArmEntry:
    lock, stack = case.locks[arm], case.plan.stack(arm)
    image = lock.image
    stack_lock = case.stack_locks.get(arm)
    return ArmEntry(
        values={
            "arm": str(arm),
            "stack": lock.stack,
            "software_sha256": software_sha256(lock, stack),
            "engine_version": lock.engine_version,
            "image_id": image.image_id if image else None,
            "base_reference": image.base_reference if image else None,
            "lock_sha256": image.lock_sha256 if image else None,
            "model_sha256": _sha256(lock.model_sha256 or lock.model),
        },
        components=tuple(
            ComponentEntry(
                values={
                    "component": c.name,
                    "repository": c.repository,
                    "base_commit": c.base_commit,
                    "tree": c.tree,
                },
                heads=tuple(
                    {"place": n, "pr": h.pr, "head": h.head, "disposition": str(h.disposition), "tree": h.tree}
                    for n, h in enumerate(c.heads)
                ),
            )
            for c in (stack_lock.components if stack_lock else ())
        ),
    )


def _metrics(case: Case) -> Iterator[MetricEntry]:
    cells = {(c.mode, c.warmup, c.cache): c for c in case.cells}
    for (mode, warmup, cache, name, context), judged in case.paired.items():
        if not judged.ratios:
            continue
        cell, tested = cells[mode, warmup, cache], judged.tested
        yield MetricEntry(
            values={
                "mode": mode,
                "warmup": str(warmup),
                "cache": str(cache),
                "proven": cell.cache_label,
                "name": name,
                "context_tokens": context,
                "cell_sha256": planned_sha256(case, cell, context),
                "is_primary": cache is Cache.WARM and primary_name(mode, name, context) in case.plan.primary_metrics,
                "word": str(judged.word),
                "pairs": len(judged.ratios),
                "mean": sum(judged.ratios) / len(judged.ratios),
                "own_sd": tested.own_sd if tested else None,
                "low_pct": tested.low_pct if tested else None,
                "high_pct": tested.high_pct if tested else None,
                "margin_pct": tested.margin_pct if tested else None,
            },
            ratios=judged.ratios,
        )


def _sha256(tree: object) -> str:
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()
