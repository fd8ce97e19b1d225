"""Events of vLLM's log by the names that the judge knows; the parser is `harness.observe.log`."""

from __future__ import annotations

from harness.observe.log import Event, Kind, events

__all__ = ["Event", "Kind", "events", "kv_tokens"]


def kv_tokens(event: Event) -> int:
    """Tokens of a KV_TOKENS event."""
    return int(event.values["tokens"])
