"""What went wrong, as data: lines of errors whose class is known.

A class is what the line itself names. Which of several is the cause of a failed start is for `facts` to say.
"""

from __future__ import annotations

from enum import StrEnum

from harness.observe.log.event import Kind, Value
from harness.observe.log.forms.form import DECIMAL, Form, form


class Failure(StrEnum):
    """Classes of failures, by the names of the log collection's index."""

    KV_STARVATION = "kv_starvation"
    FREE_MEMORY = "free_memory_below_target"
    OOM = "oom"
    MISSING_EXTENSION = "missing_extension"
    WEIGHT_SHAPE = "weight_shape"
    UNSUPPORTED = "unsupported_config"
    DEATH = "engine_death_after_ready"
    OTHER = "other"


def _form(word: str, pattern: str, failure: Failure | None = None, *, trigger: str = "rror", **says: Value) -> Form:
    """A form of an error; most are exceptions' lines, so the end of `Error` is looked for."""
    return form(Kind.ERROR, word, pattern, trigger=trigger, **says, **({"failure": failure} if failure else {}))


FORMS: tuple[Form, ...] = (
    _form(
        "GiB KV cache is needed",
        r"at least one request with the model(?:'s|s's)? max seq len \((?P<max_model_len>\d+)\),? "
        rf"\(?(?P<needed_gib>{DECIMAL}) GiB KV cache is needed, which is larger than the available KV cache memory "
        rf"\((?P<available_gib>{DECIMAL}) GiB\)"
        r"(?:\. Based on the available memory, the estimated maximum model length is (?P<estimated_tokens>\d+))?",
        Failure.KV_STARVATION,
    ),
    _form(
        "No available memory for the cache blocks", r"No available memory for the cache blocks", Failure.KV_STARVATION
    ),
    _form(
        "is less than desired GPU memory",
        rf"Free memory on device (?:\S{{1,40}} )?\((?P<free_gib>{DECIMAL})/(?P<total_gib>{DECIMAL}) GiB\) "
        rf"on startup is less than desired GPU memory utilization "
        rf"\((?P<utilization>{DECIMAL}), (?P<wanted_gib>{DECIMAL}) GiB\)",
        Failure.FREE_MEMORY,
    ),
    _form("out of memory", r"(?:CUDA|HIP|XPU|NCCL|cuda|hip).{0,40}out of memory", Failure.OOM),
    _form("OutOfMemoryError", r"\bOutOfMemoryError\b", Failure.OOM),
    _form(
        "No module named ", r"ModuleNotFoundError: No module named '(?P<module>[^']{1,200})'", Failure.MISSING_EXTENSION
    ),
    _form("undefined symbol", r"Error: .{1,1000}undefined symbol: (?P<module>\S{1,300})", Failure.MISSING_EXTENSION),
    _form(
        "cannot open shared object",
        r"Error: (?P<module>[^\s:]{1,300}): cannot open shared object file",
        Failure.MISSING_EXTENSION,
    ),
    _form(
        "object has no attribute ",
        r"Error: '_OpNamespace' '(?P<module>\w{1,100})' object has no attribute",
        Failure.MISSING_EXTENSION,
    ),
    _form("exceeds dimension size", r"Error: .{0,200}exceeds dimension size", Failure.WEIGHT_SHAPE),
    _form("size mismatch", r"Error: .{0,1000}size mismatch", Failure.WEIGHT_SHAPE),
    _form("Attempted to load weight", r"Error: Attempted to load weight \(", Failure.WEIGHT_SHAPE),
    _form(
        "The size of tensor ", r"Error: The size of tensor .{1,60} must match the size of tensor", Failure.WEIGHT_SHAPE
    ),
    _form("NotImplementedError", r"^(?:\w[\w.]{0,100}\.)?NotImplementedError\b", Failure.UNSUPPORTED),
    _form("not supported", r"^\w[\w.]{0,100}Error: .{0,500}\bnot supported\b", Failure.UNSUPPORTED),
    _form("nsupported", r"^\w[\w.]{0,100}Error: .{0,500}\b[Uu]nsupported\b", Failure.UNSUPPORTED),
    _form("does not support", r"^\w[\w.]{0,100}Error: .{0,500}\bdoes not support\b", Failure.UNSUPPORTED),
    _form("ValidationError", r"^(?:\w[\w.]{0,100}\.)?ValidationError: \d+ validation errors? for", Failure.UNSUPPORTED),
    _form(
        ": error: ",
        r"^[\w.]{1,40}(?: [\w-]{1,20}){0,3}: error: (?P<what>.{1,500})",
        Failure.UNSUPPORTED,
        fatal="server",
    ),
    # --- ends of processes
    _form("EngineCore failed to start", r"EngineCore failed to start\.", fatal="engine", trigger="failed to start"),
    _form(
        "EngineCore encountered a fatal",
        r"EngineCore encountered a fatal error",
        fatal="engine",
        trigger="a fatal error",
    ),
    _form("EngineDeadError", r"\bEngineDeadError\b", fatal="engine"),
    _form("Engine core initialization failed", r"Engine core initialization failed", fatal="engine"),
    _form(
        "Engine core proc ",
        r"Engine core proc (?P<who>\S{1,100}) died unexpectedly",
        fatal="engine",
        trigger="died unexpectedly",
    ),
    _form("WorkerProc failed", r"WorkerProc failed(?: to start)?\.", fatal="worker", trigger="WorkerProc failed"),
    _form("WorkerProc hit an exception", r"WorkerProc hit an exception", fatal="worker", trigger="an exception"),
    _form("WorkerProc initialization failed", r"WorkerProc initialization failed", fatal="worker", trigger="Exception"),
    _form(
        "Worker proc ",
        r"Worker proc (?P<who>\S{1,100}) died unexpectedly(?: \((?P<how>exit code: -?\d{1,5})\))?",
        fatal="worker",
        trigger="died unexpectedly",
    ),
    # --- what a process says of another that is gone: gloo, pipes, NCCL
    *(
        _form(word, rf"^(?P<exception>\w[\w.]{{0,200}}Error): .{{0,1000}}{words}", lost="peer")
        for word, words in (
            ("by peer", "Connection (?:closed|reset) by peer"),
            ("Broken pipe", "Broken pipe"),
            ("remote process", "remote process (?:has exited|exited|exiting)"),
        )
    ),
    # --- any other
    _form("Traceback (most recent call last)", r"Traceback \(most recent call last\)", trigger="Traceback"),
    _form("Error", r"^(?P<exception>\w[\w.]{0,200}Error|Error)(?:: |$)"),
    _form("Exception", r"^(?P<exception>[\w.]{0,200}Exception)(?:: |$)", trigger="Exception"),
)

LEVELS = (b"ERROR", b"CRITICAL")
"""Words of levels at which any line is an error, whatever it says. journald's priority is no word of its text."""
