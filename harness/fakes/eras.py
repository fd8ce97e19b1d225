"""How the log's forms changed from version to version; from the sources of 27 releases (notes/vllm.md 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.errors import ConfigError


@dataclass(frozen=True)
class Era:
    """The forms of one version's log."""

    version: str
    prefix: Literal["none", "every line", "vLLM's lines"]
    """Who a line is from: written on no line, on every line of the process, or only by vLLM's own loggers."""
    coloured: bool
    """The prefix is coloured also when nobody looks."""
    engine: str
    """Name of the engine's process."""
    kv: Literal["two lines", "one line", "by device"]
    seconds: str
    """Unit in the engine's account of its start."""
    jit_monitor: str | None
    """The line that arms it; None before there was one."""
    server: str
    """What the API server says as it starts; {address}."""
    shutdown: bool
    """The end is told step by step."""


# The dash is U+2014, as vLLM wrote it.
_DASH = "Kernel JIT monitor activated \u2014 Triton JIT compilations during inference will be logged as warnings."
_MODE = "Kernel JIT monitor activated; monitored JIT compilations during inference will use mode=warn."
_OLD, _SERVER, _NEW = (
    "Starting vLLM API server on {address}",
    "Starting vLLM API server 0 on {address}",
    "Starting vLLM server on {address}",
)

ERAS: tuple[Era, ...] = (
    Era("0.8.5", "none", False, "EngineCore", "two lines", "seconds", None, _OLD, False),
    Era("0.10.2", "every line", True, "EngineCore_DP0", "two lines", "seconds", None, _SERVER, False),
    Era("0.17.1", "every line", False, "EngineCore_DP0", "two lines", "seconds", None, _SERVER, False),
    Era("0.20.2", "every line", False, "EngineCore", "two lines", "s", None, _NEW, False),
    Era("0.23.0", "every line", False, "EngineCore", "two lines", "s", _DASH, _NEW, True),
    Era("0.25.1", "every line", False, "EngineCore", "two lines", "s", _MODE, _NEW, True),
    Era("0.28.0", "every line", False, "EngineCore", "one line", "s", _MODE, _NEW, True),
    Era("0.32.0", "vLLM's lines", False, "EngineCore", "by device", "s", _MODE, _NEW, True),
)
NEWEST = ERAS[-1]


def era_of(version: str) -> Era:
    """The forms of a version.

    Raises:
        ConfigError: it is none of those that are known.
    """
    for era in ERAS:
        if era.version == version:
            return era
    raise ConfigError(f"QUALIFY_FAKE_LOG: no log of {version!r}; known are {', '.join(e.version for e in ERAS)}")
