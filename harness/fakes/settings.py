"""How the fake was started: vLLM's command line, and timing and faults from the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import ConfigError
from harness.fakes.eras import ERAS, NEWEST, Era, era_of
from harness.fakes.faults import VARIABLE, Faults, first_only, parse_faults

VERSION = NEWEST.version
BLOCK_SIZE = 128

VARIABLES: dict[str, str] = {
    "QUALIFY_FAKE_START_S": "seconds from process start to ready (0.05)",
    "QUALIFY_FAKE_PREFILL_TOK_S": "prompt tokens per second (no wait)",
    "QUALIFY_FAKE_TTFT_S": "seconds before every first token, on top of the prompt's own (0)",
    "QUALIFY_FAKE_STEP_S": "seconds per decode step (0)",
    "QUALIFY_FAKE_STAMPS": "1: events tell received_ns of their request and their own sent_ns (CLOCK_MONOTONIC)",
    "QUALIFY_FAKE_TRUTH": "file that gets a line of JSON per stream: its tokens, events and times as they were",
    "QUALIFY_FAKE_LOG": f"version whose log is written: {', '.join(era.version for era in ERAS)} ({NEWEST.version})",
    "QUALIFY_FAKE_KV_TOKENS": "KV-cache size in tokens, where no --num-gpu-blocks-override says it (2097152)",
    "QUALIFY_FAKE_JIT_MONITOR": "1: says at start that the JIT monitor is armed",
    "QUALIFY_FAKE_NVML": "folder of a fake NVML whose GPUs in CUDA_VISIBLE_DEVICES it uses (none)",
    VARIABLE: "faults, see below",
}
"""What the environment may set; the default in brackets."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides what one fake server does."""

    model: str
    """The model folder as it was named on the command line."""
    served_name: str
    max_model_len: int
    draft_tokens: int
    flags: dict[str, Any]
    """Every flag that was given, as vLLM would list it: underscores, typed values."""
    host: str = "127.0.0.1"
    port: int = 8000
    start_s: float = 0.05
    prefill_tok_s: float | None = None
    step_s: float = 0.0
    ttft_s: float = 0.0
    stamps: bool = False
    truth_file: Path | None = None
    era: Era = NEWEST
    kv_tokens: int = 2_097_152
    jit_monitor: bool = False
    faults: Faults = field(default_factory=Faults)

    @property
    def kv_blocks(self) -> int:
        """`num_gpu_blocks`: the name stays the same on a CPU."""
        return self.kv_tokens // BLOCK_SIZE

    @property
    def max_concurrency(self) -> float:
        """Requests of full length that the KV cache holds."""
        return self.kv_blocks / -(-self.max_model_len // BLOCK_SIZE)

    @property
    def slots(self) -> int:
        """Requests that run at a time (--max-num-seqs); the others wait in order of arrival."""
        return int(self.flags.get("max_num_seqs", 256))

    @property
    def ranks(self) -> int:
        """Ranks of the model; of more than one, each has a process."""
        return self.pipeline_parallel * self.tensor_parallel

    @property
    def tensor_parallel(self) -> int:
        """--tensor-parallel-size."""
        return int(self.flags.get("tensor_parallel_size", 1))

    @property
    def pipeline_parallel(self) -> int:
        """--pipeline-parallel-size."""
        return int(self.flags.get("pipeline_parallel_size", 1))

    @property
    def decode_context_parallel(self) -> int:
        """--decode-context-parallel-size: so many neighbours of the tensor-parallel ranks share a context."""
        return int(self.flags.get("decode_context_parallel_size", 1))

    @property
    def worker_names(self) -> tuple[str, ...]:
        """As vLLM builds them (multiproc_executor.py, setup_proc_title_and_log_prefix); none of a single rank."""
        if self.ranks == 1:
            return ()
        tensor, context = self.tensor_parallel, self.decode_context_parallel
        experts = self.flags.get("enable_expert_parallel") is True
        return tuple(
            "Worker"
            + (f"_PP{pp}" if self.pipeline_parallel > 1 else "")
            + (f"_TP{tp}" if tensor > 1 else "")
            + (f"_DCP{tp % context}" if context > 1 else "")
            + (f"_EP{tp}" if experts else "")
            for pp in range(self.pipeline_parallel)
            for tp in range(tensor)
        )

    @property
    def stream_interval(self) -> int:
        """Steps whose tokens share one event (--stream-interval); the first token never waits."""
        return int(self.flags.get("stream_interval", 1))

    @property
    def eager(self) -> bool:
        """Whether --enforce-eager was given."""
        return self.flags.get("enforce_eager") is True


def read_settings(argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Read what follows `serve` on the command line, and the environment.

    Raises:
        ConfigError: something cannot be used; the message names the option or the variable.
    """
    positional = argv[0] if argv and not argv[0].startswith("-") else None
    flags = read_flags(argv[1:] if positional is not None else argv)
    model = positional if positional is not None else flags.get("model")
    if not isinstance(model, str):
        raise ConfigError("fakes: name the model folder: python -m harness.fakes serve MODEL_DIR")
    faults = first_only(parse_faults(environ.get(VARIABLE, "")))
    served = _served_name(flags, model)
    prefill = _number(environ, "QUALIFY_FAKE_PREFILL_TOK_S", 0.0)
    return Settings(
        model=model,
        served_name=f"wrong-{served}" if faults.hit("wrong-model-name") else served,
        max_model_len=_max_model_len(flags, Path(model)),
        draft_tokens=_draft_tokens(flags),
        flags=flags,
        host=str(flags.get("host", "127.0.0.1")),
        port=_integer(flags, "port", 8000),
        start_s=_number(environ, "QUALIFY_FAKE_START_S", 0.05),
        prefill_tok_s=prefill or None,
        step_s=_number(environ, "QUALIFY_FAKE_STEP_S", 0.0),
        ttft_s=_number(environ, "QUALIFY_FAKE_TTFT_S", 0.0),
        stamps=environ.get("QUALIFY_FAKE_STAMPS") == "1",
        truth_file=Path(environ["QUALIFY_FAKE_TRUTH"]) if environ.get("QUALIFY_FAKE_TRUTH") else None,
        era=era_of(environ.get("QUALIFY_FAKE_LOG") or VERSION),
        kv_tokens=(
            _integer(flags, "num_gpu_blocks_override", 0) * BLOCK_SIZE
            or int(_number(environ, "QUALIFY_FAKE_KV_TOKENS", 2_097_152))
        )
        - BLOCK_SIZE * sum(fault.number for fault in faults.all("kv-less")),
        jit_monitor=environ.get("QUALIFY_FAKE_JIT_MONITOR") == "1",
        faults=faults,
    )


def read_flags(argv: Sequence[str]) -> dict[str, Any]:
    """Any flags in vLLM's spellings: `--a-b 1`, `--a_b=1`, `--no-a`, `--a.b 1`, `--a 1 2`.

    Raises:
        ConfigError: a value stands where a flag must, or a JSON value is broken.
    """
    flags: dict[str, Any] = {}
    items = list(argv)
    while items:
        item = items.pop(0)
        if not _is_flag(item):
            raise ConfigError(f"fakes: {item!r} is no flag; the model folder comes right after `serve`")
        name, equals, given = item.lstrip("-").partition("=")
        values = [given] if equals else []
        while not equals and items and not _is_flag(items[0]):
            values.append(items.pop(0))
        path = {"sc": "speculative-config"}.get(name, name).replace("-", "_").split(".")
        value: Any = [_value(name, v) for v in values]
        if len(value) == 1 and path != ["served_model_name"]:  # vLLM lists the names even when there is one
            value = value[0]
        elif not value:
            value = not path[0].startswith("no_")
            path[0] = path[0].removeprefix("no_")
        place = flags
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = value
    return flags


def _is_flag(item: str) -> bool:
    return item.startswith("-") and not item[1:2].isdigit()


def _value(name: str, text: str) -> Any:
    if not text.startswith(("{", "[")) and not text.lstrip("-")[:1].isdigit():
        return text
    try:
        return json.loads(text)
    except ValueError:
        if text.startswith("{"):
            raise ConfigError(f"fakes: --{name}: not JSON: {text!r}") from None
        return text  # an address, a version, a list in somebody's own notation


def _served_name(flags: Mapping[str, Any], model: str) -> str:
    names = flags.get("served_model_name") or [model]
    return str(names[0])


def _max_model_len(flags: Mapping[str, Any], model: Path) -> int:
    given = _integer(flags, "max_model_len", -1) if flags.get("max_model_len") != "auto" else -1
    if given > 0:
        return given
    try:
        return int(json.loads((model / "config.json").read_text("utf-8"))["max_position_embeddings"])
    except (OSError, ValueError, KeyError) as e:
        raise ConfigError(f"fakes: {model}: no config.json to take max_position_embeddings from ({e})") from e


def _draft_tokens(flags: Mapping[str, Any]) -> int:
    config = flags.get("speculative_config")
    if config is None:
        return 0
    count = config.get("num_speculative_tokens") if isinstance(config, dict) else None
    if count != 1:
        raise ConfigError(f"fakes: --speculative-config: a forged model drafts 1 token, got {config!r}")
    return 1


def _integer(flags: Mapping[str, Any], name: str, default: int) -> int:
    value = flags.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"fakes: --{name.replace('_', '-')} must be a whole number, got {value!r}")
    return value


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name) or str(default)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ConfigError(f"{name} must be a number from 0 on, got {text!r}")
    return number
