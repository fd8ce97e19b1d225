"""What must be equal for two figures to be comparable, as a hash and field by field.

The software under test is no part of it: engine, image and patches are what a comparison is about.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from harness.config.model import Serve
from harness.judge.case import Case, Cell
from harness.judge.rows.resolved import chosen
from harness.records import HostFacts, Lock, Plan, Row
from harness.words import Arm, Warmup

Identity = Mapping[str, str]
"""Field -> its value as JSON with sorted keys."""

HOST = "host class"


@dataclass(frozen=True)
class Place:
    """Where a figure is measured: the cell, with its caches as proven or as hoped for, and the context."""

    mode: str
    warmup: Warmup
    cache: str
    context_tokens: int | None


def identity(case: Case, cell: Cell, context_tokens: int | None) -> Identity:
    """Every field of the identity of a figure."""
    resolved = {
        f"resolved by the {arm}'s engine": json.dumps(chosen(launches), sort_keys=True) for arm, launches in cell.arms()
    }
    return {**planned_identity(case, cell, context_tokens), **resolved}


def planned_identity(case: Case, cell: Cell, context_tokens: int | None) -> Identity:
    """Without what only a log tells: the identity by which history was asked before the first launch."""
    place = Place(cell.mode, cell.warmup, cell.cache_label, context_tokens)
    return identity_of(case.plan, case.run.host, case.locks, place)


def host_class(host: HostFacts) -> dict[str, object]:
    """What makes two hosts ones of a class: their random ids are no part of it."""
    return {
        "system": host.system,
        "processor": host.processor,
        "cores": host.cores,
        "memory_gib": round(host.memory_mib / 1024),  # the kernel's share of it moves by some MiB
        "gpus": host.gpus,
    }


def identity_of(plan: Plan, host: HostFacts, locks: Mapping[Arm, Lock], place: Place) -> Identity:
    """The identity from what is known before the first launch."""
    profile = plan.profile
    fields: dict[str, object] = {
        "measurement version": plan.measurement,
        HOST: host_class(host),
        "profile": profile.name,
        "launcher": profile.launcher,
        "course": profile.course.model_dump(mode="json"),
        "seed": plan.prompt_seed,
        "flags": _serve(profile.serve),
        "mode": {"name": place.mode, **_serve(profile.modes[place.mode])},
        "warm-up": {"name": place.warmup, **(_serve(profile.warmup_off) if place.warmup is Warmup.NONE else {})},
        "cache": place.cache,
        "context": place.context_tokens,
    }
    for arm in Arm:
        lock = locks[arm]
        fields[f"model of the {arm}"] = lock.model_sha256 or lock.model
        fields[f"flags of the {arm}"] = _serve(plan.stack(arm).serve)
    return {name: json.dumps(value, sort_keys=True) for name, value in fields.items()}


def identity_sha256(fields: Identity) -> str:
    """Hash of an identity."""
    return hashlib.sha256(json.dumps(dict(fields), sort_keys=True).encode()).hexdigest()


def different(one: Identity, other: Identity) -> list[str]:
    """Names of the fields that differ, in a fixed order."""
    return [name for name in one if one[name] != other.get(name)] + [name for name in other if name not in one]


def difference_text(one: Identity, other: Identity, name: str) -> str:
    """`seed: 0 vs 1`, and of a table the keys that differ."""
    ours, theirs = (json.loads(x[name]) if name in x else None for x in (one, other))
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        return f"{name}: {_short(ours)} vs {_short(theirs)}"
    parts = [
        f"{key} {_short(ours.get(key))} vs {_short(theirs.get(key))}"
        for key in dict.fromkeys(chain(ours, theirs))
        if ours.get(key) != theirs.get(key)
    ]
    return f"{name}: {', '.join(parts)}"


def with_identities(case: Case, rows: Iterator[Row]) -> Iterator[Row]:
    """Rows of a cell with the hash of what their figures may be compared with."""
    cells = {(c.mode, c.warmup, c.cache_label): c for c in case.cells}
    in_original = case.original_cells
    for row in rows:
        cell = cells.get((row.mode, row.warmup, row.cache)) if row.mode and row.warmup and row.cache else None
        if cell is None:
            yield row
        else:
            sha256 = identity_sha256(identity(case, cell, row.context_tokens))
            yield row.model_copy(update={"cell_sha256": in_original.get(sha256, sha256)})


def planned_sha256(case: Case, cell: Cell, context_tokens: int | None) -> str:
    """Hash of the planned identity; in a bundle whose private words were removed that of its original."""
    sha256 = identity_sha256(planned_identity(case, cell, context_tokens))
    return case.original_cells.get(sha256, sha256)


def _serve(serve: Serve) -> dict[str, object]:
    return serve.model_dump(mode="json")


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
