"""What must happen as a whole happens in another thread than the main one, where Ctrl-C raises."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import NoReturn, TypeVar

_workers: dict[int, SimpleQueue[Callable[[], None]]] = {}
"""By the process's id: a fork has none of its parent's threads."""
T = TypeVar("T")


def uninterrupted(work: Callable[[], T]) -> T:
    """Do something that must happen as a whole: a line of the journal and the bytes that it tells of.

    Ctrl-C and SIGTERM raise in the main thread and nowhere else, so another thread does it, and does it to the end.
    A signal's handler or the collector may come here amidst a hand-over: nothing holds a lock then that it would want.
    """
    if threading.current_thread() is not threading.main_thread() or sys.is_finalizing():
        return work()
    answer: SimpleQueue[Callable[[], T]] = SimpleQueue()

    def answered() -> None:
        try:
            value = work()
        except BaseException as e:  # noqa: BLE001  # whatever it is, it is raised where it was asked for
            answer.put(partial(_raise, e))
        else:
            answer.put(lambda: value)

    try:
        (_workers.get(os.getpid()) or _start_worker()).put(answered)
    except RuntimeError:  # the interpreter ends, and starts no thread any more
        return work()
    return answer.get()()


def _start_worker() -> SimpleQueue[Callable[[], None]]:
    """Start the thread that this process's work is done in; one that was started amidst this is as good."""
    handed: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def serve() -> None:
        while True:
            handed.get()()

    threading.Thread(target=serve, name="pipe", daemon=True).start()
    atexit.register(uninterrupted, int)  # what was handed over before Ctrl-C ended everything is done by then
    return _workers.setdefault(os.getpid(), handed)


def _raise(error: BaseException) -> NoReturn:
    try:
        raise error
    finally:
        del error  # its traceback holds this frame: neither keeps the other until the collector comes
