"""The hooks of the CuTe DSL's compiler: every compilation that somebody asks it for.

`cutlass.cute.compile` is an instance of `CompileCallable`, and a library makes others of its own with its
options. vLLM's monitor puts a function in the place of `cutlass.cute.compile` when it is armed, and whoever
needs options goes past that. So the class's call is hooked, and every instance stays what it is. Early
versions have a function instead: there the attribute is replaced, also where it was imported by name.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .finder import Changed, wrap_once
from .recorder import NAME_CHARACTERS, Recorder, plain

if TYPE_CHECKING:
    import inspect

BACKEND = "CuTeDSL"
ATTRIBUTES = 64


def hook_compiler(module: ModuleType, recorder: Recorder) -> str:
    """Hook the call of `CompileCallable`, and what really compiles: `Compiler.compile`."""
    asked = getattr(module, "CompileCallable", None)
    if asked is None and not callable(getattr(module, "compile", None)):
        raise Changed("cutlass.base_dsl.compiler has neither CompileCallable nor compile")
    done = []
    if asked is not None:
        wrap_once(asked, "__call__", functools.partial(_traced_call, recorder))
        done.append("CompileCallable.__call__")
    try:
        wrap_once(getattr(module, "Compiler", module), "compile", functools.partial(_marked, recorder))
        done.append("Compiler.compile")
        recorder.tells_cute_origin = True
    except Changed as e:
        done.append(f"not Compiler.compile ({e})")
    return ", ".join(done)


def hook(module: ModuleType, recorder: Recorder) -> str:
    """Leave `cute.compile` where its class is hooked; else replace it wherever it was imported by name."""
    inner = getattr(module, "compile", None)
    if inner is None or not callable(inner):
        raise Changed("cutlass.cute has no compile")
    if getattr(inner, "_qualify_traced", False):
        return "cute.compile"
    if getattr(type(inner).__call__, "_qualify_traced", False):
        return "cute.compile, by its class"
    traced = TracedCompile(inner, recorder)
    module.compile = traced  # type: ignore[attr-defined]
    taken = 0
    for other in list(sys.modules.values()):  # it was imported before us, and by name
        for name in [n for n, v in list(getattr(other, "__dict__", {}).items()) if v is inner]:
            setattr(other, name, traced)
            taken += 1
    return f"cute.compile{f', and {taken} names of it' if taken else ''}"


class TracedCompile:
    """Stands for a `cute.compile` whose class is not hooked, and is like it in everything else."""

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
        # Where it compiled nothing, a cache may have served it: such a version does not say.
        return _told(self._recorder, None, self._inner, args, kwargs)


def _traced_call(recorder: Recorder, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807  # its name
        # It never reads the DSL's cache of files.
        return _told(recorder, "compiled", functools.partial(inner, self), args, kwargs)

    return __call__


def _marked(recorder: Recorder, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def compile(*args: Any, **kwargs: Any) -> Any:  # noqa: A001  # its name
        for call in calls(recorder)[-1:]:
            call["compiled"] = True
        return inner(*args, **kwargs)

    return compile


def _told(recorder: Recorder, origin: str | None, compile_: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    start, error, made = recorder.start(), None, None
    running, call = calls(recorder), {"asked": True}
    running.append(call)
    try:
        made = compile_(*args, **kwargs)
    except BaseException as e:
        error = type(e).__name__
        raise
    finally:
        running.pop()
        with recorder.quietly("cute.compile"):
            function, rest = (args[0], args[1:]) if args else (kwargs.get("function", kwargs.get("func")), ())
            what = described(function, rest, kwargs)
            symbol = getattr(made, "function_name", None)
            origin = "compiled" if call.get("compiled") else origin
            tell(recorder, start, what, symbol, origin=origin, via="cute.compile", error=error)
    return made


def calls(recorder: Recorder) -> list[dict[str, Any]]:
    """Compilations that this thread is in, innermost last."""
    running: list[dict[str, Any]] | None = getattr(recorder.local, "cute_calls", None)
    if running is None:
        running = recorder.local.cute_calls = []
    return running


def tell(recorder: Recorder, start: dict[str, Any], what: dict[str, Any], symbol: Any, **fields: Any) -> None:
    """Write one event; a kernel that is compiled here and loaded there has the same symbol in both."""
    kernel, symbol = what.pop("kernel"), plain(symbol, NAME_CHARACTERS)
    recorder.kernel("compile", BACKEND, kernel, start, **what, autotune=False, symbol=symbol, **fields)


def described(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """A kernel, which is a function, a method or an object with `__call__`, and what it is compiled for."""
    # vLLM's monitor names it in the same way.
    name = getattr(kernel, "__name__", None) or type(kernel).__name__
    constexprs: dict[str, Any] = {}
    if not hasattr(kernel, "__name__"):  # an object that holds what it is specialised for
        simple = [(k, v) for k, v in _attributes(kernel).items() if isinstance(v, (bool, int, float, str))]
        constexprs = {k: plain(v) for k, v in sorted(simple)[:ATTRIBUTES]}
    signature: dict[str, str] = {}
    for parameter, value in _bound(kernel, args, kwargs):
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
    }


def _attributes(kernel: Any) -> dict[str, Any]:
    """What an object holds, be it in `__dict__` or in slots."""
    names = {n: None for owner in type(kernel).__mro__ for n in getattr(owner, "__slots__", ())}
    slots = {n: getattr(kernel, n) for n in names if hasattr(kernel, n)}
    return {**slots, **getattr(kernel, "__dict__", {})}


def unnamed(kernel: str, module: str = "") -> dict[str, Any]:
    """A kernel of which no more than this is known."""
    return {"kernel": kernel, "module": module, "constexprs": {}, "signature": {}}


def _bound(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[inspect.Parameter, Any]]:
    import inspect  # noqa: PLC0415  # dear, and most processes of a server never get here

    try:
        signature = inspect.signature(kernel)
        names = {k: v for k, v in kwargs.items() if k in signature.parameters}
        bound = signature.bind_partial(*args, **names)
    except (TypeError, ValueError):
        return []
    return [(signature.parameters[name], value) for name, value in bound.arguments.items()]
