"""Each kind of request once, last of all: which kind needs which kernel, and how much memory it takes."""

from __future__ import annotations

import pytest

from harness.session.kinds import ask_kinds
from harness.session.live import LiveLaunch

pytestmark = pytest.mark.course("request-kinds")


def test_every_kind_is_served(server: LiveLaunch) -> None:
    # All of them, also after one that failed: a kind that one arm refuses says nothing about the next.
    faults = [
        f"{kind.name}: {request.error or f'not served in full: {request}'}"
        for kind, request in ask_kinds(server)
        if not request.complete
    ]
    assert not faults, "; ".join(faults)
    assert server.died() is None, f"the server ended under the last kind: {server.died()}"
