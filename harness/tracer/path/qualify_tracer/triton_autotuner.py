"""Triton's autotuner: the candidates that it compiles, and what each tuning took."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .finder import Changed, wrap_once
from .recorder import Recorder
from .triton_compiler import BACKEND


def hook(module: ModuleType, recorder: Recorder) -> str:
    """Mark the candidates that tuning compiles, and tell of each tuning."""
    tuner = getattr(module, "Autotuner", None)
    if tuner is None:
        raise Changed("triton.runtime.autotuner has no Autotuner")
    wrap_once(tuner, "_bench", functools.partial(_traced_bench, recorder))
    wrap_once(tuner, "run", functools.partial(_traced_run, recorder))
    return "Autotuner.run, Autotuner._bench"


def _traced_bench(recorder: Recorder, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def _bench(*args: Any, **kwargs: Any) -> Any:
        recorder.local.tuning = getattr(recorder.local, "tuning", 0) + 1
        try:
            return inner(*args, **kwargs)
        finally:
            recorder.local.tuning -= 1

    return _bench


def _traced_run(recorder: Recorder, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        known = len(getattr(self, "cache", ()))
        start = recorder.start_cheaply()  # this is every launch
        result = inner(self, *args, **kwargs)
        if len(getattr(self, "cache", ())) != known:
            with recorder.quietly("triton autotune"):
                name = getattr(self.base_fn, "__name__", "unknown")
                best = str(getattr(self, "best_config", None))
                recorder.kernel("autotune", BACKEND, name, start, best_config=best[:300], via="Autotuner.run")
        return result

    return run
