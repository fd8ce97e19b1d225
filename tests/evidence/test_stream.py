"""Files that nobody closes: the garbage collector may come at any moment, amidst a write of the journal too."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from harness.evidence import pipe, undivided
from harness.evidence.journal import faults, read_journals
from harness.evidence.manifest import manifest_text, read_manifest
from harness.evidence.stream import GrowingFile, growing_text

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pipe.begin(tmp_path / "bundle")
    return tmp_path / "bundle"


def noted(root: Path, file: str) -> list[str]:
    return [line["op"] for line in pipe.lines_of(root, file)]


def test_one_that_is_collected_is_noted_as_opened_and_never_as_closed(root: Path) -> None:
    log = GrowingFile(root / "server.log")
    log.write(b"ready\n")
    [descriptor] = [int(p.name) for p in Path("/proc/self/fd").iterdir() if links_to(p, root / "server.log")]
    log.itself = log  # type: ignore[attr-defined]  # a cycle, as the traceback of an error makes one
    del log
    gc.collect()
    assert noted(root, "server.log") == ["opened"]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def links_to(link: Path, file: Path) -> bool:
    try:
        return link.readlink() == file
    except FileNotFoundError:  # the folder's own descriptor
        return False


def test_one_that_could_not_be_opened_is_collected_without_a_word(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        GrowingFile(root / "missing" / "server.log")
    gc.collect()
    assert list((root / "pipe").iterdir()) == []


def test_text_that_is_collected_is_written_and_never_noted_as_closed(root: Path) -> None:
    """The collector may come amidst a line of the journal, and a line within a line breaks the chain."""
    text = growing_text(root / "events.jsonl")
    text.write("{}\n")
    del text
    gc.collect()
    assert (root / "events.jsonl").read_text("utf-8") == "{}\n"
    assert noted(root, "events.jsonl") == ["opened"]


def test_text_in_a_cycle_is_never_noted_as_closed_either(root: Path) -> None:
    text = growing_text(root / "events.jsonl")
    text.itself = text  # type: ignore[attr-defined]
    del text
    gc.collect()
    assert noted(root, "events.jsonl") == ["opened"]


@pytest.mark.parametrize("moment", ["put", "get", "start"])
def test_a_file_that_is_closed_while_work_is_handed_over_hangs_nobody(
    root: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Seen in CI with an executor, whose `submit` holds a lock: the collector ran amidst it, and closed a file."""
    other = GrowingFile(root / "other.log")
    collected: list[Callable[[], None]] = [other.close]

    def collect(now: str) -> None:
        if now == moment and threading.current_thread() is threading.main_thread() and collected:
            collected.pop()()

    class Queue(SimpleQueue[Any]):
        def put(self, *args: Any) -> None:
            collect("put")
            super().put(*args)

        def get(self, *args: Any) -> Any:
            collect("get")
            return super().get(*args)

    class Starting(threading.Thread):
        def start(self) -> None:
            collect("start")
            super().start()

    monkeypatch.setattr(undivided, "_workers", {})
    monkeypatch.setattr(undivided, "SimpleQueue", Queue)
    monkeypatch.setattr(threading, "Thread", Starting)
    with GrowingFile(root / "server.log") as log:
        log.write(b"ready\n")
    assert not collected
    assert noted(root, "other.log") == noted(root, "server.log") == ["opened", "closed"]


def test_an_error_of_handed_over_work_is_raised_where_it_was_asked_for_and_keeps_nothing() -> None:
    class Held:
        pass

    def work(held: Held) -> None:
        raise ValueError(type(held).__name__)

    held = Held()
    seen = weakref.ref(held)
    gc.disable()
    try:
        with pytest.raises(ValueError, match="Held"):
            undivided.uninterrupted(partial(work, held))
        del held
        assert seen() is None
    finally:
        gc.enable()


ENDS = """
import atexit, os, sys
from pathlib import Path
from harness.evidence import undivided
from harness.evidence.stream import GrowingFile
root = Path(sys.argv[1])
log = GrowingFile(root / "server.log")
log.write(b"ready\\n")
if sys.argv[2] == "fork":
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        with GrowingFile(root / "child.log") as own:
            own.write(b"child\\n")
        os._exit(0)
    log.close()
elif sys.argv[2] == "atexit":
    atexit.register(log.close)
else:
    undivided._workers.clear()
    atexit.register(log.close)
"""


@pytest.mark.parametrize("how", ["fork", "atexit", "before"])
def test_a_fork_writes_too_and_so_does_an_interpreter_that_ends(root: Path, how: str) -> None:
    subprocess.run([sys.executable, "-c", ENDS, str(root), how], cwd=ROOT, check=True, timeout=60)
    files = ["server.log", *(["child.log"] if how == "fork" else [])]
    assert [noted(root, name) for name in files] == [["opened", "closed"]] * len(files)
    seen = read_journals(root)
    assert seen is not None
    assert faults(seen, read_manifest(manifest_text(root))) == []


LATE = """
import os
from harness.evidence.undivided import uninterrupted
uninterrupted(int)
class Late:
    def __del__(self, do=uninterrupted, write=os.write):
        do(lambda: write(1, b"late"))
_late = Late()
"""
"""Work that comes when the interpreter takes its modules apart, and no other thread runs any more."""


def test_work_that_comes_when_no_thread_runs_any_more_is_done_all_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], cwd=ROOT, check=True, timeout=60, capture_output=True)
    assert done.stdout == b"late"


STOPPED = """
import signal, sys, threading
from harness.evidence import undivided
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a script starts in the background is deaf to it
begun, goes_on = threading.Event(), threading.Event()
def work():
    begun.set()
    goes_on.wait()
    print("whole", flush=True)
def stop():
    begun.wait()
    # One that comes just before the main thread begins to wait is heard at the wait's end, and this work waits for it.
    while not goes_on.is_set():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        goes_on.wait(5)
threading.Thread(target=stop).start()
try:
    undivided.uninterrupted(work)
except KeyboardInterrupt:
    print("stopped", flush=True)
    goes_on.set()
"""


def test_ctrl_c_does_not_cut_off_what_was_handed_over_even_where_it_ends_the_interpreter() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED], cwd=ROOT, check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout.split() == ["stopped", "whole"]


MOVED_LATE = """
import os, signal, sys, time
from pathlib import Path
from harness.evidence import pipe
from harness.evidence.stream import whole
root = Path(sys.argv[1])
pipe.begin(root)
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a script starts in the background is deaf to it
really = pipe.wrote
def wrote(*given, **named):
    really(*given, **named)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.3)  # the main thread has stopped waiting by then, and the move is still to come
pipe.wrote = wrote
try:
    with whole(root / "x.json") as stream:
        stream.write(b"new")
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def test_ctrl_c_does_not_take_away_a_whole_file_before_it_is_moved_to_its_place(tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    command = [sys.executable, "-c", MOVED_LATE, str(root)]
    done = subprocess.run(command, cwd=ROOT, check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout.split() == ["stopped"], done.stderr
    assert (root / "x.json").read_bytes() == b"new"
    seen = read_journals(root)
    assert seen is not None
    assert faults(seen, read_manifest(manifest_text(root))) == []
