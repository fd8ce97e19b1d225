"""The hook of TileLang: the making of a `JITKernel`, which its own cache of files also goes through."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .finder import Changed, wrap_once
from .recorder import Recorder

BACKEND = "TileLang"
FROM_DATABASE = 7
"""Place of `from_database` among the arguments of `JITKernel`, where it is not given by name."""


def hook(module: ModuleType, recorder: Recorder) -> str:
    """Wrap the making of a `JITKernel`."""
    kernel = getattr(module, "JITKernel", None)
    if kernel is None:
        raise Changed("tilelang.jit.kernel has no JITKernel")

    def traced(inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  # its name
            start, error = recorder.start(), None
            try:
                inner(self, *args, **kwargs)
            except BaseException as e:
                error = type(e).__name__
                raise
            finally:
                with recorder.quietly("tilelang"):
                    func = args[0] if args else kwargs.get("func")
                    given = args[FROM_DATABASE] if len(args) > FROM_DATABASE else kwargs.get("from_database", False)
                    recorder.kernel(
                        "compile",
                        BACKEND,
                        _name(func),
                        start,
                        constexprs={},
                        signature={},
                        origin="disk" if given else "compiled",
                        autotune=False,
                        via="JITKernel",
                        error=error,
                    )

        return __init__

    wrap_once(kernel, "__init__", traced)
    return "JITKernel"


def _name(func: Any) -> str:
    attributes = getattr(func, "attrs", None)
    try:
        symbol = attributes["global_symbol"] if attributes is not None else None
    except Exception:  # noqa: BLE001  # a mapping of a C library
        symbol = None
    return str(symbol or getattr(func, "__name__", None) or type(func).__name__)
