"""Prefill and decode rates; the figures are taken by the judge from the recorded times and counters."""

from __future__ import annotations

import pytest

from harness.config.course import Context
from harness.session.live import LiveLaunch


@pytest.mark.course("prefill")
def test_prefill(server: LiveLaunch, context: Context) -> None:
    for request, _ in server.prefill(context):
        assert request.complete, request.error or f"not served in full: {request}"


@pytest.mark.course("decode")
def test_decode(server: LiveLaunch, context: Context) -> None:
    for request, _ in server.decode(context):
        assert request.complete, request.error or f"not served in full: {request}"
