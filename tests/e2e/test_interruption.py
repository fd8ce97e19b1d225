"""A session that is stopped or killed: its evidence stays, it says so, and nothing of it goes on running."""

from __future__ import annotations

import signal
from pathlib import Path

from harness.words import ExitCode, LaunchStatus, Word

from .sessions import SLOW, Finished, left_running, records, run, sets, start, wait_for


def asking(results: Path) -> bool:
    """True once a server of the session has been asked something."""
    return any(results.glob("*-fake-*/launches/*/requests.jsonl")) and bool(left_running(results))


STOPPED_BETWEEN = """
import os, signal, sys
from harness.session.conductor import Conductor

def failed(self, launch, *arguments, really=Conductor._fail):
    failure = really(self, launch, *arguments)
    if launch.id == self.plan.launches[-1].id:
        os.kill(os.getpid(), signal.SIGINT)
    return failure

Conductor._fail = failed
from harness.cli import main
sys.exit(main(["run", *sys.argv[1:]]))
"""
"""The user's `qualify run`, and Ctrl-C once the last server has ended by itself."""

STOPPED_WHERE_IT_IS_LOST = """
import os, signal, sys, weakref
from harness.session.conductor import Conductor

class Referred: ...

def enter(self, launch, *, really=Conductor.enter):
    live = really(self, launch)
    if launch is self.plan.launches[0] and not asked:
        referred = Referred()
        asked.append(weakref.ref(referred, lambda _: os.kill(os.getpid(), signal.SIGINT)))
        del referred
    return live

asked = []
Conductor.enter = enter
from harness.cli import main
sys.exit(main(["run", *sys.argv[1:]]))
"""
"""The user's `qualify run`, and Ctrl-C at a moment when Python drops what it raises."""


class TestInterruption:
    def test_ctrl_c_that_python_drops_voids_the_session_too(self, results: Path, profile: str) -> None:
        done = run(results, "--profile", profile, *SLOW, program=("-c", STOPPED_WHERE_IT_IS_LOST))
        assert done.code == ExitCode.VOID, done.out
        assert [r.status for r in records(done)] == [LaunchStatus.INTERRUPTED]
        assert done.row("session complete").reason.endswith("stopped by the user or the system")
        assert not left_running(results)

    def test_ctrl_c_while_no_server_runs_voids_the_session(self, results: Path, profile: str) -> None:
        dead = sets("serve.env.QUALIFY_FAKE_FAULTS='die-at-start'")
        done = run(results, "--profile", profile, *dead, program=("-c", STOPPED_BETWEEN))
        assert {r.status for r in records(done)} == {LaunchStatus.FAILED}, done.out
        row = done.row("session complete")
        assert (row.word, row.control) == (Word.VOID, "2 of 2")
        assert row.reason.startswith("the session was interrupted: ")

    def test_ctrl_c_keeps_the_evidence_and_leaves_nothing_running(self, results: Path, profile: str) -> None:
        process = start(results, "--profile", profile, *SLOW)
        wait_for(lambda: asking(results))
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=90)
        done = Finished(process.returncode, out, results)
        assert done.code == ExitCode.VOID, out
        assert not left_running(results)
        assert done.row("session complete").word is Word.VOID
        assert records(done)[0].status is LaunchStatus.INTERRUPTED
        assert (done.bundle.root / "SHA256SUMS").is_file()

    def test_sigterm_is_as_good_as_ctrl_c(self, results: Path, profile: str) -> None:
        process = start(results, "--profile", profile, *SLOW)
        wait_for(lambda: asking(results))
        process.terminate()
        out, _ = process.communicate(timeout=90)
        assert process.returncode == ExitCode.VOID, out
        assert not left_running(results)

    def test_a_second_signal_while_the_server_stops_changes_nothing(self, results: Path, profile: str) -> None:
        """Seen on a GPU: it left the bundle unsealed and the launch without an end."""
        deaf = sets("serve.env.QUALIFY_FAKE_FAULTS='ignore-sigterm'")
        process = start(results, "--profile", profile, *SLOW, *deaf)
        wait_for(lambda: asking(results))
        process.terminate()
        wait_for(lambda: any("stop asked" in f.read_text("utf-8") for f in results.rglob("timeline.jsonl")))
        process.terminate()
        out, _ = process.communicate(timeout=90)
        done = Finished(process.returncode, out, results)
        assert done.code == ExitCode.VOID, out
        assert not left_running(results)
        assert (done.bundle.root / "SHA256SUMS").is_file()
        assert done.row("evidence whole").word is Word.PASS
        assert records(done)[0].exit is not None

    def test_after_a_kill_the_next_run_ends_what_was_left(self, results: Path, profile: str) -> None:
        process = start(results, "--profile", profile, *SLOW)
        wait_for(lambda: bool(left_running(results)))
        process.kill()
        process.communicate(timeout=90)
        [orphan, *_] = left_running(results)
        done = run(results, "--profile", profile)
        assert "cleaned up: 001-" in done.out
        assert done.code == ExitCode.PASS
        assert not orphan.is_running()
