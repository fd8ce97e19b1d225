"""Split a stream of server-sent events, however the network tore it.

Chunks are kept with the time of their arrival and split after the stream has ended, so that no
parsing happens while time is being measured. An event's time is that of the chunk that completed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

DONE = b"[DONE]"


def split_events(chunks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    r"""Data of each event with the arrival time (ns) of its last byte.

    Args:
        chunks: (monotonic ns, bytes) as received; an event may span chunks and a chunk hold many.

    Comments, keep-alives and events without data are skipped; `\n` and `\r\n` both end lines
    (HTML Living Standard, 9.2.6; a lone `\r` is not used by any server of this field). Several
    data lines of one event are joined by a newline. An event that its blank line never completed
    is not yielded.
    """
    pending = b""
    data: list[bytes] = []
    for time_ns, chunk in chunks:
        pending += chunk
        *lines, pending = pending.split(b"\n")
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield time_ns, b"\n".join(data)
                data = []
