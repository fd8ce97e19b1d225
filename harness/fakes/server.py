"""vLLM's routes, as far as a harness uses them."""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import closing
from dataclasses import dataclass

from harness.fakes.answers import Reply, model_list
from harness.fakes.asks import ApiError, check_model, read_ask, read_json
from harness.fakes.engine import Engine, Job
from harness.fakes.log_lines import ENGINE_DEAD, Line, log
from harness.fakes.model import read_words, words
from harness.fakes.settings import VERSION
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

    def do_GET(self) -> None:  # noqa: N802  the base class looks for this name
        """Answer a GET."""
        self.dispatch(
            {
                "/health": self._health,
                "/ping": self._health,
                "/version": lambda: self.send_json({"version": VERSION}),
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
        engine = self.server.engine
        settings = engine.settings
        ask = read_ask(
            read_json(self.body),
            served_name=settings.served_name,
            vocab=engine.model.vocab,
            max_model_len=settings.max_model_len,
        )
        job = engine.accept(ask)
        hang, drop, error = (
            settings.faults.hit(name, job.number) for name in ("hang", "drop-mid-stream", "error-event")
        )
        response = Response(job, engine.reply(job), hang=hang, drop=drop, error=error)
        if ask.stream:
            self._send_stream(response)
        else:
            self._send_whole(response)

    def _send_stream(self, response: Response) -> None:
        job, reply = response.job, response.reply
        self.begin_stream()
        with closing(self.server.engine.run(job)) as steps:
            for count, step in enumerate(steps, 1):
                if count <= response.intact:
                    finish_reason = job.finish_reason if job.is_last(count - 1) else None
                    self.send_event(dump(reply.chunk(step, finish_reason)))
                if count >= response.intact:
                    break
            if response.hang:
                self.wait_for_client_to_leave()
                return
        if response.drop:
            self.close_connection = True
            return
        if response.error:
            self.send_event(dump(_engine_error().body()))
        elif job.ask.usage:
            self.send_event(dump(reply.usage_chunk()))
        self.send_event(DONE)
        self.end_stream()

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
        self.send_json(response.reply.whole(outputs, response.job.finish_reason), cut=response.drop)


def _engine_error() -> ApiError:
    return ApiError(500, ENGINE_DEAD, "InternalServerError")
