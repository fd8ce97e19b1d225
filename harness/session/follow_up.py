"""Ask again where the outputs of two arms part: the later launch tells what it thinks at that token."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from harness.client.asks import Sampling
from harness.evidence.bundle import LaunchDir, read_lines
from harness.records import OutputRecord, PlannedLaunch, RequestRecord
from harness.session.asking import Wanted
from harness.session.live import LiveLaunch
from harness.words import Step

MOST = 4
"""Prompts that are asked again in one launch, the first ones that differ."""

TOP = 5
"""Candidates whose logprobs are asked for, two at least."""


def follow_up(server: LiveLaunch) -> list[tuple[RequestRecord, OutputRecord]]:
    """One token after the common prefix of each prompt that an earlier launch of the other arm answered otherwise."""
    launches = server.folder.root.parent
    ours = _outputs(server.folder)
    theirs = next((found for x in _earlier(server) if (found := _outputs(LaunchDir(launches / x.id)))), {})
    parted = [
        (n, prefix) for n in sorted(ours.keys() & theirs.keys()) if (prefix := _common(ours[n], theirs[n])) is not None
    ]
    if not parted:
        return []
    tokens = server.plan.profile.course.identity_prompt_tokens
    wanted = [Wanted(tokens, 1, Sampling(logprobs=TOP), follows=(n, prefix)) for n, prefix in parted[:MOST]]
    return server.ask(Step.FOLLOW_UP, wanted)


def _earlier(server: LiveLaunch) -> Iterator[PlannedLaunch]:
    """Launches of the other arm in the same cell, that of the same pair first."""
    mine = server.launch
    others = [
        x
        for x in server.plan.possible
        if (x.mode, x.warmup, x.cache) == (mine.mode, mine.warmup, mine.cache)
        and x.arm is not mine.arm
        and x.place < mine.place
        and not x.burn_in
    ]
    yield from sorted(others, key=lambda x: (x.pair != mine.pair, x.turn != mine.turn, x.place))


def _outputs(folder: LaunchDir) -> dict[int, tuple[int, ...]]:
    """Token ids of the first identity pass, by prompt."""
    places = {
        r.request: r.index
        for r in read_lines(folder.requests_file, RequestRecord)
        if r.step is Step.IDENTITY and r.pass_number == 0 and r.complete
    }
    return {
        places[o.request]: o.token_ids
        for o in read_lines(folder.outputs_file, OutputRecord)
        if o.request in places and o.token_ids
    }


def _common(ours: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, ...] | None:
    """The tokens before the first difference; None where there is none."""
    if ours == theirs:
        return None
    return tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
