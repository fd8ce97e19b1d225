"""`qualify fake-server`: a vLLM whose every answer, time and count is known, to test one's own suites with."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.fakes.faults import VARIABLE
from harness.fakes.folder import write_rule_folder
from harness.fakes.lifecycle import serve
from harness.fakes.settings import read_settings
from harness.forge.recipe import Recipe

MTP = '{"method":"mtp","num_speculative_tokens":1}'


@dataclass(frozen=True)
class Options:
    """What the command line says; None leaves a value to the environment, and then to its default."""

    model: str | None = None
    """Folder of a forged model; without one the rule of a small model is served."""
    host: str = "127.0.0.1"
    port: int = 8000
    served_name: str = "fake"
    mtp: bool = False
    acceptance: float | None = None
    ttft_s: float | None = None
    step_s: float | None = None
    prefill_tok_s: float | None = None
    tokens_per_event: int | None = None
    log_version: str | None = None
    faults: str | None = None
    flags: Sequence[str] = ()
    """Further flags of vLLM."""


def run(options: Options) -> int:
    """Serve until a signal comes; returns the exit code.

    Raises:
        ConfigError: a value cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="qualify-fake-") as folder:
        model = options.model or str(write_rule_folder(Path(folder) / "model", _recipe(options)))
        return serve(read_settings([model, *arguments(options)], environment(options, os.environ)))


def arguments(options: Options) -> list[str]:
    """The options as vLLM's flags."""
    flags = ["--host", options.host, "--port", str(options.port), "--served-model-name", options.served_name]
    if options.mtp:
        flags += ["--speculative-config", MTP]
    if options.tokens_per_event is not None:
        flags += ["--stream-interval", str(options.tokens_per_event)]
    return [*flags, *options.flags]


def environment(options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """The options over the environment's settings."""
    given = {
        "QUALIFY_FAKE_TTFT_S": options.ttft_s,
        "QUALIFY_FAKE_STEP_S": options.step_s,
        "QUALIFY_FAKE_PREFILL_TOK_S": options.prefill_tok_s,
        "QUALIFY_FAKE_LOG": options.log_version,
        VARIABLE: options.faults,
    }
    return {**environ, **{name: str(value) for name, value in given.items() if value is not None}}


def _recipe(options: Options) -> Recipe:
    wrong = 0.3 if options.acceptance is None else 1 - options.acceptance
    return Recipe(max_context=1_048_576, wrong_drafts=round(wrong, 6))
