"""The engine's banner: its configuration in one line, as far as it is part of what was measured."""

from __future__ import annotations

import re

from harness.observe.log.event import Value
from harness.observe.log.forms.form import typed

_SETTINGS: dict[str, re.Pattern[str]] = {
    "dtype": re.compile(r"\bdtype=(?:torch\.)?(\w+)"),
    "quantization": re.compile(r"\bquantization=(\w+)"),
    "kv_cache_dtype": re.compile(r"\bkv_cache_dtype=(\w+)"),
    "max_model_len": re.compile(r"\bmax_seq_len=(\d+)"),
    "tensor_parallel": re.compile(r"\btensor_parallel_size=(\d+)"),
    "pipeline_parallel": re.compile(r"\bpipeline_parallel_size=(\d+)"),
    "data_parallel": re.compile(r"\bdata_parallel_size=(\d+)"),
    "decode_context_parallel": re.compile(r"\bdecode_context_parallel_size=(\d+)"),
    "prefix_caching": re.compile(r"\benable_prefix_caching=(True|False)"),
    "chunked_prefill": re.compile(r"\benable_chunked_prefill=(True|False)"),
    "enforce_eager": re.compile(r"\benforce_eager=(True|False)"),
    "custom_all_reduce_disabled": re.compile(r"\bdisable_custom_all_reduce=(True|False)"),
    "seed": re.compile(r"\bseed=(\d+)"),
    "speculative_method": re.compile(r"\bspeculative_config=(?:SpeculativeConfig\(method='(\w+)'|(None))"),
    "draft_tokens": re.compile(r"\bspeculative_config=SpeculativeConfig\([^)]{0,2000}?num_spec_tokens=(\d+)"),
    "compilation_mode": re.compile(r"'mode': <CompilationMode\.(\w+)"),
    "cudagraph_mode": re.compile(r"'cudagraph_mode': (?:<CUDAGraphMode\.(\w+)|(None))"),
    "cudagraph_sizes": re.compile(r"[\"']cudagraph_capture_sizes[\"']: ?\[([\d, ]*)\]"),
}
_NUMBERS = frozenset(
    {"max_model_len", "tensor_parallel", "pipeline_parallel", "data_parallel", "decode_context_parallel"}
    | {"seed", "draft_tokens"}
)

_WORDS: dict[str, Value] = {"True": True, "False": False, "None": "none", "": "none"}

SETTINGS = tuple(_SETTINGS)


def settings(text: str) -> dict[str, Value]:
    """Settings that a banner names; those that it does not are left out."""
    found: dict[str, Value] = {}
    for name, pattern in _SETTINGS.items():
        if match := pattern.search(text):
            value = next(group for group in match.groups() if group is not None)
            found[name] = typed("tokens", value) if name in _NUMBERS else _WORDS.get(value, value)
    return found
