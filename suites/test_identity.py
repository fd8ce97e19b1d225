"""The same greedy prompts twice: each launch is its own repeat baseline."""

from __future__ import annotations

import pytest

from harness.session.follow_up import follow_up
from harness.session.live import LiveLaunch


@pytest.mark.course("follow-up")
def test_first_differences_are_asked_again(server: LiveLaunch) -> None:
    """Where an earlier launch of the other arm answered otherwise, this one shows its logprobs there."""
    answers = follow_up(server)
    if not answers:
        pytest.skip("no earlier launch of the other arm answered otherwise")
    for request, output in answers:
        assert request.complete, request.error or f"not served in full: {request}"
        assert output.top_logprobs, f"request {request.request} came without logprobs"


@pytest.mark.course("identity")
def test_outputs_are_whole(server: LiveLaunch) -> None:
    for request, output in server.identity():
        assert request.complete, request.error or f"not served in full: {request}"
        assert output.sha256, f"request {request.request} produced nothing to compare"
