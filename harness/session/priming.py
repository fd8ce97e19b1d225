"""Requests before anything is measured, each recorded: the first one of all, and the priming ladder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.client.asks import Sampling
from harness.launch.launcher import LaunchFailed
from harness.records import ENGINE_STAGE
from harness.session.asking import Wanted
from harness.words import Step

if TYPE_CHECKING:  # it primes itself
    from harness.session.live import LiveLaunch


def serve_first(server: LiveLaunch) -> str | None:
    """One short completion; what was wrong with the answer, or None."""
    deadline_s = server.plan.profile.timeouts.first_request_s
    [(request, _)] = server.ask(Step.READINESS, [Wanted(16, 8)], deadline_s=deadline_s)
    if request.complete:
        return None
    return request.error or (
        f"asked for {request.asked_tokens} tokens, got {sum(request.event_tokens)} "
        f"(usage {request.usage}, finish reason {request.finish_reason})"
    )


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
