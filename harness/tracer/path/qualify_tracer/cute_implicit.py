"""The hook of what the CuTe DSL compiles unasked: a `@cute.jit` function that is called, and not compiled yet.

The DSL comes to `compile_and_cache` when its memory holds no such code. There it reads its cache of files
or compiles. A compilation that was asked for passes here too, and is told where it was asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType, ModuleType
from typing import Any

from . import cute_symbol
from .cute_dsl import calls, described, tell
from .finder import Changed, wrap_once
from .recorder import Recorder


def hook(module: ModuleType, recorder: Recorder) -> str:
    """Wrap `BaseDSL.compile_and_cache`, which every kind of DSL calls in the end."""
    base = getattr(module, "BaseDSL", None)
    if base is None:
        raise Changed("cutlass.base_dsl.dsl has no BaseDSL")
    wrap_once(base, "compile_and_cache", functools.partial(_traced, recorder))
    return "BaseDSL.compile_and_cache"


def _traced(recorder: Recorder, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def compile_and_cache(self: Any, *args: Any, **kwargs: Any) -> Any:
        running = calls(recorder)
        if running and running[-1].pop("asked", False):
            return inner(self, *args, **kwargs)
        start, error, made = recorder.start(), None, None
        call = {"compiled": False}
        running.append(call)
        try:
            made = inner(self, *args, **kwargs)
        except BaseException as e:
            error = type(e).__name__
            raise
        finally:
            running.pop()
            with recorder.quietly("cute.jit"):
                origin = None
                if recorder.tells_cute_origin:
                    origin = "compiled" if call["compiled"] else "disk"
                symbol = getattr(made, "function_name", None)
                tell(recorder, start, _described(args, kwargs), symbol, origin=origin, via="cute.jit", error=error)
        return made

    return compile_and_cache


def _described(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    if kwargs.get("funcBody") is None:  # an early version: the symbol is the third of the parameters
        return cute_symbol.described(str(kwargs.get("function_name") or args[2]))
    kernel, values = _as_asked(kwargs["funcBody"], tuple(kwargs.get("full_args") or ()))
    return described(kernel, values, kwargs.get("full_kwargs") or {})


def _as_asked(function: Any, values: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """What one would hand to `cute.compile`: the object or the bound method instead of a method and its `self`."""
    owner = type(values[0]) if values else None
    is_method = getattr(getattr(owner, function.__name__, None), "__wrapped__", None) is function
    if not is_method:
        return function, values
    method = MethodType(function, values[0])
    return (method.__self__ if function.__name__ == "__call__" else method), values[1:]
