"""What a Triton kernel was specialised for, by the names of its parameters and in their order.

Versions keep the constants by name (up to 3.2), by index, or by path (a tuple of indices, from 3.3 on).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .recorder import plain


def of_source(source: Any, options: Any) -> dict[str, Any]:
    """From what `triton.compile` was given: a kernel of Triton's own, or a file of intermediate code."""
    fn = getattr(source, "fn", None)
    name = getattr(source, "name", None) or getattr(fn, "__name__", None)
    if fn is None:
        return {"kernel": str(name or "unknown"), "constexprs": {}, "signature": {}, "token": ("file", str(name))}
    return _described(fn, source.signature, getattr(source, "constants", None), options)


def of_hook(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """From the arguments of the JIT's hooks."""
    info, compiled = arguments["fn"], arguments["compile"]
    options = {k: compiled.get(k) for k in ("num_warps", "num_ctas", "num_stages")}
    fn = getattr(info, "jit_function", info)
    found = _described(fn, compiled["signature"], compiled.get("constants"), options)
    if found["kernel"] == "unknown":
        found["kernel"] = str(getattr(info, "name", "unknown"))
    return found


def _described(fn: Any, signature: Any, constants: Any, options: Any) -> dict[str, Any]:
    names, declared = _parameters(fn)
    values = {_named(path, names): _unwrapped(value) for path, value in _items(constants)}
    types = {_named(key, names): str(kind) for key, kind in _items(signature)}
    ordered = sorted(values, key=lambda n: _place(n, names))
    constexprs = {n: plain(values[n]) for n in ordered if n.partition("[")[0] in declared}
    chosen = {k: plain(options.get(k)) for k in ("num_warps", "num_ctas", "num_stages")} if options else {}
    return {
        "kernel": str(getattr(getattr(fn, "fn", fn), "__name__", "unknown")),
        "module": str(getattr(getattr(fn, "fn", fn), "__module__", "") or ""),
        "constexprs": constexprs,
        # Arguments that are no constexpr, but were 1 or None and so became part of the code.
        "folded": {n: plain(values[n]) for n in ordered if n not in constexprs},
        "signature": {n: kind for n, kind in types.items() if n not in values and kind != "constexpr"},
        "options": {k: v for k, v in chosen.items() if v is not None},
        # Of what both witnesses see, so that they know each other's kernels.
        "token": (id(fn), str(sorted(constexprs.items(), key=str)), str(sorted(types.items())), str(chosen)),
    }


def _parameters(fn: Any) -> tuple[list[str], set[str]]:
    parameters = getattr(fn, "params", None)
    if parameters is None:
        names = list(getattr(fn, "arg_names", ()))
        return names, {names[i] for i in getattr(fn, "constexprs", ()) if i < len(names)}
    names = [str(getattr(p, "name", i)) for i, p in enumerate(parameters)]
    return names, {n for n, p in zip(names, parameters) if getattr(p, "is_constexpr", False)}  # noqa: B905  # 3.9


def _items(table: Any) -> Iterator[tuple[Any, Any]]:
    return iter(table.items()) if isinstance(table, Mapping) else iter(())


def _named(path: Any, names: list[str]) -> str:
    parts = path if isinstance(path, tuple) else (path,)
    first, rest = parts[0] if parts else "", parts[1:]
    if isinstance(first, int) and 0 <= first < len(names):
        first = names[first]
    return str(first) + "".join(f"[{part}]" for part in rest)


def _place(name: str, names: list[str]) -> tuple[int, str]:
    first = name.partition("[")[0]
    return (names.index(first) if first in names else len(names), name)


def _unwrapped(value: Any) -> Any:
    """A constexpr's value; a function given as one by its name."""
    if type(value).__name__ == "constexpr":
        value = value.value
    return getattr(value, "__name__", value) if callable(value) else value
