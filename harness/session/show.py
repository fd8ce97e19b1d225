"""A plan as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from harness.config.flags import to_argv
from harness.config.layers import leaves
from harness.config.model import Stack
from harness.records import Plan, PlannedLaunch
from harness.session.checking import checks_of
from harness.session.compose import server_flags
from harness.session.plan import make_plan
from harness.session.selection import Selection
from harness.words import Arm


def plan_lines(selection: Selection, *, verbose: bool) -> Iterator[str]:
    """What a session would do: launches in order, flags per arm and mode, time; with -v every value."""
    profile = selection.profile.model
    plan = make_plan(
        "(not started)", profile, selection.control.model, selection.candidate.model, smoke=selection.smoke
    )
    yield f"profile    {profile.name}: {profile.description}"
    yield f"           chosen because: {selection.why}"
    for arm in Arm:
        stack = plan.stack(arm)
        yield f"{arm:10} {stack.name}: {stack.description}"
        yield from (f"           {line}" for line in _image_lines(stack))
    if plan.control.name == plan.candidate.name:
        yield "           both arms are the same: this checks the harness and the host, not a patch"
    yield f"seed       {plan.seed}"
    if plan.challenge:
        yield f"challenge  {plan.challenge}"
    yield f"launches   {len(plan.launches)}, about {plan.estimate_s / 60:.0f} minutes"
    for launch in plan.launches:
        source = f"  caches of {launch.warm_from}" if launch.warm_from else ""
        yield f"  lane {launch.lane}  {launch.id}{source}{'  (only if inconclusive)' if launch.look > 1 else ''}"
    if plan.reruns:
        yield "           a pair whose measurement is void is run once more, at once; both stay (plan.rerun_void)"
    if checks := checks_of(plan):
        yield f"checks     {len(checks)} over the source of both arms, before the first launch"
    for check in checks:
        yield f"  {check.name}: {' '.join(check.command)}"
    yield "flags"
    for launch in _one_per_arm_and_mode(plan):
        flags = server_flags(profile, plan.stack(launch.arm), launch)
        yield f"  {launch.arm} {launch.mode}: {' '.join(to_argv(flags))}"
    if verbose:
        yield from _values(selection)


def _image_lines(stack: Stack) -> Iterator[str]:
    """The pinned base, and what goes onto it."""
    if stack.base is None:
        return
    yield f"image {stack.base.reference}{f' ({stack.base.release})' if stack.base.release else ''}"
    for component in stack.components:
        for head in component.heads:
            yield f"{component.name} #{head.pr} {head.head}{f' {head.title}' if head.title else ''}"
        for patch in component.patches:
            yield f"{component.name} patch {patch.path}"


def _one_per_arm_and_mode(plan: Plan) -> list[PlannedLaunch]:
    return list({(x.arm, x.mode): x for x in plan.launches}.values())


def _values(selection: Selection) -> Iterator[str]:
    for title, loaded in (
        ("profile", selection.profile),
        ("control", selection.control),
        ("candidate", selection.candidate),
    ):
        yield f"values of the {title}"
        for key, value in leaves(loaded.model.model_dump(mode="json")):
            yield f"  {key} = {value!r}  ({loaded.layers.origin(key)})"
