"""Which kernel an object file's symbol is of.

The DSL makes the symbol of the function's name and the text of its arguments, without dots, brackets and
addresses: `<pkg.mla.Prefill object at 0x7f>.__call__` becomes `cutlass___call___pkgmlaPrefill_object_at__64`.
Where the module that defines the class or the function is imported, which it is in a library that looks for
its own kernel, the name is found again as the compilation's hook writes it. Else it is the symbol's.
"""

from __future__ import annotations

import contextlib
import sys
from types import FunctionType
from typing import Any

from .cute_dsl import unnamed

START = "cutlass_"
OBJECT = "_object_at_"
CALL = "__call__"
LOCAL = "locals"
"""What stays of `<locals>`."""


def described(symbol: str) -> dict[str, Any]:
    """The kernel and its module, as far as a symbol without the decoration of its file tells them."""
    text = symbol.removeprefix(START)
    found = None
    with contextlib.suppress(Exception):  # another thread may import meanwhile
        found = _of_object(text) if OBJECT in text else _of_function(text)
    return unnamed(*(found or (_left(text), "")))


def undecorated(symbol: str, prefix: str) -> str:
    """`_mlir_PREFIX__mlir_ciface_cutlass_hello_64` as `cutlass_hello_64`, as its compilation called it."""
    for start in (f"_mlir_{prefix}_", "_mlir_ciface_"):
        symbol = symbol.removeprefix(start)
    return symbol


def _of_object(text: str) -> tuple[str, str] | None:
    """A method of an object: the class's name for `__call__`, else the method's."""
    head = text.partition(OBJECT)[0]
    stripped = {name: name.replace(".", "") for name in list(sys.modules)}
    for module in sorted((m for m, s in stripped.items() if f"_{s}" in head), key=len, reverse=True):
        method, _, owner = head.partition(f"_{stripped[module]}")
        made = getattr(sys.modules[module], "__dict__", {}).get(owner)
        if isinstance(made, type) and made.__module__ == module and hasattr(made, method):
            return (owner if method == CALL else method), module
    return None


def _of_function(text: str) -> tuple[str, str] | None:
    """The longest name of a `@cute.jit` function that the text begins with."""
    names = {text} | {text[:i] for i in range(1, len(text)) if text[i] == "_"}
    found: dict[str, str] = {}
    for module, there in list(sys.modules.items()):
        inside = getattr(there, "__dict__", {})
        for name in inside.keys() & names:
            function = getattr(inside[name], "__wrapped__", None) if isinstance(inside[name], FunctionType) else None
            if hasattr(function, "_dsl_object") or hasattr(function, "_dsl_cls"):
                found[name] = str(getattr(function, "__module__", "") or module)
    longest = max(found, key=len, default=None)
    return None if longest is None else (longest, found[longest])


def _left(text: str) -> str:
    """The text without what is certainly no part of the name."""
    head = text.partition(OBJECT)[0]
    owner = head[len(CALL) + 1 :] if head.startswith(f"{CALL}_") else head
    return owner.rpartition(LOCAL)[2] if OBJECT in text else owner
