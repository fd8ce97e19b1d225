"""The JIT's own hooks, which vLLM's monitor uses too: the second witness of a compilation.

It speaks only where the compiler's hook has not told of the kernel already.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from .finder import Changed
from .recorder import Recorder
from .specialisation import of_hook
from .triton_compiler import BACKEND, REMEMBERED


def hook(module: ModuleType, recorder: Recorder) -> str:
    """Chain onto the JIT's hooks, wherever this version keeps them."""
    _let_unserialisable_constants_pass(module)
    runtime = getattr(getattr(module, "knobs", None), "runtime", None)
    if runtime is not None and hasattr(runtime, "jit_post_compile_hook"):
        owner, before, after = runtime, "jit_cache_hook", "jit_post_compile_hook"
    elif hasattr(getattr(module, "JITFunction", None), "compiled_hook"):
        owner, before, after = module.JITFunction, "cache_hook", "compiled_hook"
    elif hasattr(getattr(module, "JITFunction", None), "cache_hook"):
        owner, before, after = module.JITFunction, "cache_hook", ""
    else:
        raise Changed("neither knobs.runtime.jit_post_compile_hook nor JITFunction.compiled_hook nor cache_hook")
    pending: dict[Any, Any] = {}

    def note(kwargs: Mapping[str, Any]) -> None:
        with recorder.quietly("triton before"):
            what = of_hook(kwargs)
            if after:
                pending[what["token"]] = recorder.start()
                while len(pending) > REMEMBERED:
                    pending.pop(next(iter(pending)))
            elif not recorder.sees_compiler:  # nothing will tell the end of it
                _tell_hook(recorder, what, None)

    def tell(kwargs: Mapping[str, Any]) -> None:
        with recorder.quietly("triton after"):
            what = of_hook(kwargs)
            _tell_hook(recorder, what, pending.pop(what["token"], None))

    _chain(owner, before, note)
    if after:
        _chain(owner, after, tell)
    return f"{after or before} of {getattr(owner, '__name__', 'knobs.runtime')}"


def _tell_hook(recorder: Recorder, what: dict[str, Any], start: dict[str, Any] | None) -> None:
    """The kernel of a JIT hook, unless the compiler has told of it."""
    if recorder.told.pop(what.pop("token"), False):
        return
    kernel, start = what.pop("kernel"), start or recorder.start()
    tuning = bool(getattr(recorder.local, "tuning", 0))
    recorder.kernel("compile", BACKEND, kernel, start, **what, origin=None, autotune=tuning, via="hook", error=None)


def _chain(owner: Any, name: str, tell: Callable[[Mapping[str, Any]], None]) -> None:
    """Call `tell`, then whatever was hooked before, whose answer counts."""
    earlier = getattr(owner, name)
    if getattr(earlier, "_qualify_traced", False):  # the module was reloaded
        return

    def hook(*args: Any, **kwargs: Any) -> Any:
        tell(kwargs)
        return earlier(*args, **kwargs) if earlier is not None else None

    hook._qualify_traced = True  # type: ignore[attr-defined]  # noqa: SLF001  # our own mark
    # On a class it must not become a method.
    setattr(owner, name, staticmethod(hook) if isinstance(owner, type) else hook)


def _let_unserialisable_constants_pass(module: ModuleType) -> None:
    """With any hook set, Triton puts the constants into JSON, and raises into the engine where it cannot.

    vLLM's own monitor guards the same function for the same reason.
    """
    inner = getattr(module, "serialize_specialization_data", None)
    if inner is None or getattr(inner, "_qualify_traced", False):
        return

    @functools.wraps(inner)
    def serialize_specialization_data(*args: Any, **kwargs: Any) -> Any:
        try:
            return inner(*args, **kwargs)
        except (TypeError, ValueError):
            return None

    serialize_specialization_data._qualify_traced = True  # type: ignore[attr-defined]  # noqa: SLF001
    module.serialize_specialization_data = serialize_specialization_data  # type: ignore[attr-defined]
