"""Everything that the arms were run with, setting by setting: what differs, and what both share."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.config.flags import FlagValue, to_argv
from harness.judge.case import Case
from harness.observe.log.facts import facts
from harness.records import Lock, PlannedLaunch
from harness.report.launches import in_order
from harness.report.text import last_component
from harness.session.compose import environment_layers, server_flags
from harness.words import Arm


@dataclass(frozen=True)
class Setting:
    """One setting; None where an arm has none of that name."""

    group: str
    name: str
    control: str | None
    candidate: str | None

    @property
    def differs(self) -> bool:
        """The arms were not run with the same."""
        return self.control != self.candidate


def settings(case: Case) -> list[Setting]:
    """Flags and environment by mode, images, heads, models, and what the engines resolved."""
    sides = [dict(_side(case, arm)) for arm in Arm]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [Setting(group, name, *(side.get((group, name)) for side in sides)) for group, name in names]


Item = tuple[tuple[str, str], str]


def _side(case: Case, arm: Arm) -> Iterator[Item]:
    lock, stack = case.locks[arm], case.plan.stack(arm)
    yield ("stack", "name"), stack.name
    yield ("stack", "engine"), f"vLLM {lock.engine_version}"
    yield ("model", "served"), "forged model" if lock.known_answers else last_component(lock.model)
    yield from ((("model", file), f"sha256 {digest}") for file, digest in lock.model_sha256.items())
    yield from _image(lock)
    if (stack_lock := case.stack_locks.get(arm)) is not None:
        for component in stack_lock.components:
            yield ("heads", f"{component.name} base"), component.base_commit
            yield ("heads", f"{component.name} tree"), component.tree
            for head in component.heads:
                yield ("heads", f"{component.name} #{head.pr}"), f"{head.head or head.expected} {head.disposition}"
    for place, launch in _representatives(case, arm).items():
        for name, value in server_flags(case.plan.profile, stack, launch).items():
            yield (f"flags, {place}", f"--{name}"), _flag(name, value)
        for layer in environment_layers(case.plan.profile, stack, launch):
            yield from (((f"environment, {place}", name), _shown(value)) for name, value in layer.items())
    for place, values in _resolved(case, arm).items():
        yield from (((f"resolved, {place}", name), " or ".join(sorted(found))) for name, found in values.items())


def _image(lock: Lock) -> Iterator[Item]:
    if (image := lock.image) is not None:
        yield ("image", "id"), image.image_id
        yield ("image", "base"), image.base_reference
        yield ("image", "lock sha256"), image.lock_sha256 or "none: nothing was built"
        yield ("image", "builder"), image.builder or "none"


def _flag(name: str, value: FlagValue) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else " ".join(to_argv({name: value})[1:])


def _representatives(case: Case, arm: Arm) -> dict[str, PlannedLaunch]:
    """One launch of each mode and warm-up: all of them are started with the same."""
    found: dict[str, PlannedLaunch] = {}
    for planned in in_order(case):
        if planned.arm is arm:
            found.setdefault(f"{planned.mode} {planned.warmup}", planned)
    return dict(sorted(found.items()))


def _resolved(case: Case, arm: Arm) -> Mapping[str, dict[str, set[str]]]:
    """What the engines of an arm printed before they were ready, by mode and by name of the fact."""
    found: dict[str, dict[str, set[str]]] = {}
    for planned in in_order(case):
        launch = case.launches[planned.id]
        if planned.arm is arm and launch.record is not None:
            resolved = facts(e for e in launch.log if launch.before_ready(e)).resolved
            for name, fact in resolved.items():
                if fact is not None:
                    found.setdefault(planned.mode, {}).setdefault(name, set()).add(_shown(fact.value))
    return dict(sorted(found.items()))


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
