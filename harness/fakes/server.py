"""vLLM's routes, as far as a harness uses them."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from harness.fakes import chat
from harness.fakes.answers import Reply, model_list
from harness.fakes.asks import ApiError, check_model, read_ask, read_json
from harness.fakes.engine import Engine, Job
from harness.fakes.log_lines import ENGINE_DEAD, Line, log
from harness.fakes.model import Step, read_words, words
from harness.fakes.wire import WireHandler, WireServer, dump

DONE = b"[DONE]"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class FakeServer(WireServer):
    """The HTTP server of one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._scrapes = 0
        self._lock = threading.Lock()
        super().__init__((engine.settings.host, engine.settings.port), Handler)

    def next_scrape(self) -> int:
        """Number of a scrape, from 1."""
        with self._lock:
            self._scrapes += 1
            return self._scrapes


@dataclass(frozen=True)
class Response:
    """A completion on its way out, and how it breaks."""

    job: Job
    reply: Reply
    hang: bool
    drop: bool
    error: bool
    chat: bool = False

    @property
    def intact(self) -> int:
        """Number of steps that are sent before the response breaks."""
        steps = len(self.job.steps)
        if self.hang:
            return 1
        return steps // 2 if self.drop or self.error else steps + 1


class Handler(WireHandler):
    """One connection."""

    server: FakeServer
    _token_events_ns: list[int]

    def do_GET(self) -> None:  # noqa: N802  the base class looks for this name
        """Answer a GET."""
        self.dispatch(
            {
                "/health": self._health,
                "/ping": self._health,
                "/version": lambda: self.send_json({"version": self.server.engine.settings.era.version}),
                "/v1/models": self._models,
                "/metrics": self._metrics,
            }
        )

    def do_POST(self) -> None:  # noqa: N802  the base class looks for this name
        """Answer a POST."""
        self.dispatch(
            {
                "/ping": self._health,
                "/v1/completions": self._completions,
                "/v1/chat/completions": self._chat_completions,
                "/tokenize": self._tokenize,
                "/detokenize": self._detokenize,
                "/reset_prefix_cache": self._reset_prefix_cache,
            }
        )

    def _health(self) -> None:
        sick = self.server.engine.settings.faults.hit("no-health")
        self.send_body(b"", 503 if sick else 200, None)

    def _models(self) -> None:
        settings = self.server.engine.settings
        now, permission = int(time.time()), secrets.token_hex(8)
        self.send_json(model_list(settings.served_name, settings.model, now, settings.max_model_len, permission))

    def _metrics(self) -> None:
        engine = self.server.engine
        if engine.settings.faults.hit("metrics-500", self.server.next_scrape()):
            self.send_body(b"Internal Server Error", 500, "text/plain; charset=utf-8")
        else:
            self.send_body(engine.counters.exposition().encode(), 200, METRICS_TYPE)

    def _tokenize(self) -> None:
        engine = self.server.engine
        body = read_json(self.body)
        check_model(body, engine.settings.served_name)
        prompt = body.get("prompt")
        if not isinstance(prompt, str):
            raise ApiError(400, "1 validation error:\n  prompt: Input should be a valid string", "Bad Request")
        salt = "other" if engine.settings.faults.hit("other-tokenizer") else ""
        ids = read_words(prompt, engine.model.vocab, salt)
        strings = [f"w{t}" for t in ids] if body.get("return_token_strs") else None
        limit = engine.settings.max_model_len
        self.send_json({"count": len(ids), "max_model_len": limit, "tokens": ids, "token_strs": strings})

    def _detokenize(self) -> None:
        self.send_json({"prompt": "".join(words(read_json(self.body).get("tokens", []), first=True))})

    def _reset_prefix_cache(self) -> None:
        log(
            Line("APIServer", "INFO", "api_router.py:39", "Resetting prefix cache..."),
            Line("EngineCore", "INFO", "block_pool.py:861", "Successfully reset prefix cache"),
        )
        self.send_json({"success": True})

    def _completions(self) -> None:
        self._complete(read_json(self.body), as_chat=False)

    def _chat_completions(self) -> None:
        self._complete(chat.as_completion(read_json(self.body), self.server.engine.model.vocab), as_chat=True)

    def _complete(self, body: Mapping[str, Any], *, as_chat: bool) -> None:
        engine = self.server.engine
        settings = engine.settings
        ask = read_ask(
            body,
            served_name=settings.served_name,
            vocab=engine.model.vocab,
            max_model_len=settings.max_model_len,
        )
        job = engine.accept(ask)
        hang, drop, error = (
            settings.faults.hit(name, job.number) for name in ("hang", "drop-mid-stream", "error-event")
        )
        response = Response(job, engine.reply(job), hang=hang, drop=drop, error=error, chat=as_chat)
        if settings.faults.hit("trickle-headers", job.number):
            self.trickle_headers()
        elif ask.stream:
            self._send_stream(response)
        else:
            self._send_whole(response)

    def _send_stream(self, response: Response) -> None:
        job, reply = response.job, response.reply
        settings = self.server.engine.settings
        paced = settings.step_s > 0 or bool(settings.faults.items)  # without either, events may share a segment
        self._token_events_ns = []
        self.begin_stream()
        with closing(self.server.engine.run(job)) as steps:
            tokens: list[int] = []
            for count, step in enumerate(steps, 1):
                last = job.is_last(count - 1)
                tokens += step.tokens
                if count <= response.intact and (last or count == response.intact or self._is_due(job, count)):
                    sent = replace(step, tokens=tuple(tokens))
                    self._send_tokens(response, sent, job.finish_reason if last else None, soon=paced or count == 1)
                    tokens = []
                if count >= response.intact:
                    break
            self.flush_events()
            if response.hang:
                self.wait_for_client_to_leave()
                return
        if response.drop:
            self.close_connection = True
            return
        if response.error:
            self.send_event(dump(_engine_error().body()))
        elif job.ask.usage:
            body = reply.usage_chunk()
            self._send_body(chat.usage_chunk(body) if response.chat else body, soon=False)
        self.send_event(DONE, soon=False)
        self.end_stream()
        if not response.error:
            self._tell_truth(job)

    def _tell_truth(self, job: Job) -> None:
        """Write down what went out, and when, for whoever wants to hold a client against it."""
        path = self.server.engine.settings.truth_file
        if path is None:
            return
        times = self._token_events_ns
        told = {
            "request": job.number,
            "tokens": sum(len(step.tokens) for step in job.steps),
            "events": len(times),
            "after_first": sum(len(step.tokens) for step in job.steps[1:]),
            "received_ns": self.received_ns,
            "first_ns": times[0],
            "last_ns": times[-1],
        }
        with path.open("ab") as stream:
            stream.write(dump(told) + b"\n")

    def _is_due(self, job: Job, count: int) -> bool:
        """Whether an event goes out after this step: always, or every few steps."""
        settings = self.server.engine.settings
        if job.ask.n > 1:
            return True  # an event is of one sequence
        if settings.faults.hit("vary-chunks", job.number):
            return count % 6 in {1, 3, 0}  # events of one step, of two, of three
        return count == 1 or (count - 1) % settings.stream_interval == 0

    def _send_tokens(self, response: Response, step: Step, finish_reason: str | None, *, soon: bool) -> None:
        opening = response.reply.untouched
        body = response.reply.chunk(step, finish_reason)
        if response.chat:
            if opening:
                self._send_body(chat.role_chunk(body), soon=soon)
            reasoning = "reasoning_parser" in self.server.engine.settings.flags and finish_reason is None
            body = chat.token_chunk(body, reasoning=reasoning)
        self._send_body(body, soon=soon, tokens=True)

    def _send_body(self, body: dict[str, Any], *, soon: bool, tokens: bool = False) -> None:
        if self.server.engine.settings.stamps:
            body = {**body, "received_ns": self.received_ns, "sent_ns": time.monotonic_ns()}
        data = dump(body)
        if tokens:
            self._token_events_ns.append(time.monotonic_ns())
        self.send_event(data, soon=soon)

    def _send_whole(self, response: Response) -> None:
        outputs: list[list[int]] = [[] for _ in range(response.job.ask.n)]
        with closing(self.server.engine.run(response.job)) as steps:
            for count, step in enumerate(steps, 1):
                outputs[step.sequence] += step.tokens
                if count >= response.intact and not response.drop:
                    break
            if response.hang:
                self.wait_for_client_to_leave()
                return
        if response.error:
            raise _engine_error()
        body = response.reply.whole(outputs, response.job.finish_reason)
        self.send_json(chat.whole(body) if response.chat else body, cut=response.drop)


def _engine_error() -> ApiError:
    return ApiError(500, ENGINE_DEAD, "InternalServerError")
