"""The priming ladder: requests that meet a server's kernels before anything is measured, each recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.client.asks import Sampling
from harness.launch.launcher import LaunchFailed
from harness.records import ENGINE_STAGE
from harness.session.asking import Wanted
from harness.words import Step

if TYPE_CHECKING:  # it primes itself
    from harness.session.live import LiveLaunch


def prime(server: LiveLaunch) -> None:
    """Ask for every rung of the course's ladder.

    Raises:
        LaunchFailed: a request was not served in full.
    """
    for number, rung in enumerate(server.plan.profile.course.ladder):
        sampling = Sampling(temperature=rung.temperature, top_p=rung.top_p, seed=rung.seed)
        wanted = [Wanted(rung.prompt_tokens, rung.output_tokens, sampling)] * rung.concurrent
        for request, _ in server.ask(Step.LADDER, wanted, pass_number=number, concurrent=rung.concurrent):
            if not request.complete:
                death = server.death()
                told = f"; {death.reason}" if death else ""
                stage = ENGINE_STAGE if death and death.stage == ENGINE_STAGE else "ladder"
                raise LaunchFailed(stage, f"rung {number}: {request.error or 'not served in full'}{told}")
