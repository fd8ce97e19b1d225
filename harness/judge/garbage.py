"""Outputs that no working engine gives: nothing, one token over and over, logprobs that are no numbers."""

from __future__ import annotations

from itertools import groupby

from harness.records import OutputRecord, RequestRecord

REPEATED_TOKENS = 32
"""A run of one token this long is a broken kernel's; prose, code and tables have none."""


def garbage(request: RequestRecord, output: OutputRecord | None) -> str | None:
    """What is wrong with an output, or None. A request that failed, or whose output we lost, has none to look at."""
    if output is None or request.status != 200 or request.error is not None:
        return None
    if not (output.token_ids or output.text):
        return "an empty output"
    if request.finish_reason not in (None, "length"):
        return f"an early stop ({request.finish_reason}) after {len(output.token_ids)} of {request.asked_tokens} tokens"
    place = 0
    for token, run in groupby(output.token_ids):
        length = len(list(run))
        if length >= REPEATED_TOKENS:
            return f"token {token} {length} times in a row, from token {place} on"
        place += length
    broken = (n for n, best in enumerate(output.top_logprobs or ()) if any(v is None for v in best.values()))
    if (first := next(broken, None)) is not None:
        return f"a logprob that is no number, at token {first}"
    return None
