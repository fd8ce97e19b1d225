"""One request by hand: served in full, and whatever a test wants of it else."""

from __future__ import annotations

from typing import Any

from harness.records import RequestRecord, Usage
from harness.words import Step


def asked(*, prompt_tokens: int = 4, tokens: int = 1, **changes: Any) -> RequestRecord:
    """A request of identity whose tokens came in one event; `changes` are fields of the record."""
    record = RequestRecord(
        request="0001",
        window="identity/0/0",
        step=Step.IDENTITY,
        context_tokens=None,
        pass_number=0,
        index=0,
        prompt_sha256="a" * 64,
        prompt_tokens=prompt_tokens,
        asked_tokens=tokens,
        sampling={},
        status=200,
        begin_ns=0,
        sent_ns=10,
        event_ns=(20,),
        event_tokens=(tokens,),
        end_ns=90,
        usage=Usage(prompt_tokens=prompt_tokens, completion_tokens=tokens),
        finish_reason="length",
        error=None,
    )
    return record.model_copy(update=changes)
