"""How fast the log parser is, and whether its memory grows: `python -m benchmarks.log_parser [--gigabytes 1]`.

Each log is repeated to some megabytes and read from memory by one core; the best of several passes counts, in
CPU time, so that a busy machine matters less. The long log is made as it is read, and never held.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from collections.abc import Iterator

from harness.observe.log import events
from harness.observe.log.facts import facts
from harness.paths import PROJECT

LOGS = PROJECT.parent / "shared" / "logs"
GOLDEN = PROJECT / "tests" / "observe" / "log" / "golden"
MEGABYTES = 20
PASSES = 5

ACCESS = b'INFO:     127.0.0.1:59302 - "POST /v1/completions HTTP/1.1" 200 OK\n'
STATS = (
    b"(APIServer pid=27188) INFO 11-29 16:28:24 [loggers.py:335] Engine 000: Avg prompt throughput: 5.7 tokens/s, "
    b"Avg generation throughput: 16.7 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, "
    b"Prefix cache hit rate: 0.0%\n"
)
BAR = b"\rCapturing CUDA graphs (decode, FULL):  50%|#####     | 5/10 [00:01<00:01,  4.99it/s]"
COLOURED = b"\x1b[1;36m(EngineCore_DP0 pid=7)\x1b[0;0m INFO 11-29 16:27:06 [core.py:1] nothing to see here at all\n"
ERROR = b'(Worker pid=2) ERROR 11-29 16:24:34 [multiproc_executor.py:1063]   File "/x/executor.py", line 1055, in f\r\n'


def samples() -> Iterator[tuple[str, bytes]]:
    """Logs by name: real ones where they are, and what is hard or easy on the parser."""
    for folder in (GOLDEN, LOGS / "public"):
        texts = [p.read_bytes() for p in sorted(folder.glob("*")) if b" LLM engine (v" in p.read_bytes()[:100_000]]
        if texts:
            yield f"{len(texts)} real logs, {folder.name}", b"".join(texts)
    yield "serving: 100 access lines to 1 of statistics", ACCESS * 100 + STATS
    yield "progress bars, one line", BAR * 200 + b"\n"
    yield "colours on every line", COLOURED * 200 + STATS
    yield "nothing but statistics", STATS
    yield "nothing but tracebacks", ERROR


def rate(log: bytes) -> tuple[float, int]:
    """MB (10^6 bytes) per second of CPU time, best of several passes, and events per pass."""
    best, count = 0.0, 0
    for _ in range(PASSES):
        begin = time.process_time()
        count = sum(1 for _ in events([log]))
        best = max(best, len(log) / 1e6 / (time.process_time() - begin))
    return best, count


def resident_mib() -> float:
    """The most that this process ever had resident, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def long_log(total_bytes: int) -> Iterator[bytes]:
    """A log of that many bytes, made as it is read: serving lines, and one line of 100 MB without an end."""
    chunk = (ACCESS * 100 + STATS) * 30
    yield from itertools.repeat(chunk, max(0, total_bytes - 100_000_000) // len(chunk))
    yield from itertools.repeat(b"x" * 100_000, min(total_bytes, 100_000_000) // 100_000)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="length of the long log (1)")
    total = int(parser.parse_args().gigabytes * 1e9)
    for name, log in samples():
        best, count = rate(log * max(1, MEGABYTES * 1_000_000 // len(log)))
        print(f"{name:48} {best:7.1f} MB/s  {count:8,} events")
    before, begin = resident_mib(), time.process_time()
    found = facts(events(long_log(total)))
    seconds = time.process_time() - begin
    print(f"{total / 1e9:g} GB in {seconds:.1f} s of CPU, {total / 1e6 / seconds:.1f} MB/s", end="; ")
    print(f"resident {before:.1f} MiB before, {resident_mib():.1f} MiB at most; a log of vLLM: {found.is_log}")


if __name__ == "__main__":
    main()
