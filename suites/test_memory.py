"""Memory was watched while the launch ran; what it showed is the judge's to say."""

from __future__ import annotations

import pytest

from harness.session.live import LiveLaunch


@pytest.mark.course("probes")
def test_server_is_visible(server: LiveLaunch) -> None:
    """An empty series must not pass for a server that needs no memory."""
    assert server.resident_mib() > 0, "no process of the server could be seen"
