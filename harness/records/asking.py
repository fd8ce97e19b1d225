"""What was asked of a server, and what it answered."""

from __future__ import annotations

from typing import Literal

from harness.records.base import SCHEMA_VERSION, Record
from harness.records.client import ClientLoad, Gauge
from harness.words import Step


class FrozenPrompts(Record):
    """Text prompts as token ids, rendered once per session (prompts.json): every launch is asked these."""

    schema_version: Literal[1] = SCHEMA_VERSION
    launch: str
    """The launch whose server's tokenizer rendered them."""
    texts_sha256: str
    ids: dict[str, tuple[int, ...]]
    """By the text's name, in the texts' order."""
    needles: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """Fact and question of each needle."""


class Usage(Record):
    """Token counts as the server reported them."""

    prompt_tokens: int
    completion_tokens: int


class RequestRecord(Record):
    """One request as the client saw it (requests.jsonl)."""

    request: str
    window: str
    step: Step
    context_tokens: int | None
    pass_number: int
    index: int
    """Place within the pass: identity prompts are compared by it."""
    prompt_sha256: str
    prompt_tokens: int
    asked_tokens: int
    sampling: dict[str, int | float]
    status: int | None
    """HTTP status, or None when no response came."""
    begin_ns: int
    sent_ns: int | None
    """The request's last byte was handed to the kernel."""
    first_token_ns: int | None = None
    """Arrival of the first event that bore a token of any kind; None in a bundle of before this was kept."""
    event_ns: tuple[int, ...]
    """Arrival of each event that carried tokens."""
    event_tokens: tuple[int, ...]
    """Tokens that each of those events carried."""
    end_ns: int
    usage: Usage | None
    finish_reason: str | None
    error: str | None
    prompt_class: str = "ids"
    """What the prompt is made of: ids, or text. How well drafts are accepted depends on it."""
    prefix_tokens: int | None = None
    """Of a follow-up: how many output tokens of the first answer stand at the end of its prompt."""
    kind: str | None = None
    """Name of the kind of request that it probes; None for every other request."""
    prompt_logprobs: int | None = None
    """How many prompt tokens came back with a logprob that is a number; None where none were sent."""

    @property
    def sequences(self) -> int:
        """Outputs that were asked for the one prompt; the server counts each as a request."""
        return int(self.sampling.get("n", 1))

    @property
    def all_asked_tokens(self) -> int:
        """Output tokens of all sequences together."""
        return self.asked_tokens * self.sequences

    @property
    def complete(self) -> bool:
        """Served in full: status 200, no error, every asked token, and counted so by the server."""
        wanted = self.prompt_tokens - 1 if "prompt_logprobs" in self.sampling else None
        return (
            self.status == 200
            and self.error is None
            and self.finish_reason == "length"
            and self.usage is not None
            and self.usage.completion_tokens == self.all_asked_tokens == sum(self.event_tokens)
            and self.usage.prompt_tokens == self.prompt_tokens
            and self.prompt_logprobs == wanted
        )


class OutputRecord(Record):
    """What a request produced (outputs.jsonl); of several sequences, one record each."""

    request: str
    sequence: int = 0
    token_ids: tuple[int, ...]
    text: str
    finish_reason: str | None
    sha256: str
    """Over token ids, text and finish reason; '' for an empty output."""
    top_logprobs: tuple[dict[str, float | None], ...] | None = None
    """Per output token, the natural logprobs of the best candidates, by their text; None for a NaN."""


class Window(Record):
    """Requests between two scrapes (windows.jsonl)."""

    window: str
    step: Step
    context_tokens: int | None
    pass_number: int
    begin_ns: int
    end_ns: int
    scrape_before: str | None
    """File name below metrics/, or None when the scrape failed."""
    scrape_after: str | None
    streams: int = 1
    """Requests at a time that were asked for; a stream sends its next request when its last has ended."""
    client: ClientLoad | None = None
    """None in a bundle of before this was measured."""
    gauges: tuple[Gauge, ...] = ()
    """Sampled where several streams run."""


class CheckRecord(Record):
    """Outcome of one check of the suites (checks.jsonl)."""

    name: str
    """The check without its launch, so that arms can be compared: test_startup.py::test_served."""
    context_tokens: int | None
    outcome: Literal["passed", "failed", "skipped"]
    message: str
