"""The thermal gate, once per lane of GPUs: nothing is measured before the cards are as warm as they get."""

from __future__ import annotations

import pytest

from harness.session.live import LiveLaunch
from harness.session.settling import settle


@pytest.mark.course("settling")
def test_temperature_settles(server: LiveLaunch) -> None:
    """Never fails: what was reached is judged from the samples, and a card that does not settle is only named."""
    settle(server)
