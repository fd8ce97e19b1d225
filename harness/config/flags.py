"""Flags of `vllm serve` as TOML values, and as the list that the process gets.

    max-model-len = 33024                ->  --max-model-len 33024
    enforce-eager = true                 ->  --enforce-eager
    async-scheduling = false             ->  --no-async-scheduling
    cudagraph-capture-sizes = [1, 2]     ->  --cudagraph-capture-sizes 1 2
    speculative-config = { method = "mtp" }  ->  --speculative-config '{"method":"mtp"}'

Nothing passes through a shell, so a value needs no quoting and can do no harm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from pydantic import JsonValue

FlagValue: TypeAlias = bool | int | float | str | list[int | float | str] | dict[str, JsonValue]


def check_flag_name(name: str) -> None:
    """Refuse spellings that would reach vLLM as another flag than the reader thinks.

    Raises:
        ValueError: the name carries dashes in front, underscores, or a negation.
    """
    if name.startswith("-"):
        raise ValueError(f"flag `{name}`: write it without leading dashes")
    if "_" in name.partition(".")[0]:
        raise ValueError(f"flag `{name}`: write `{name.replace('_', '-')}`, so that one flag has one name")
    if name.startswith("no-"):
        raise ValueError(f"flag `{name}`: write `{name[3:]} = false`")


def to_argv(flags: Mapping[str, FlagValue]) -> list[str]:
    """The flags as command-line items, in the order of their names."""
    argv: list[str] = []
    for name in sorted(flags):
        value = flags[name]
        if value is True:
            argv.append(f"--{name}")
        elif value is False:
            argv.append(f"--no-{name}")
        elif isinstance(value, dict):
            argv += [f"--{name}", json.dumps(value, separators=(",", ":"), sort_keys=True)]
        elif isinstance(value, list):
            argv += [f"--{name}", *map(str, value)]
        else:
            argv += [f"--{name}", str(value)]
    return argv
