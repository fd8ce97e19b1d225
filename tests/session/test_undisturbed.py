"""A session that was stopped is sealed and judged, however often one asks it to stop."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.session import terminal
from harness.session.undisturbed import SIGNALS, nothing_lost, undisturbed
from harness.words import ExitCode

every_signal = pytest.mark.parametrize("number", SIGNALS, ids=[s.name for s in SIGNALS])


@pytest.fixture(autouse=True)
def as_in_a_session() -> Any:
    """Both signals interrupt, as the plugin sets them; put back afterwards."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@every_signal
def test_a_signal_waits_and_interrupts_again_afterwards(number: signal.Signals) -> None:
    with undisturbed():
        os.kill(os.getpid(), number)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


def test_in_another_thread_signals_are_left_as_they_are() -> None:
    def inside() -> None:
        with undisturbed():
            kept.append(signal.getsignal(signal.SIGTERM))

    kept: list[Any] = []
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert kept == [signal.default_int_handler]


class Finalized:
    """Where Python drops what is raised: in a finalizer, or in the callback of a weak reference."""

    def __init__(self, error: BaseException | None = None) -> None:
        self._error = error

    def __del__(self) -> None:
        if self._error is not None:
            raise self._error
        os.kill(os.getpid(), signal.SIGINT)


class Referred: ...


def wait_after(lose: Callable[[], None]) -> None:
    """As a session does that knows of nothing."""
    lose()
    time.sleep(10)


def lose_in_a_finalizer() -> None:
    Finalized()


def lose_in_a_callback() -> None:
    referred = Referred()
    reference = weakref.ref(referred, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del referred
    assert reference() is None


@pytest.mark.parametrize("lose", [lose_in_a_finalizer, lose_in_a_callback])
def test_an_interruption_that_python_drops_is_asked_for_again(
    lose: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with pytest.raises(KeyboardInterrupt), nothing_lost():
        wait_after(lose)
    assert told == []


def test_without_that_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_type))
    lose_in_a_callback()
    time.sleep(0.2)
    assert told == [KeyboardInterrupt]


def test_any_other_error_is_told_as_before_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_type))
    before = sys.unraisablehook
    with nothing_lost():
        Finalized(ValueError("of nobody's interest"))
        time.sleep(0.2)
    assert told == [ValueError]
    assert sys.unraisablehook is before


class Stopped:
    """`qualify run` without servers: what it opens, and how it ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.finished: list[str | None] = []
        bundle = SimpleNamespace(root=folder, plan=lambda: SimpleNamespace(launches=(), estimate_s=0.0))
        monkeypatch.setattr(terminal, "open_session", lambda *_, **__: (bundle, []))
        monkeypatch.setattr(terminal, "Display", lambda *_: SimpleNamespace(start=lambda: None, finish=lambda: None))
        monkeypatch.setattr(terminal, "finish", self._finish)

    def _finish(self, root: Path, interrupted: str | None) -> tuple[Any, list[str]]:
        del root
        os.kill(os.getpid(), signal.SIGTERM)  # the impatient one
        self.finished.append(interrupted)
        return SimpleNamespace(verdict=SimpleNamespace(exit_code=ExitCode.VOID)), ["sealed"]

    def run(self) -> int:
        loaded = SimpleNamespace(model=SimpleNamespace(name="p"))
        selection: Any = SimpleNamespace(profile=loaded, control=loaded, candidate=loaded, why="test")
        return terminal.run_session(selection, out=io.StringIO())


def test_a_second_signal_while_the_bundle_is_closed_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Seen on a GPU: the second SIGTERM came after the suites, and the bundle was neither sealed nor judged."""
    stopped = Stopped(monkeypatch, tmp_path)
    monkeypatch.setattr(terminal, "run_suites", lambda *_: terminal.PYTEST_INTERRUPTED)
    assert stopped.run() == ExitCode.VOID
    assert stopped.finished == ["stopped by the user or the system"]


def test_a_second_signal_while_the_suites_stop_still_leaves_a_closed_bundle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted_twice(*_: object) -> int:
        raise KeyboardInterrupt

    stopped = Stopped(monkeypatch, tmp_path)
    monkeypatch.setattr(terminal, "run_suites", interrupted_twice)
    assert stopped.run() == ExitCode.VOID
    assert stopped.finished == ["stopped by the user or the system"]
