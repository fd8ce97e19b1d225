"""Faults on demand: what `QUALIFY_FAKE_FAULTS` may say, and what it says.

    faults = fault ("," fault)*            spaces around a fault are ignored
    fault  = name ["=" value] ["@" n]      a name of `KINDS`; `value` and `@n` only where its kind has them

`@n` limits a fault to the n-th event, counted from 1: the n-th completion, or the n-th scrape for
`metrics-500`. Without it every event is hit. Completions are counted as they arrive, the readiness
completion included; a request that is refused with 4xx is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError

VARIABLE = "QUALIFY_FAKE_FAULTS"


@dataclass(frozen=True)
class Kind:
    """What a fault does and which parts it takes."""

    meaning: str
    value: str = ""
    """Placeholder of the required value, or empty: N counts from 1, K from 0, other names are text."""
    at: bool = False
    """Whether `@n` may follow."""


KINDS: dict[str, Kind] = {
    "die-at-start": Kind("prints a traceback while starting and exits with code 1"),
    "no-health": Kind("serves, but /health answers 503 for ever"),
    "wrong-model-name": Kind("serves the model as wrong-NAME, in every answer and label"),
    "ignore-sigterm": Kind("ignores SIGTERM and SIGINT; only SIGKILL ends it"),
    "orphan-worker": Kind("starts a child that ignores SIGTERM and outlives the server (10 minutes at most)"),
    "secret-in-log": Kind("prints text in the shape of a Hugging Face token while starting"),
    "late-jit": Kind(
        "names KERNEL in a JIT monitor line, late by 0.25 s, at the first prompt over 1000 tokens or at the n-th",
        "KERNEL",
        at=True,
    ),
    "late-compile": Kind("that prompt compiles KERNEL, as a line of its library tells", "KERNEL"),
    "late-load": Kind("that prompt loads KERNEL from the disk, as a line tells", "KERNEL"),
    "late-file": Kind("that prompt leaves a new file in the compile caches, and no line"),
    "trace-sees": Kind("in a trace launch: a kernel library is hooked"),
    "trace-changed": Kind("in a trace launch: the tracer's hook does not fit the library"),
    "trace-warm": Kind("in a trace launch: the warm-up compiles KERNEL", "KERNEL"),
    "trace-late": Kind("in a trace launch: the first prompt over 1000 tokens compiles KERNEL", "KERNEL"),
    "trace-mismatch": Kind(
        "in a trace launch: KERNEL/SIZE:1:4 is warmed up for SIZE=1, and the long prompt needs SIZE=4", "KERNEL"
    ),
    "take-memory": Kind("takes N MiB while a completion runs, and keeps half of it", "N", at=True),
    "die-at-first-request": Kind("exits with code 1 when the first completion arrives"),
    "die-after": Kind("exits with code 1 when completion N arrives", "N"),
    "slow-death": Kind(
        "completion N slows down, each step 20 ms longer than the last, and half way the process exits with code 1", "N"
    ),
    "trickle-headers": Kind("sends one header, a byte at a time, for as long as the client stays", at=True),
    "vary-chunks": Kind("events carry the tokens of one step, of two, of three, of one, ...", at=True),
    "error-line": Kind("prints an error and serves on", at=True),
    "preempt": Kind("counts a preemption", at=True),
    "torn-log": Kind("lines of two workers are torn into each other, with colours and bytes that are no UTF-8"),
    "http-500": Kind("answers completion N with 500", "N"),
    "hang": Kind("sends the first chunk, then nothing", at=True),
    "drop-mid-stream": Kind("closes the connection half way, without a final chunk", at=True),
    "error-event": Kind("sends an error event half way, then [DONE]", at=True),
    "wrong-usage": Kind("usage counts one completion token too many", at=True),
    "short-output": Kind("delivers one token less, with finish_reason stop", at=True),
    "diverge-at": Kind("the output differs from index K on", "K", at=True),
    "break-tie": Kind("the first near tie of the output is won by the other token, as rounding does", at=True),
    "says": Kind("the output's text is TEXT, whatever its tokens are", "TEXT", at=True),
    "other-tokenizer": Kind("the tokenizer gives other ids for words that are not in the vocabulary"),
    "stuck-at": Kind("the output repeats its token K to the end", "K", at=True),
    "unstable": Kind("every second completion of the same prompt diverges at index 3"),
    "nan-logprobs": Kind("logprobs are NaN, bare, as Python's json writes them", at=True),
    "null-logprobs": Kind("logprobs are null, which is how vLLM's streams write a NaN", at=True),
    "clip-output": Kind("clips an output beyond max-model-len without a word, as 0.32.0 does, instead of 400", at=True),
    "prefix-hits": Kind("counts all but one prompt token as prefix-cache hits", at=True),
    "miscount": Kind("counters count one generated token too many", at=True),
    "lost-draft": Kind("counters leave out the first draft", at=True),
    "foreign-traffic": Kind("counters advance by one more request", at=True),
    "counter-reset": Kind("counters fall to zero and the start time moves, with the last event of completion N", "N"),
    "kv-disagrees": Kind("/metrics tells a block less of KV cache than the log"),
    "kv-less": Kind("the KV cache has N blocks less", "N"),
    "v2-runner": Kind("says that it runs on Model Runner V2"),
    "metrics-500": Kind("the scrape fails with 500", at=True),
    "once": Kind("the other faults are those of the first server alone that finds no file PATH, and makes it", "PATH"),
    "worker-death": Kind("tells that a worker died, and has not yet ended of it", at=True),
    "worker-forks": Kind("of several ranks, each has a child that bears its title, from completion N on", "N"),
    "worker-vanishes": Kind(
        "of several ranks, each one's process is killed at completion N; no line tells of it, and it serves on", "N"
    ),
    "on-rank": Kind(
        "what comes late, what befalls workers, and what gpu-leaves, gpu-keeps and gpu-peaks do, is on rank K alone",
        "K",
    ),
    # Of the fake NVML's GPUs, and only where QUALIFY_FAKE_NVML names some.
    "gpu-leaves": Kind("the KV cache leaves N MiB free on each GPU, not 2048", "N"),
    "gpu-keeps": Kind("the first prompt over 1000 tokens takes N MiB for good", "N"),
    "gpu-peaks": Kind("that prompt takes N MiB until they were seen, and gives them back", "N"),
    "gpu-lingers": Kind("its GPU memory stays taken N s longer than it lives", "N"),
    "gpu-throttled": Kind("its GPUs report a thermal slowdown by their hardware"),
    "gpu-power-capped": Kind("its GPUs report that they run at their power cap"),
    "gpu-power-limit": Kind("its GPUs run at a power limit of N W", "N"),
    "gpu-xid": Kind("that prompt raises Xid N", "N"),
    "gpu-ecc": Kind("that prompt meets an uncorrectable ECC error"),
    "gpu-lost": Kind("with that prompt its GPUs fall off the bus"),
}


@dataclass(frozen=True)
class Fault:
    """One fault as it was asked for."""

    name: str
    value: str = ""
    at: int | None = None

    @property
    def number(self) -> int:
        """The value of a fault that takes N or K."""
        return int(self.value)


@dataclass(frozen=True)
class Faults:
    """All faults of one server."""

    items: tuple[Fault, ...] = ()

    def all(self, name: str, event: int | None = None) -> Iterator[Fault]:
        """The faults of this name that hit the event; with no event, whatever their `@n`."""
        for fault in self.items:
            if fault.name == name and (event is None or fault.at in (None, event)):
                yield fault

    def hit(self, name: str, event: int | None = None) -> bool:
        """Whether any fault of this name hits the event."""
        return any(True for _ in self.all(name, event))

    def ranks(self, count: int) -> tuple[int, ...]:
        """The ranks, of so many, that do what comes late: all of them, or the one that `on-rank` names."""
        only = [f.number for f in self.all("on-rank")]
        return tuple(n for n in range(count) if not only or n in only)

    def due(self, name: str, event: int) -> bool:
        """Whether a fault that names its event by `=N` names this one."""
        return any(fault.number == event for fault in self.all(name))


def first_only(faults: Faults) -> Faults:
    """The faults of this server: none where `once` names a file that an earlier server has made.

    Raises:
        OSError: the file cannot be made.
    """
    for fault in faults.all("once"):
        try:
            Path(fault.value).touch(exist_ok=False)
        except FileExistsError:
            return Faults()
    return faults


def parse_faults(text: str) -> Faults:
    """Read `QUALIFY_FAKE_FAULTS`; empty text is no fault.

    Raises:
        ConfigError: it does not follow the grammar.
    """
    return Faults(tuple(_parse_fault(part.strip()) for part in text.split(",") if part.strip()))


def _parse_fault(text: str) -> Fault:
    rest, at_sign, at = text.partition("@")
    name, equals, value = rest.partition("=")
    kind = KINDS.get(name)
    if kind is None:
        raise ConfigError(f"{VARIABLE}: no fault is named {name!r}; known are {', '.join(KINDS)}")
    if bool(equals) != bool(kind.value) or (equals and not value):
        form = f"{name}={kind.value}" if kind.value else name
        raise ConfigError(f"{VARIABLE}: {text!r}: write {form}")
    if kind.value in {"N", "K"} and not (value.isascii() and value.isdigit() and int(value) >= (kind.value == "N")):
        raise ConfigError(f"{VARIABLE}: {text!r}: {kind.value} must be a whole number from {int(kind.value == 'N')} on")
    if at_sign and not kind.at:
        raise ConfigError(f"{VARIABLE}: {text!r}: {name} takes no @n")
    if at_sign and not (at.isascii() and at.isdigit() and int(at) >= 1):
        raise ConfigError(f"{VARIABLE}: {text!r}: after @ stands the number of an event, from 1 on")
    return Fault(name, value, int(at) if at_sign else None)


def describe_kinds() -> str:
    """A line per fault, for `--help`."""
    forms = {
        name + (f"={kind.value}" if kind.value else "") + ("[@n]" if kind.at else ""): kind.meaning
        for name, kind in KINDS.items()
    }
    width = max(map(len, forms))
    return "\n".join(f"  {form:<{width}}  {meaning}" for form, meaning in forms.items())
