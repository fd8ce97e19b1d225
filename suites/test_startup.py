"""The launch comes up, is the right server, and serves one request in full.

The launch itself is the measurement: the `server` fixture starts it, and the judge reads phases,
KV tokens and cache proof from its log and timeline.
"""

from __future__ import annotations

import pytest

from harness.session.live import LiveLaunch

pytestmark = pytest.mark.course("readiness")


def test_served(server: LiveLaunch) -> None:
    assert server.died() is None, "the server ended right after it was ready"
