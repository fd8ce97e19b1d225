"""One worker of the fake server, run as a program of its own: `python -I -S worker_process.py TITLE`.

It bears its title as vLLM's do, does nothing, and ends with its server, whose end closes its input. A line on its
input tells it to fork; it answers every line, and its start, with a line. Only the standard library is there.
"""

from __future__ import annotations

import mmap
import os
import select
import sys
from pathlib import Path

COMM_CHARACTERS = 15
ARG_START, ARG_END = 45, 46
"""Places in /proc/PID/stat after the process's name."""
TAKEN_MIB = 64


def bear(title: str) -> None:
    """Take a title, as setproctitle does: the kernel's short name, and the memory of the arguments."""
    fields = Path("/proc/self/stat").read_text("ascii").rpartition(")")[2].split()
    begin, end = int(fields[ARG_START]), int(fields[ARG_END])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:  # noqa: PTH123  # a Path would seek it first
        memory.seek(begin)
        memory.write(title.encode()[: end - begin - 1].ljust(end - begin, b"\0"))
    Path("/proc/self/comm").write_text(title[:COMM_CHARACTERS], "ascii")


def fork() -> mmap.mmap:
    """Leave a child that bears the title too, and take memory that the child does not have."""
    if os.fork() == 0:
        end = select.poll()
        end.register(0, 0)  # no reading: the next line is the parent's; of no events asked for, the hang-up still comes
        end.poll()
        os._exit(0)
    block = mmap.mmap(-1, TAKEN_MIB << 20)
    for offset in range(0, len(block), mmap.PAGESIZE):
        block[offset] = 1
    return block


def main() -> None:
    """Answer until the input ends."""
    bear(sys.argv[1])
    held = []
    os.write(1, b"\n")
    for _ in sys.stdin:
        held.append(fork())
        os.write(1, b"\n")


if __name__ == "__main__":
    main()
