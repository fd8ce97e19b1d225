"""`qualify run` as a person sees it: what was chosen, progress while it runs, the verdict at the end."""

from __future__ import annotations

import sys
import threading
import time
from typing import TextIO

from harness.evidence.bundle import Bundle
from harness.judge.verdict import Judged
from harness.session.opening import Freeze, open_session
from harness.session.progress import Snapshot, snapshot
from harness.session.selection import Selection
from harness.session.undisturbed import INTERRUPTED, undisturbed
from harness.words import ExitCode
from harness.workflow import finish, remember, run_suites, seal_abandoned

PYTEST_INTERRUPTED = 2
REFRESH_S = 1.0


def run_session(
    selection: Selection, *, keyword: str = "", marks: str = "", out: TextIO | None = None, history: bool = True
) -> int:
    """Run a session to its verdict and return the exit code. Without `history` none is read and none is added to."""
    from harness.history.freezing import freeze  # noqa: PLC0415  # handed down: a session has no history

    bundle, found = run_to_verdict(selection, keyword, marks, out=out, freeze=freeze if history else None)
    if history:
        for line in remember(bundle, found):
            print(line, file=out or sys.stdout, flush=True)
    return ExitCode(found.verdict.exit_code)


def run_to_verdict(
    selection: Selection, keyword: str = "", marks: str = "", *, out: TextIO | None = None, freeze: Freeze | None = None
) -> tuple[Bundle, Judged]:
    """Run a session, say how it goes, and return what it left and what it came to."""
    out = out or sys.stdout
    profile = selection.profile.model

    def say(line: str) -> None:
        print(line, file=out, flush=True)

    say(f"profile {profile.name} ({selection.why})")
    say(f"control {selection.control.model.name}, candidate {selection.candidate.model.name}")
    chosen = [*(("-k", keyword) if keyword else ()), *(("-m", marks) if marks else ())]
    sealed = seal_abandoned()
    bundle, notes = open_session(selection, checks=" ".join(chosen), tell=say, freeze=freeze)
    for note in sealed + notes:
        say(f"cleaned up: {note}")
    plan = bundle.plan()
    say(f"bundle {bundle.root}")
    say(f"{len(plan.launches)} launches, about {plan.estimate_s / 60:.0f} minutes")

    display = Display(bundle, out)
    display.start()
    try:
        code = run_suites(bundle, chosen)
    except KeyboardInterrupt:  # a second one, while pytest was stopping what runs
        code = PYTEST_INTERRUPTED
    finally:
        display.finish()
    interrupted = INTERRUPTED if code == PYTEST_INTERRUPTED else None
    with undisturbed():
        found, lines = finish(bundle.root, interrupted)
    for line in lines:
        say(line)
    return bundle, found


class Display:
    """Progress in a thread: one line that is redrawn on a terminal, one line per event elsewhere."""

    def __init__(self, bundle: Bundle, out: TextIO) -> None:
        self._bundle = bundle
        self._plan = bundle.plan()
        self._out = out
        self._begin = time.monotonic()
        self._stop = threading.Event()
        self._live = out.isatty()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._said: set[str] = set()

    def start(self) -> None:
        """Begin to show."""
        self._thread.start()

    def finish(self) -> None:
        """Show the last state and stop."""
        self._stop.set()
        self._thread.join()
        self._draw()
        if self._live:
            print(file=self._out)

    def _run(self) -> None:
        while not self._stop.wait(REFRESH_S):
            self._draw()

    def _draw(self) -> None:
        elapsed = time.monotonic() - self._begin
        seen = snapshot(self._bundle, self._plan, elapsed)
        if self._live:
            print(f"\r\x1b[2K{status_line(seen, elapsed)}", end="", file=self._out, flush=True)
            return
        for line in event_lines(seen, elapsed):
            key = line.partition("  ")[2]
            if key not in self._said:
                self._said.add(key)
                print(line, file=self._out, flush=True)


def status_line(seen: Snapshot, elapsed_s: float) -> str:
    """One line: how many launches are done, what runs now, elapsed and remaining time."""
    current = "; ".join(f"{c.launch}: {c.phase} {c.since_s:.0f} s" for c in seen.current) or "between launches"
    failed = f", {len(seen.failed)} failed" if seen.failed else ""
    return (
        f"[{seen.done}/{seen.total}{failed}] {current} | {_minutes(elapsed_s)} elapsed, "
        f"about {_minutes(seen.remaining_s)} to go"
    )


def event_lines(seen: Snapshot, elapsed_s: float) -> list[str]:
    """Lines for a log: each launch's phases as they begin, and each launch's end."""
    lines = [f"{_minutes(elapsed_s)}  {c.launch}: {c.phase}" for c in seen.current if c.phase != "between steps"]
    lines += [f"{_minutes(elapsed_s)}  {launch}: FAILED" for launch in seen.failed]
    if seen.done:
        lines.append(f"{_minutes(elapsed_s)}  {seen.done} of {seen.total} launches done")
    return lines


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
