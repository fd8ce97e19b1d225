"""Send requests to one server and record everything about them in the launch's folder."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Many
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import requests

from harness.client.asks import PLAIN, Ask, Sampling
from harness.client.completions import Answer, Sequence, understood
from harness.client.gauges import GaugeSampler
from harness.client.load import LoadProbe, percentile, uncollected
from harness.client.prompts import PromptKey, prompt_ids, prompt_sha256
from harness.client.texts import DEPTHS, needle_prompt_ids, text_prompt_ids
from harness.client.transport import COMPLETIONS, Received, open_session, receive
from harness.evidence.bundle import LaunchDir, append_record, write_piece
from harness.observe import prometheus
from harness.records import FrozenPrompts, OutputRecord, RequestRecord, Usage, Window
from harness.records.client import ClientLoad, Gauge
from harness.words import Step

SETTLE_TRIES = 40
SETTLE_S = 0.05
TEXT_STEPS = (Step.DECODE, Step.IDENTITY, Step.FOLLOW_UP, Step.NEEDLE)
"""Steps whose figures depend on what is written; prefill and first prompts take ids of exact length."""


@dataclass(frozen=True)
class Wanted:
    """One request of a pass, before its prompt is made."""

    prompt_tokens: int
    output_tokens: int
    sampling: Sampling = PLAIN
    prompt_pass: int | None = None
    """Take the prompt of this pass instead of the current one's: identity repeats its prompts."""
    kind: str | None = None
    """Name of the kind of request that this one probes."""
    follows: tuple[int, tuple[int, ...]] | None = None
    """Of a follow-up: the identity prompt's place, and the output tokens that stand behind it."""


class Asker:
    """The client of one launch. Windows are chained: one scrape ends a window and begins the next."""

    def __init__(
        self, folder: LaunchDir, base_url: str, model: str, *, seed: int, ids_below: int, deadline_s: float
    ) -> None:
        self._folder = folder
        self._base_url = base_url
        self._model = model
        self._seed = seed
        self._ids_below = ids_below
        self._deadline_s = deadline_s
        self.texts: FrozenPrompts | None = None
        """Asked instead of ids, where the course's prompts are text."""
        self._metrics = requests.Session()
        self._metrics.trust_env = False
        self._windows: Counter[str] = Counter()
        self._requests = 0
        self._scrapes = 0
        self._last_scrape: str | None = None
        folder.metrics_dir.mkdir(exist_ok=True)

    def ask(
        self,
        step: Step,
        wanted: Many[Wanted],
        *,
        context_tokens: int | None,
        pass_number: int,
        concurrent: int = 1,
        deadline_s: float | None = None,
    ) -> list[tuple[RequestRecord, OutputRecord]]:
        """One pass: the requests in order, `concurrent` streams at a time, recorded as one window.

        The loop is closed: a stream takes the next request when its last one has ended.
        """
        before = self._last_scrape or self._scrape(expected_requests=None)
        window = self._window_name(f"{step}/{context_tokens or 0}/{pass_number}")
        prepared = [self._prepare(step, w, context_tokens, pass_number, i) for i, w in enumerate(wanted)]
        bodies = [ask.body() for _, ask in prepared]  # serialised before any stream runs, understood after all
        gauges = GaugeSampler(self._base_url)
        with LoadProbe() as load, uncollected(), gauges if concurrent > 1 else nullcontext():
            begin = time.monotonic_ns()
            with ThreadPoolExecutor(max_workers=concurrent) as pool:
                received = list(pool.map(partial(self._send, deadline_s=deadline_s or self._deadline_s), bodies))
            end = time.monotonic_ns()
        answers = [understood(r) for r in received]

        recorded = []
        for index, ((request, ask), answer, each) in enumerate(zip(prepared, answers, wanted, strict=True)):
            place = _Place(request, window, step, context_tokens, pass_number, index, self._prompt_class(step), each)
            outputs = list(_output_records(request, answer))
            row = place.request_record(ask, answer)
            append_record(self._folder.requests_file, row)
            for output in outputs:
                append_record(self._folder.outputs_file, output)
            recorded.append((row, outputs[0]))
        served = sum(row.sequences for row, _ in recorded if row.status == requests.codes.ok)
        after = self._scrape(expected_requests=(before, served))
        append_record(
            self._folder.windows_file,
            Window(
                window=window,
                step=step,
                context_tokens=context_tokens,
                pass_number=pass_number,
                begin_ns=begin,
                end_ns=end,
                scrape_before=before,
                scrape_after=after,
                streams=concurrent,
                client=ClientLoad(
                    cpu_ns=load.cpu_ns, lag_p99_ns=percentile(load.lags_ns, 0.99), lag_samples=len(load.lags_ns)
                ),
                gauges=tuple(Gauge(mono_ns=t, running=r, waiting=w) for t, r, w in gauges.samples),
            ),
        )
        self._last_scrape = after
        return recorded

    def _prepare(
        self, step: Step, wanted: Wanted, context_tokens: int | None, pass_number: int, index: int
    ) -> tuple[str, Ask]:
        self._requests += 1
        request = f"{self._requests:04d}"
        prompt_pass = pass_number if wanted.prompt_pass is None else wanted.prompt_pass
        key = PromptKey(self._seed, step, context_tokens or 0, prompt_pass, index)
        prefix: tuple[int, ...] = ()
        if wanted.follows is not None:
            place, prefix = wanted.follows
            key = PromptKey(self._seed, Step.IDENTITY, 0, 0, place)
        ask = Ask(
            model=self._model,
            prompt_ids=[*self._prompt(key, wanted.prompt_tokens), *prefix],
            output_tokens=wanted.output_tokens,
            cache_salt=f"{self._folder.id}.{request}",
            sampling=wanted.sampling,
        )
        return request, ask

    def _prompt(self, key: PromptKey, tokens: int) -> list[int]:
        if self._prompt_class(key.step) == "ids":
            return prompt_ids(key, tokens, self._ids_below)
        assert self.texts is not None
        if key.step is Step.NEEDLE:
            return needle_prompt_ids(key, tokens, self.texts.ids, self.texts.needles[key.index], DEPTHS[key.index])
        return text_prompt_ids(key, tokens, self.texts.ids)

    def _prompt_class(self, step: Step) -> str:
        return "text" if self.texts is not None and step in TEXT_STEPS else "ids"

    def _window_name(self, name: str) -> str:
        """Two checks of one step must not share a window: their requests would be counted together."""
        self._windows[name] += 1
        return name if self._windows[name] == 1 else f"{name}#{self._windows[name]}"

    def _send(self, body: bytes, *, deadline_s: float) -> Received:
        # A connection per request: one that is kept alive may be closed by the server as we write to it.
        with open_session() as session:
            return receive(session, f"{self._base_url}{COMPLETIONS}", body, deadline_s=deadline_s)

    def _scrape(self, expected_requests: tuple[str | None, int] | None) -> str | None:
        """Scrape until the counters have settled; the last raw text is kept. None when it failed.

        A server counts a moment after it has sent the last token. Settled means that nothing runs,
        that this window's requests are counted, and that two scrapes in a row agree. After
        SETTLE_TRIES the scrape is taken as it is, and the judge sees the mismatch.
        """
        name_before, served = expected_requests or (None, 0)
        baseline = self._read(name_before) if name_before is not None else None
        text = ""
        previous: prometheus.Scrape | None = None
        for _ in range(SETTLE_TRIES):
            try:
                with requests.Session() as session:
                    session.trust_env = False  # a proxy of the user's must not stand between us and the server
                    response = session.get(f"{self._base_url}/metrics", timeout=10)
                response.raise_for_status()
                text = response.text
                scrape = prometheus.parse(text)
            except (requests.RequestException, ValueError):
                return None
            difference = prometheus.delta(baseline, scrape)
            counted = difference is None or (difference.get("requests") or 0) >= served
            stable = previous is not None and previous.counters == scrape.counters
            if not scrape.running and counted and stable:
                break
            previous = scrape
            time.sleep(SETTLE_S)
        self._scrapes += 1
        name = f"{self._scrapes:03d}.prom"
        write_piece(self._folder.metrics_dir / name, text.encode())
        return name

    def _read(self, name: str) -> prometheus.Scrape:
        return prometheus.parse((self._folder.metrics_dir / name).read_text("utf-8"))


@dataclass(frozen=True)
class _Place:
    """Where in the course a request stands."""

    request: str
    window: str
    step: Step
    context_tokens: int | None
    pass_number: int
    index: int
    prompt_class: str
    wanted: Wanted

    def request_record(self, ask: Ask, answer: Answer) -> RequestRecord:
        usage = None
        if answer.prompt_tokens is not None and answer.completion_tokens is not None:
            usage = Usage(prompt_tokens=answer.prompt_tokens, completion_tokens=answer.completion_tokens)
        place = {name: value for name, value in vars(self).items() if name != "wanted"}
        if self.wanted.follows is not None:
            place |= {"index": self.wanted.follows[0], "prefix_tokens": len(self.wanted.follows[1])}
        return RequestRecord(
            **place,
            kind=self.wanted.kind,
            prompt_sha256=prompt_sha256(ask.prompt_ids),
            prompt_tokens=len(ask.prompt_ids),
            asked_tokens=ask.output_tokens,
            sampling=ask.sampling.set_apart(),
            status=answer.status,
            begin_ns=answer.begin_ns,
            sent_ns=answer.sent_ns,
            first_token_ns=answer.first_token_ns,
            event_ns=answer.event_ns,
            event_tokens=answer.event_tokens,
            end_ns=answer.end_ns,
            usage=usage,
            finish_reason=_common(s.finish_reason for s in answer.sequences),
            error=answer.error,
            prompt_logprobs=_numbers(answer.prompt_logprobs),
        )


def _common(reasons: Iterable[str | None]) -> str | None:
    """The finish reason of all sequences, or of one that ended otherwise than at its length."""
    return next(iter(sorted(set(reasons), key=lambda reason: reason == "length")), None)


def _numbers(logprobs: Many[float | None] | None) -> int | None:
    return None if logprobs is None else sum(value is not None for value in logprobs)


def _output_records(request: str, answer: Answer) -> Iterator[OutputRecord]:
    for number, sequence in enumerate(answer.sequences or (Sequence(),)):
        yield OutputRecord(
            request=request,
            sequence=number,
            token_ids=sequence.token_ids,
            text=sequence.text,
            finish_reason=sequence.finish_reason,
            sha256=output_sha256(sequence.token_ids, sequence.text, sequence.finish_reason),
            top_logprobs=sequence.top_logprobs or None,
        )


def output_sha256(token_ids: Many[int], text: str, finish_reason: str | None) -> str:
    """Hash of one output; '' for an empty one, because equal hashes of nothing prove nothing."""
    if not token_ids and not text:
        return ""
    content = json.dumps([list(token_ids), text, finish_reason], separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()
