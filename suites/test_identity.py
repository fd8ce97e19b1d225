"""The same greedy prompts twice: each launch is its own repeat baseline."""

from __future__ import annotations

import pytest

from harness.session.live import LiveLaunch


@pytest.mark.course("identity")
def test_outputs_are_whole(server: LiveLaunch) -> None:
    for request, output in server.identity():
        assert request.complete, request.error or f"not served in full: {request}"
        assert output.sha256, f"request {request.request} produced nothing to compare"
