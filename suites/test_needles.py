"""Facts at five depths of the longest prompt: short answers can be right while long contexts are corrupt."""

from __future__ import annotations

import pytest

from harness.session.live import LiveLaunch
from harness.session.needles import ask_needles

pytestmark = pytest.mark.course("needle")


def test_needles_are_answered(server: LiveLaunch) -> None:
    answers = ask_needles(server)
    if not answers:
        pytest.skip('needles are words: they need course.prompts = "text"')
    for request, _ in answers:
        assert request.complete, request.error or f"not served in full: {request}"
