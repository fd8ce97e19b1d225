"""How long to wait before a request is made again, and when to give up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.errors import SetupFailure

FIRST_S = 1.0
"""Doubled with every failure in a row."""
LIMITED_S = 60.0
"""GitHub asks for a minute at least where it names no time."""
ATTEMPTS = 6


@dataclass
class Patience:
    """Waits, within a bound on all waiting together."""

    bound_s: float = 300.0
    now: Callable[[], float] = time.time
    """Seconds since the epoch, as GitHub counts them."""
    sleep: Callable[[float], None] = time.sleep
    waited_s: float = field(default=0.0, init=False)

    def after_failure(self, attempt: int, what: str) -> None:
        """Wait after the attempt of this number, from 0.

        Raises:
            SetupFailure: it was the last one, or the bound is reached.
        """
        if attempt + 1 >= ATTEMPTS:
            raise SetupFailure(f"{what}, {ATTEMPTS} times in a row; try again later")
        self._wait(FIRST_S * 2**attempt, what)

    def after_limit(self, headers: Mapping[str, str], attempt: int, what: str) -> None:
        """Wait as long as a rate limit says.

        Raises:
            SetupFailure: that is longer than the bound allows, or the limit never ends.
        """
        if attempt + 1 >= ATTEMPTS:
            raise SetupFailure(f"{what}: the rate limit holds after {ATTEMPTS} attempts; try again later")
        self._wait(self._asked(headers, attempt), f"{what}: rate limit")

    def _asked(self, headers: Mapping[str, str], attempt: int) -> float:
        after, reset = _number(headers.get("Retry-After")), _number(headers.get("X-RateLimit-Reset"))
        if after is not None:
            return after
        if reset is not None and headers.get("X-RateLimit-Remaining") == "0":
            return max(1.0, reset - self.now() + 1.0)
        return float(LIMITED_S * 2**attempt)

    def _wait(self, seconds: float, what: str) -> None:
        if self.waited_s + seconds > self.bound_s:
            raise SetupFailure(
                f"{what}: to go on takes {seconds:,.0f} s more of waiting, {self.waited_s:,.0f} s are spent, and "
                f"--max-wait allows {self.bound_s:,.0f} s in all"
            )
        self.waited_s += seconds
        self.sleep(seconds)


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None
