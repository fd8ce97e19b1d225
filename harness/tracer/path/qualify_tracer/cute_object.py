"""The hook of object files: a kernel that was compiled in another process, and is read and linked in this one.

A library with a cache of its own asks for no compilation then. The file is opened as a module of functions,
and each is looked up by the prefix that it was exported under.
"""

from __future__ import annotations

import functools
import os
import time
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import cute_symbol
from .cute_dsl import tell, unnamed
from .finder import Changed, wrap_once
from .recorder import Recorder, plain


class _Opened:
    """What is known of one module of functions."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.end_ns = time.monotonic_ns()
        self.told: set[str] = set()


def hook(module: ModuleType, recorder: Recorder) -> str:
    """Wrap the opening of an object file and the look-up of its functions."""
    opened = getattr(module, "ExternalBinaryModule", None)
    if opened is None:
        raise Changed(f"{module.__name__} has no ExternalBinaryModule")
    known: Any = weakref.WeakKeyDictionary()
    wrap_once(opened, "__init__", functools.partial(_traced_open, recorder, known))
    wrap_once(opened, "__getattr__", functools.partial(_traced_look_up, recorder, known))
    return "ExternalBinaryModule"


def _traced_open(recorder: Recorder, known: Any, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  # its name
        start = recorder.start()
        try:
            inner(self, *args, **kwargs)
        except BaseException as e:
            with recorder.quietly("cute object"):
                path = os.path.basename(str(args[0] if args else kwargs.get("file_path", "")))  # noqa: PTH119
                what = unnamed(os.path.splitext(path)[0])  # noqa: PTH122
                tell(recorder, start, what, None, origin="disk", via="object", error=type(e).__name__)
            raise
        with recorder.quietly("cute object"):
            known[self] = _Opened(start)

    return __init__


def _traced_look_up(recorder: Recorder, known: Any, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807  # its name
        begin_ns = time.monotonic_ns()
        found = inner(self, name)
        with recorder.quietly("cute object"):
            opened = known.get(self)
            if opened is not None and name not in opened.told:
                _tell(recorder, opened, name, found, begin_ns)
        return found

    return __getattr__


def _tell(recorder: Recorder, opened: _Opened, prefix: str, found: Any, begin_ns: int) -> None:
    if opened.told:  # the file was read for the first of its functions
        opened.start, opened.end_ns = {"begin_ns": begin_ns, "memory": {}}, begin_ns
    opened.told.add(prefix)
    # It was loaded when the file was opened; the time until somebody looked it up is none of its cost.
    end_ns = opened.end_ns + time.monotonic_ns() - begin_ns
    symbol = getattr(found, "function_name", None)
    symbol = cute_symbol.undecorated(symbol, prefix) if isinstance(symbol, str) else None
    what = cute_symbol.described(symbol) if symbol else unnamed(prefix)
    what["signature"] = _signature(found)
    tell(recorder, opened.start, what, symbol, origin="disk", via="object", error=None, prefix=prefix, end_ns=end_ns)


def _signature(found: Any) -> dict[str, Any]:
    signature = getattr(getattr(found, "execution_args", None), "signature", None)
    parameters = getattr(signature, "parameters", {})
    return {name: plain(getattr(p.annotation, "__name__", p.annotation)) for name, p in parameters.items()}
