"""Files that nobody closes: the garbage collector may come at any moment, amidst a write of the journal too."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.evidence import pipe
from harness.evidence.stream import GrowingFile


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


def test_a_file_that_is_closed_while_work_is_handed_over_hangs_nobody(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen in CI: `submit` holds its lock, makes an object, and the collector closes a file within it."""
    other = GrowingFile(root / "other.log")
    collected: list[Callable[[], None]] = [other.close]

    class Pool(ThreadPoolExecutor):
        lock = threading.Lock()

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            assert self.lock.acquire(timeout=5), "the pool's own lock, taken a second time"
            try:
                if collected:
                    collected.pop()()
                return super().submit(fn, *args, **kwargs)
            finally:
                self.lock.release()

    with Pool(1) as pool:
        monkeypatch.setitem(pipe._pools, os.getpid(), pool)  # noqa: SLF001
        with GrowingFile(root / "server.log") as log:
            log.write(b"ready\n")
    assert noted(root, "other.log") == noted(root, "server.log") == ["opened", "closed"]
