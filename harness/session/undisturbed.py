"""How a session hears of Ctrl-C, and when Ctrl-C and SIGTERM wait, because what is done must be done whole."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from types import FrameType

import pytest

INTERRUPTED = "stopped by the user or the system"
"""What is recorded of a session that ended so."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
AGAIN_S = 0.05
"""After which an interruption that was lost is asked for again: what lost it is over by then."""


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


@contextlib.contextmanager
def nothing_lost() -> Iterator[None]:
    """Ask again for an interruption that ended nothing, and say nothing of it to whoever else collects such errors.

    What is raised in a finalizer or in a weak reference's callback, Python drops: the session would go on as if nobody
    had wanted it to stop. Seen once in some hundreds of Ctrl-C's. SIGTERM must interrupt here, as SIGINT does.
    """
    before, lost = sys.unraisablehook, SimpleQueue[bool]()

    def ask_again() -> None:
        while lost.get():
            time.sleep(AGAIN_S)
            os.kill(os.getpid(), signal.SIGTERM)  # SIGINT may be ignored where a script started us

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            lost.put(True)  # takes no lock: the collector may come here amidst anything
        else:
            before(unraisable)

    threading.Thread(target=ask_again, name="interruptions", daemon=True).start()
    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        lost.put(False)


class Stopped:
    """A plugin of pytest that knows whether Ctrl-C or SIGTERM ended a run.

    pytest's own word for it, its exit status, is lost where writing down the interruption fails: then the run would
    look as if it had ended well, and nobody would seal the bundle.
    """

    def __init__(self) -> None:
        self.stopped = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Before anybody else writes anything."""
        self.stopped = True
