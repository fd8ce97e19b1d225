"""The first prompt of each length: where kernels compile late and memory goes for good."""

from __future__ import annotations

import pytest

from harness.config.course import Context
from harness.session.live import LiveLaunch

pytestmark = pytest.mark.course("first-prompt")


def test_first_prompt(server: LiveLaunch, context: Context) -> None:
    [(request, _)] = server.first_prompt(context)
    assert request.complete, request.error or f"not served in full: {request}"
