"""The hook of the CuTe DSL: `cutlass.cute.compile`, also where it is imported by name.

The attribute is replaced when `cutlass.cute` has just been executed, so `from cutlass.cute import
compile` gets the wrapper. In modern versions it is an object that takes options in brackets.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .finder import Changed
from .recorder import Recorder, plain

if TYPE_CHECKING:
    import inspect

BACKEND = "CuTeDSL"
ATTRIBUTES = 64


class TracedCompile:
    """Stands for `cute.compile` and is like it in everything else."""

    _qualify_traced = True

    def __init__(self, inner: Any, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder

    def __getitem__(self, options: Any) -> TracedCompile:
        return TracedCompile(self._inner[options], self._recorder)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compile, and tell of it."""
        start, error = self._recorder.start(), None
        try:
            return self._inner(*args, **kwargs)
        except BaseException as e:
            error = type(e).__name__
            raise
        finally:
            with self._recorder.quietly("cute.compile"):
                what = _described(args, kwargs)
                kernel = what.pop("kernel")
                self._recorder.kernel("compile", BACKEND, kernel, start, **what, via="cute.compile", error=error)


def hook(module: ModuleType, recorder: Recorder) -> str:
    """Replace `compile`, in the module and wherever it was imported by name."""
    inner = getattr(module, "compile", None)
    if inner is None or not callable(inner):
        raise Changed("cutlass.cute has no compile")
    if getattr(inner, "_qualify_traced", False):
        return "cute.compile"
    traced = TracedCompile(inner, recorder)
    module.compile = traced  # type: ignore[attr-defined]
    taken = 0
    for other in list(sys.modules.values()):  # it was imported before us, and by name
        for name in [n for n, v in list(getattr(other, "__dict__", {}).items()) if v is inner]:
            setattr(other, name, traced)
            taken += 1
    return f"cute.compile{f', and {taken} names of it' if taken else ''}"


def _described(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    kernel, rest = (args[0], args[1:]) if args else (kwargs.get("function", kwargs.get("func")), ())
    # vLLM's monitor names it in the same way.
    name = getattr(kernel, "__name__", None) or type(kernel).__name__
    constexprs: dict[str, Any] = {}
    if not hasattr(kernel, "__name__"):  # an object that holds what it is specialised for
        simple = [(k, v) for k, v in vars(kernel).items() if isinstance(v, (bool, int, float, str))]
        constexprs = {k: plain(v) for k, v in sorted(simple)[:ATTRIBUTES]}
    signature: dict[str, str] = {}
    for parameter, value in _bound(kernel, rest, kwargs):
        if "Constexpr" in str(parameter.annotation):
            constexprs[parameter.name] = plain(value)
        else:
            kind = getattr(value, "dtype", None) or type(value)
            signature[parameter.name] = plain(getattr(kind, "__name__", kind))
    return {
        "kernel": str(name),
        "module": str(getattr(kernel, "__module__", "") or ""),
        "constexprs": constexprs,
        "signature": signature,
        # Whether the DSL's own cache of files served it, it does not say.
        "origin": None,
        "autotune": False,
    }


def _bound(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[inspect.Parameter, Any]]:
    import inspect  # noqa: PLC0415  # dear, and most processes of a server never get here

    try:
        signature = inspect.signature(kernel)
        names = {k: v for k, v in kwargs.items() if k in signature.parameters}
        bound = signature.bind_partial(*args, **names)
    except (TypeError, ValueError):
        return []
    return [(signature.parameters[name], value) for name, value in bound.arguments.items()]
