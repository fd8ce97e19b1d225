"""Events -> facts of a log, one value per fact, each with its line."""

from __future__ import annotations

from collections.abc import Iterable

from harness.observe.log.banner import settings
from harness.observe.log.event import Event, Kind, Value
from harness.observe.log.fact import (
    COLUMNS,
    CONCURRENCY,
    MOST_NAMES,
    POOL,
    RESOLVED,
    Fact,
    Facts,
    Failed,
    fact,
    line_of,
    summed,
)
from harness.observe.log.outcome import Outcome
from harness.observe.log.ranks import PerProcess

_START = frozenset({Kind.VERSION, Kind.ARGUMENTS, Kind.ENGINE_BANNER})
_LISTED = {Kind.ATTENTION: "attention", Kind.ENCODER_ATTENTION: "encoder_attention", Kind.MOE: "moe"}
_CACHE_LINES = frozenset({Kind.CACHE_HIT, Kind.CACHE_MISS, Kind.CACHE_LOAD_FAILED})


_PER_PROCESS = frozenset({Kind.MODEL_LOADED, Kind.GRAPHS, Kind.ENGINE_INIT, Kind.KV_MEMORY, Kind.CONCURRENCY})


def facts(events: Iterable[Event]) -> Facts:
    """Facts of a log's events."""
    fold = Fold()
    for event in events:
        fold.feed(event)
    return fold.facts()


class Fold:
    """Folds events into facts; memory does not grow with the log."""

    def __init__(self) -> None:
        self.outcome = Outcome()
        self._first: dict[Kind, Event] = {}
        self._per: dict[Kind, PerProcess] = {}
        self._kv = PerProcess()
        self._kv_open: str | None = None
        self._names: dict[str, dict[str, Event]] = {}
        self._counts: dict[str, int] = {}

    def feed(self, event: Event) -> None:
        """The next event, in the order of the log."""
        kind = event.kind
        self.outcome.feed(event)
        if kind is not Kind.ERROR:
            self._first.setdefault(kind, event)
        if kind in (Kind.KV_TOKENS, Kind.CONCURRENCY):
            self._feed_kv(event)
        elif event.process == self._kv_open:
            self._kv_open = None
        if kind in _PER_PROCESS:
            self._per.setdefault(kind, PerProcess()).feed(event)
        elif kind in _LISTED:
            self._name(_LISTED[kind], str(event.values["backend"]).replace("'", ""), event)
        elif kind is Kind.ALL_REDUCE and "backends" in event.values:
            group = f"{event.values['group']}: " if "group" in event.values else ""
            self._name("all_reduce", group + str(event.values["backends"]).replace("'", ""), event)
        else:
            self._feed_counts(event)

    def _feed_counts(self, event: Event) -> None:
        if event.kind in _CACHE_LINES and self.outcome.ready is None:
            self._count(str(event.kind))
        elif event.kind is Kind.LATE_JIT:
            self._count("late")
            self._name("late", str(event.values["kernel"]), event)
        elif event.kind is Kind.KERNEL_COMPILE:
            self._count("b12x miss", by=event.values["outcome"] == "miss")
            self._count("b12x disk-hit", by=event.values["outcome"] == "disk-hit")
        elif event.kind is Kind.SPEC_DECODING:
            self._count("spec")
            self._count("accepted", event.values["accepted"])
            self._count("drafted", event.values["drafted"])

    def _feed_kv(self, event: Event) -> None:
        """Up to 0.11 one engine prints the sizes of all its workers in a row, and uses the least of them."""
        if event.kind is not Kind.KV_TOKENS:
            return
        before = self._kv.get(event.process)
        in_a_row = self._kv_open == event.process and before is not None
        self._kv_open = event.process
        if not (in_a_row and before and float(before.values["tokens"]) <= float(event.values["tokens"])):
            self._kv.feed(event)

    def _name(self, name: str, value: str, event: Event) -> None:
        found = self._names.setdefault(name, {})
        if value not in found and len(found) < MOST_NAMES:
            found[value] = event

    def _count(self, name: str, by: Value = 1) -> None:
        self._counts[name] = self._counts.get(name, 0) + (by if isinstance(by, int) else 0)

    @property
    def is_log(self) -> bool:
        """A line of vLLM's logger, or lines of two kinds: one alone is quoted in many a text."""
        return Kind.FIRST_RECORD in self._first or len(self._first.keys() - {Kind.SHUTDOWN}) > 1

    def facts(self) -> Facts:
        """Facts so far."""
        out = self.outcome
        columns: dict[str, Fact | None] = dict.fromkeys(COLUMNS)
        resolved: dict[str, Fact | None] = dict.fromkeys(RESOLVED)
        if not self.is_log:
            return Facts(is_log=False, columns=columns, resolved=resolved, failed=None, errors_after_ready=None)
        cause = out.cause
        failed = Failed(str(out.failure), cause.line, cause.process, cause.text, dict(cause.values)) if cause else None
        errors = Fact(out.errors_after_ready, line_of(out.first_error_after_ready)) if out.ready else None
        return Facts(
            is_log=True,
            columns=columns | self._columns(),
            resolved=resolved | self._resolved(),
            failed=failed,
            errors_after_ready=errors,
        )

    def _columns(self) -> dict[str, Fact | None]:
        out = self.outcome
        loaded, graphs = self._of(Kind.MODEL_LOADED).first_rank(), self._of(Kind.GRAPHS).first_rank()
        init = self._of(Kind.ENGINE_INIT).most("seconds")
        spec = self._counts.get("spec", 0)
        kernels = self._names.get("late")
        return {
            "vllm_version": fact(self._first.get(Kind.ENGINE_BANNER) or self._first.get(Kind.VERSION), "version"),
            "ready": self._ready(),
            "failure_class": Fact(str(out.failure), line_of(out.cause)) if out.failure else None,
            "available_kv_gib": fact(self._of(Kind.KV_MEMORY).least("gib"), "gib"),
            "kv_cache_tokens": summed(self._kv.engines(), "tokens"),
            "max_concurrency_x": self._concurrency(),
            "model_load_gib": fact(loaded, "gib"),
            "model_load_s": fact(loaded, "seconds"),
            "engine_init_s": fact(init, "seconds"),
            "compile_s": fact(init, "compile_seconds"),
            "graph_capture_s": fact(graphs, "seconds"),
            "graph_capture_gib": fact(graphs, "gib"),
            "jit_monitor_armed": self._armed(),
            "late_jit_warnings": Fact(self._counts.get("late", 0)),
            "late_jit_kernels": Fact(";".join(kernels)) if kernels else None,
            "b12x_misses": Fact(self._counts.get("b12x miss", 0)),
            "b12x_hits": Fact(self._counts.get("b12x disk-hit", 0)),
            "spec_lines": Fact(spec),
            "spec_accepted_sum": Fact(self._counts["accepted"]) if spec else None,
            "spec_drafted_sum": Fact(self._counts["drafted"]) if spec else None,
        }

    def _ready(self) -> Fact | None:
        if self.outcome.ready:
            return Fact("yes", self.outcome.ready.line)
        return Fact("no", line_of(self.outcome.cause)) if self.outcome.failed else None

    def _armed(self) -> Fact | None:
        """`no` only where the log has both ends of a start: an excerpt without the line says nothing."""
        if armed := self._first.get(Kind.JIT_ARMED):
            return Fact("yes", armed.line, armed.process)
        begun = Kind.FIRST_RECORD in self._first and any(kind in self._first for kind in _START)
        return Fact("no") if begun and (self.outcome.ready or self.outcome.failed) else None

    def _concurrency(self) -> Fact | None:
        on_the_line = [e for e in self._kv.engines() if "concurrency" in e.values]
        return summed(on_the_line or self._of(Kind.CONCURRENCY).engines(), "concurrency")

    def _resolved(self) -> dict[str, Fact | None]:
        banner = self._first.get(Kind.ENGINE_BANNER)
        found: dict[str, Fact | None] = {}
        if banner:
            found |= {name: Fact(v, banner.line, banner.process) for name, v in settings(banner.text).items()}
        for name in ("attention", "encoder_attention", "moe", "all_reduce"):
            if names := self._names.get(name):
                first = next(iter(names.values()))
                found[name] = Fact("; ".join(names), first.line, first.process)
        per_request = self._first.get(Kind.CONCURRENCY) or self._first.get(Kind.KV_TOKENS)
        return found | {
            "runner": self._runner(),
            "max_num_batched_tokens": fact(self._first.get(Kind.BATCHED_TOKENS), "tokens"),
            "max_num_scheduled_tokens": fact(self._first.get(Kind.SCHEDULED_TOKENS), "tokens"),
            "async_scheduling": fact(self._first.get(Kind.ASYNC_SCHEDULING), "state"),
            "compile_cache": self._compile_cache(),
            "kv_meaning": self._kv_meaning(),
            "kv_per_request_tokens": fact(per_request, "per_request_tokens"),
            "kv_blocks_override": fact(self._first.get(Kind.KV_OVERRIDDEN), "blocks"),
        }

    def _runner(self) -> Fact | None:
        """As the engine says it, else from the file whose lines tell of loading."""
        if said := self._first.get(Kind.RUNNER):
            return fact(said, "runner")
        banner = self._first.get(Kind.ENGINE_BANNER)
        for kind in (Kind.MODEL_LOADED, Kind.LOAD_BEGIN, Kind.GRAPHS):
            event = self._first.get(kind)
            if event and banner and banner.values.get("generation") == "1":
                if "pu_model_runner" in event.source:
                    return Fact("V1", event.line, event.process)
                if "model_runner" in event.source:
                    return Fact("V2", event.line, event.process)
        return None

    def _compile_cache(self) -> Fact | None:
        """What the log says of torch.compile's cache until the server was ready."""
        counts = {str(kind): self._counts.get(str(kind), 0) for kind in sorted(_CACHE_LINES)}
        if not any(counts.values()):
            off = self._first.get(Kind.CACHE_OFF)
            return Fact("disabled", off.line, off.process) if off else None
        return Fact(", ".join(f"{n} {name.removeprefix('compile cache ')}" for name, n in counts.items() if n))

    def _kv_meaning(self) -> Fact | None:
        size, init = self._first.get(Kind.KV_TOKENS), self._first.get(Kind.ENGINE_INIT)
        if size is None:
            return None
        if "concurrency" in size.values:
            return Fact(CONCURRENCY, size.line)
        if scaled := self._first.get(Kind.KV_SCALED):
            return Fact(POOL, scaled.line)
        return Fact(POOL if init.values["unit"] == "seconds" else CONCURRENCY, init.line) if init else None

    def _of(self, kind: Kind) -> PerProcess:
        return self._per.get(kind) or PerProcess()
