"""From a profile and two stacks to an ordered list of launches.

The order inside a lane: burn-in, then per mode the cold launches (whose caches the warm ones copy),
then the warm pairs, the two launches of a pair side by side, and at the end the traces. A pair whose
measurement is void is run once more, at once. Pairs come in
blocks of two, AB BA or BA AB by a seeded coin, so that a steady drift of the host cancels (DESIGN 6).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence

from harness.config.model import Profile, Stack, planned_checks
from harness.records import MEASUREMENT_VERSION, Plan, PlannedLaunch
from harness.records.statistics import Past
from harness.words import Arm, Cache, Warmup

AB = (Arm.CONTROL, Arm.CANDIDATE)
BA = (Arm.CANDIDATE, Arm.CONTROL)


def make_plan(
    session: str,
    profile: Profile,
    control: Stack,
    candidate: Stack,
    *,
    smoke: bool = False,
    history: tuple[Past, ...] = (),
) -> Plan:
    """The plan of a session. The same profile and seed give the same launches in the same order.

    What is known of the host's noise is frozen in it: history that grows later changes no verdict.

    Raises:
        ConfigError: the arms cannot be checked alike.
    """
    planned_checks(profile, control, candidate)
    launches = tuple(_numbered(profile))
    estimate = profile.estimate
    first = [x for x in launches if x.look == 1]
    starts = sum(estimate.start_cold_s if x.cache is Cache.COLD else estimate.start_warm_s for x in first)
    lanes = len({x.lane for x in launches})
    return Plan(
        session=session,
        profile=profile,
        control=control,
        candidate=candidate,
        smoke=smoke,
        seed=profile.plan.seed,
        launches=launches,
        reruns=tuple(_reruns(launches)) if profile.plan.rerun_void else (),
        estimate_s=(starts + estimate.course_s * len(first)) / lanes,
        primary_metrics=_primary_metrics(profile),
        measurement=MEASUREMENT_VERSION,
        history=history,
        looks=2 if profile.plan.reserve else 1,
        challenge=profile.plan.challenge,
    )


def _primary_metrics(profile: Profile) -> tuple[str, ...]:
    """Rows that decide, fixed before anything is measured: later choices cannot favour a result."""
    return tuple(
        f"{mode} {metric}"
        for mode in profile.plan.modes
        if Cache.WARM in profile.plan.caches
        for metric in (
            *(f"prefill {c.prompt_tokens}" for c in profile.course.contexts),
            *(f"{_decode(profile, mode)} {c.prompt_tokens}" for c in profile.course.contexts),
            *(
                f"{_decode(profile, mode)}, {n} streams {c.prompt_tokens}"
                for c in profile.course.contexts
                for n in c.streams
                if n > 1
            ),
            "start-up",
        )
    )


def _decode(profile: Profile, mode: str) -> str:
    """Under MTP tokens/s are engine speed times acceptance, so steps decide."""
    return "decode steps" if profile.modes[mode].draft_tokens else "decode"


def _numbered(profile: Profile) -> Iterator[PlannedLaunch]:
    lanes = min(profile.host.lanes, len(profile.plan.modes))
    ordinal = 0
    for lane in range(lanes):
        cold_of: dict[tuple[Arm, str], str] = {}
        every = [(*x, False) for x in _lane(profile, lane, lanes)] + [(*x, True) for x in _traces(profile, lane, lanes)]
        for arm, mode, warmup, cache, pair, trace in every:
            ordinal += 1
            kind = "burn-in" if pair < 0 else f"{warmup}-{cache}{'-trace' if trace else ''}"
            launch_id = f"{ordinal:03d}-{arm}-{mode}-{kind}"
            if cache is Cache.COLD and pair >= 0 and not trace:
                cold_of.setdefault((arm, mode), launch_id)
            yield PlannedLaunch(
                ordinal=ordinal,
                id=launch_id,
                lane=lane,
                arm=arm,
                mode=mode,
                warmup=warmup,
                cache=cache,
                pair=pair,
                look=1 if pair < profile.plan.pairs else 2,
                warm_from=cold_of.get((arm, mode)) if cache is Cache.WARM else None,
                trace=trace,
            )


def _reruns(launches: Sequence[PlannedLaunch]) -> Iterator[PlannedLaunch]:
    """The launches of every pair once more, at once after it: what drifts over the session cannot come between."""
    measured = [x for x in launches if x.measured]
    pairs = dict.fromkeys((x.mode, x.warmup, x.cache, x.pair) for x in measured)
    for key in pairs:
        pair = [x for x in measured if (x.mode, x.warmup, x.cache, x.pair) == key]
        last = pair[-1].ordinal
        for turn, launch in enumerate(pair, 1):
            changed = {"ordinal": last, "turn": turn, "id": f"{launch.id}-again", "again_of": launch.id}
            yield launch.model_copy(update=changed)


def _lane(profile: Profile, lane: int, lanes: int) -> Iterator[tuple[Arm, str, Warmup, Cache, int]]:
    """Launches of one lane. A mode stays in one lane, and so does every pair and its caches."""
    plan = profile.plan
    modes = plan.modes[lane::lanes]
    for number in range(plan.burn_in):
        yield AB[number % 2], modes[0], plan.warmups[0], Cache.COLD, -1
    for mode in modes:
        for warmup in _cold_warmups(profile):
            # Also where only warm cells are judged: a warm cache is one that a cold launch left.
            for arm in _pair_order(plan.seed, f"{mode}/{warmup}/cold", 0):
                yield arm, mode, warmup, Cache.COLD, 0
        if Cache.WARM in plan.caches:
            for pair in range(plan.pairs + plan.reserve):
                for warmup in plan.warmups:
                    for arm in _pair_order(plan.seed, f"{mode}/{warmup}", pair):
                        yield arm, mode, warmup, Cache.WARM, pair


def _traces(profile: Profile, lane: int, lanes: int) -> Iterator[tuple[Arm, str, Warmup, Cache, int]]:
    """Launches per arm and mode with the tracer inside, after all that is measured.

    Cold where nothing else was asked for, since a kernel library that finds its own files compiles nothing that
    could be seen; warm ones show what it loads from them. With the engine's warm-ups alone, where they are planned:
    the state that a user's first long prompt meets.
    """
    plan = profile.plan
    warmup = Warmup.ENGINE if Warmup.ENGINE in plan.warmups else plan.warmups[0]
    for mode in plan.modes[lane::lanes] if plan.trace else ():
        for cache in plan.trace_caches:
            for arm in AB:
                yield arm, mode, warmup, cache, 0


def _cold_warmups(profile: Profile) -> tuple[Warmup, ...]:
    """Cold starts are dear: one warm-up state each, unless cold is all that was asked for."""
    warmups = profile.plan.warmups
    if Cache.WARM not in profile.plan.caches:
        return warmups
    return (Warmup.ENGINE,) if Warmup.ENGINE in warmups else warmups[:1]


def _pair_order(seed: int, cell: str, pair: int) -> tuple[Arm, Arm]:
    block, second = divmod(pair, 2)
    digest = hashlib.sha256(f"order/1/{seed}/{cell}/{block}".encode()).digest()
    first = AB if random.Random(digest).random() < 0.5 else BA  # noqa: S311  # a coin, not a secret
    return first if not second else (first[1], first[0])
