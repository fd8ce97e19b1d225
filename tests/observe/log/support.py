"""Lines of logs, and what the parser makes of them."""

from __future__ import annotations

from harness.observe.log import Event, Kind, events

KV = "GPU KV cache size: 894,492 tokens, Maximum concurrency for 131,072 tokens per request: 6.82x"
STAMP = "INFO 11-29 16:27:06 [kv_cache_utils.py:2327] "


def parsed(log: bytes | str) -> list[Event]:
    """Every event of a whole log but the one that says that it is vLLM's."""
    data = log.encode() if isinstance(log, str) else log
    return [e for e in events([data]) if e.kind is not Kind.FIRST_RECORD]


def only(log: bytes | str) -> Event:
    """The one event of a log whose last line may lack its end."""
    data = log.encode() if isinstance(log, str) else log
    [event] = parsed(data if data.endswith((b"\n", b"\r")) else data + b"\n")
    return event
