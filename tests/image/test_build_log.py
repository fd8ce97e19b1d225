"""What a build log tells: the program's own words out of a builder's, whichever wrote the log."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from harness.errors import SetupFailure
from harness.image.log import BuildLog, faults_in

CLASSIC = """\
Step 5/11 : RUN ["python3", "-I", "-S", "-B", "/.qualify/program", "build"]
 ---> Running in c5e9ffab7a1e
qualify: error: 2 of 4 copies in the base image are not as the lock says
qualify: error: vllm: vllm/a.py: /opt/a.py: expected no file, found a folder
The command '...' returned a non-zero code: 1
"""
BUILDX = """\
#7 [build 3/3] RUN ["python3", "-I", "-S", "-B", "/.qualify/program", "build"]
#7 0.215 qualify: error: 2 of 4 copies in the base image are not as the lock says
#7 0.215 qualify: error: vllm: vllm/a.py: /opt/a.py: expected no file, found a folder
#7 ERROR: process "python3 -I -S -B /.qualify/program build" did not complete successfully: exit code: 1
------
 > [build 3/3] RUN ["python3", "-I", "-S", "-B", "/.qualify/program", "build"]:
0.215 qualify: error: 2 of 4 copies in the base image are not as the lock says
0.215 qualify: error: vllm: vllm/a.py: /opt/a.py: expected no file, found a folder
------
"""


@pytest.mark.parametrize("text", [CLASSIC, BUILDX, CLASSIC.replace("\n", "\r\n")], ids=["classic", "buildx", "crlf"])
def test_faults_are_found_each_once_in_their_order(text: str) -> None:
    assert faults_in(text) == [
        "2 of 4 copies in the base image are not as the lock says",
        "vllm: vllm/a.py: /opt/a.py: expected no file, found a folder",
    ]


@pytest.mark.parametrize(
    "line",
    [
        'OCI runtime create failed: runc create failed: exec: "python3": executable file not found in $PATH: unknown',
        'runc run failed: unable to start container process: exec: \\"python3\\": executable file not found in $PATH',
    ],
)
def test_a_missing_python_is_told_in_a_sentence(line: str) -> None:
    assert faults_in(line) == ["the base image has no python3 on its PATH, which checks and writes the files inside it"]


@pytest.mark.parametrize("line", ["qualify: wrote /opt/a.py", "echo qualify: error: x", "", "x qualify: error: y"])
def test_other_lines_are_no_faults(line: str) -> None:
    assert faults_in(line) == []


def test_the_hash_is_of_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "build.log"
    with BuildLog(path) as log:
        log.write(b"one\r")
        log.write(b"\xff two\n")
    assert path.read_bytes() == b"one\r\xff two\n"
    assert log.sha256 == hashlib.sha256(b"one\r\xff two\n").hexdigest()


def test_a_full_disk_is_a_setup_failure() -> None:
    with BuildLog(Path("/dev/full")) as log:
        log.write(b"one\n")
        log.write(b"two\n")
    assert log.sha256 == hashlib.sha256(b"one\ntwo\n").hexdigest()
    with pytest.raises(SetupFailure, match=r"build log /dev/full cannot be written: No space left on device"):
        log.check()
