"""The log's pipe alone: a disk that fills up, a file that cannot be made, and the end of a log."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from harness.launch.logpipe import LogPipe, tail
from harness.paths import PROJECT

NEARLY_FULL = """
import os, resource, sys
from pathlib import Path
from harness.launch.logpipe import LogPipe

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
folder = Path(sys.argv[1])
read, write = os.pipe()
pipe = LogPipe(read, folder / "log", folder / "times")
os.write(write, b"x" * 1500)
os.close(write)
assert pipe.finish(5)
print(pipe.write_error.strerror, pipe.digest()[1])
"""


def test_a_disk_that_takes_only_a_part_of_a_write_is_reported(tmp_path: Path) -> None:
    # The write itself succeeds, short; where nothing follows it, only writing the rest tells.
    done = subprocess.run(
        [sys.executable, "-c", NEARLY_FULL, str(tmp_path)], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "File too large 1500\n"
    assert (tmp_path / "log").stat().st_size == 1000


def test_a_log_that_cannot_be_opened_is_drained_all_the_same(tmp_path: Path) -> None:
    read, write = os.pipe()
    pipe = LogPipe(read, tmp_path / "missing" / "log", tmp_path / "times")

    def server() -> None:
        for _ in range(40):
            os.write(write, b"x" * 10_000)  # more than a pipe holds
        os.close(write)

    threading.Thread(target=server, daemon=True).start()
    assert pipe.finish(5)
    assert pipe.digest()[1] == 400_000
    assert isinstance(pipe.write_error, FileNotFoundError)


def test_the_pipe_is_not_finished_while_a_writer_holds_it(tmp_path: Path) -> None:
    read, write = os.pipe()
    pipe = LogPipe(read, tmp_path / "log", tmp_path / "times")
    assert not pipe.finish(0.02)
    os.close(write)
    assert pipe.finish(5)
    assert pipe.write_error is None


def test_the_tail_is_the_last_lines_with_text_in_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\n".join(b"line %d" % i for i in range(100)) + b"\n\n  \n 50%\r 100%\r\n\xff end\n")
    assert tail(log, lines=4) == "line 99\n 50%\n 100%\n\\xff end"


def test_the_tail_of_a_large_log_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 1_000_000)
    assert len(tail(log, limit_bytes=1000)) == 1000


def test_a_missing_log_has_an_empty_tail(tmp_path: Path) -> None:
    assert tail(tmp_path / "missing") == ""
