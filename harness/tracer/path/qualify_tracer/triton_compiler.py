"""Triton's compiler: every compilation, every load of a compiled kernel from disk, every load onto the device.

It is called by the JIT and its compile threads, by Inductor, and by whoever compiles ahead of time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .finder import Changed, wrap_once
from .recorder import Recorder
from .specialisation import of_source

BACKEND = "Triton"
REMEMBERED = 512
"""Kernels that are told of here and not yet confirmed by the JIT's hook."""


def hook(module: ModuleType, recorder: Recorder) -> str:
    """Wrap `compile`, what it calls only when it really compiles, and the loading onto the device."""
    wrap_once(module, "compile", functools.partial(_traced_compile, recorder))
    done = ["compile"]
    for owner, name, make in (
        ("ASTSource", "make_ir", _traced_ir),
        ("IRSource", "make_ir", _traced_ir),
        ("CompiledKernel", "_init_handles", _traced_load),
    ):
        try:
            wrap_once(getattr(module, owner, module), name, functools.partial(make, recorder))
            done.append(f"{owner}.{name}")
        except Changed as e:
            done.append(f"not {owner}.{name} ({e})")
    recorder.sees_compiler = True
    recorder.tells_origin = "ASTSource.make_ir" in done
    return ", ".join(done)


def _traced_compile(recorder: Recorder, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def compile(*args: Any, **kwargs: Any) -> Any:  # noqa: A001  # its name
        calls = _calls(recorder)
        call = {"start": recorder.start(), "compiled": False}
        calls.append(call)
        error = None
        try:
            return inner(*args, **kwargs)
        except BaseException as e:
            error = type(e).__name__
            raise
        finally:
            calls.pop()
            with recorder.quietly("triton.compile"):
                source = args[0] if args else kwargs.get("src")
                options = kwargs.get("options", args[2] if len(args) > 2 else None)
                _tell(recorder, of_source(source, options), call, error)

    return compile


def _traced_ir(recorder: Recorder, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def make_ir(*args: Any, **kwargs: Any) -> Any:
        for call in _calls(recorder)[-1:]:
            call["compiled"] = True
        return inner(*args, **kwargs)

    return make_ir


def _traced_load(recorder: Recorder, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def _init_handles(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, "module", None) is not None:  # old versions ask before every launch
            return inner(self, *args, **kwargs)
        start = recorder.start()
        try:
            return inner(self, *args, **kwargs)
        finally:
            with recorder.quietly("triton load"):
                name = getattr(self, "name", None) or self.metadata.name
                recorder.kernel("load", BACKEND, str(name), start, hash=str(getattr(self, "hash", "")))

    return _init_handles


def _tell(recorder: Recorder, what: dict[str, Any], call: dict[str, Any], error: str | None) -> None:
    told = recorder.told
    told[what.pop("token")] = True
    while len(told) > REMEMBERED:
        told.popitem(last=False)
    kernel = what.pop("kernel")
    origin = None
    if recorder.tells_origin:
        origin = "compiled" if call["compiled"] else "disk"
    tuning = bool(getattr(recorder.local, "tuning", 0))
    fields = {**what, "origin": origin, "autotune": tuning, "via": "compile", "error": error}
    recorder.kernel("compile", BACKEND, kernel, call["start"], **fields)


def _calls(recorder: Recorder) -> list[dict[str, Any]]:
    """Calls of `compile` that this thread is in, innermost last."""
    calls: list[dict[str, Any]] | None = getattr(recorder.local, "triton_calls", None)
    if calls is None:
        calls = recorder.local.triton_calls = []
    return calls
