"""Wait for a module to be imported, and hook it when its code has just been run.

The loader that Python found stays in place, so resources, source and pickling work as always; only this
one module's `exec_module` is ours, for the one time that it runs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from .recorder import Recorder

Hook = Callable[[ModuleType, Recorder], str]
"""Hooks an executed module; returns what it hooked, or raises `Changed`."""


class Changed(Exception):  # noqa: N818  # reads as what happened
    """The library is not as the hook expects it; the text says in what."""


class Finder:
    """The finder in front of `sys.meta_path`; for all other modules it costs one look into a dictionary."""

    def __init__(self, recorder: Recorder, hooks: Mapping[str, Hook]) -> None:
        self._recorder = recorder
        self._hooks = dict(hooks)
        self._busy = threading.local()

    def announce(self) -> None:
        """Say of each module whether its library is there at all, and hook what is imported already."""
        present = {name: _is_there(name) for name in {module.partition(".")[0] for module in self._hooks}}
        for name in self._hooks:
            module = sys.modules.get(name)
            if module is not None:
                self._apply(module)
            elif present[name.partition(".")[0]]:
                self._recorder.hook(name, "waiting", "not imported yet")
            else:
                self._recorder.hook(name, "absent", "not installed")

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module that is waited for, as the other finders make it."""
        if name not in self._hooks or name in getattr(self._busy, "names", ()):
            return None
        self._busy.names = (*getattr(self._busy, "names", ()), name)
        try:
            spec = self._foreign_spec(name, path, target)
        finally:
            self._busy.names = self._busy.names[:-1]
        if spec is not None and spec.loader is not None:
            with self._recorder.quietly(f"finder {name}"):
                self._prepare(spec.loader, name)
        return spec

    def _foreign_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec: ModuleSpec | None = find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _prepare(self, loader: Any, name: str) -> None:
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            if module.__name__ != name:  # a loader that modules share, as those of an archive do
                run(module)
                return
            with self._recorder.quietly("finder restore"):
                del loader.exec_module  # the instance's; the class's own is found again
            run(module)
            self._apply(module)

        loader.exec_module = exec_module

    def _apply(self, module: ModuleType) -> None:
        name = module.__name__
        try:
            done = self._hooks[name](module, self._recorder)
        except Changed as e:
            self._recorder.hook(name, "changed", f"{e}; {_version(name)}")
        except Exception as e:  # noqa: BLE001  # the library must import as without us
            self._recorder.hook(name, "changed", f"{type(e).__name__}: {e}; {_version(name)}")
        else:
            self._recorder.hook(name, "hooked", f"{done}; {_version(name)}")


def _is_there(library: str) -> bool:
    try:
        return PathFinder.find_spec(library) is not None
    except Exception:  # noqa: BLE001  # a broken path entry
        return True  # then it is waited for, and said so


def _version(name: str) -> str:
    library = name.partition(".")[0]
    found = getattr(sys.modules.get(library), "__version__", None)
    return f"{library} {found}" if found else f"{library}, version unknown"


def wrap_once(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace an attribute by what `make` gives for it; a reload must not wrap it twice.

    Raises:
        Changed: there is no such attribute.
    """
    inner = getattr(owner, name, None)
    if inner is None:
        raise Changed(f"{getattr(owner, '__name__', owner)} has no {name}")
    if getattr(inner, "_qualify_traced", False):
        return
    wrapper = make(inner)
    wrapper._qualify_traced = True  # noqa: SLF001  # our own mark
    setattr(owner, name, wrapper)
