"""Wait for what others do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import requests

T = TypeVar("T")


def until(look: Callable[[], T], timeout_s: float = 20.0) -> T:
    """What `look` returns, as soon as that is true."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
        time.sleep(0.02)
    return found


def answers(url: str) -> bool:
    """Whether a GET is answered with 200 now."""
    try:
        with requests.Session() as session:
            session.trust_env = False
            return session.get(url, timeout=2).status_code == 200
    except requests.RequestException:
        return False


def until_answers(url: str) -> None:
    """Wait until a GET is answered with 200."""
    until(lambda: answers(url))
