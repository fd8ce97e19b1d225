"""A few seconds in which Ctrl-C and a service manager's SIGTERM wait, because what is done must be done whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let no signal end what happens here: a session that was stopped is sealed and judged, however impatient one is.

    A signal that comes meanwhile is over with the session, whose exit code says that it was stopped. In a thread
    that is not the main one nothing is to be done: signals do not come there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def wait(number: int, frame: FrameType | None) -> None:
        del number, frame

    before = {number: signal.signal(number, wait) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
