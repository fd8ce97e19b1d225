"""Drafts and accepted drafts, from the server's counters around each window."""

from __future__ import annotations

import pytest

from harness.judge.read import read_launch
from harness.session.live import LiveLaunch
from harness.words import Step


@pytest.mark.course("identity")
def test_counters_agree_with_the_client(server: LiveLaunch) -> None:
    """Generated = requests + drafts + accepted - trimmed, in every window (one draft token)."""
    evidence = read_launch(server.folder)
    windows = [w for w in evidence.windows if w.window.step is not Step.READINESS]
    if not windows:
        pytest.skip("no request was measured in this launch")
    for window in windows:
        assert window.fault is None, f"{window.window.window}: {window.fault}"
