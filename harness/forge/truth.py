"""`truth.json`: what a forged model must answer, beside its weights."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from harness.errors import ConfigError
from harness.forge.arithmetic import Rule
from harness.forge.recipe import Recipe

SCHEMA_VERSION = 1
EXAMPLE_OUTPUT_TOKENS = 200


def truth_json(recipe: Recipe, file_hashes: dict[str, str]) -> dict[str, object]:
    """The content of `truth.json`; `file_hashes` maps each other file to its SHA-256."""
    rule = recipe.rule
    return {
        "schema_version": SCHEMA_VERSION,
        "recipe": recipe.arguments(),
        "vocab_size": recipe.vocab_size,
        "successor": list(rule.successor),
        "wrong_drafts": sorted(rule.wrong_drafts),
        "special_token": recipe.special_token,
        "long_run_acceptance": rule.long_run_acceptance(),
        "examples": [_example(rule, token) for token in recipe.cycle[:8]],
        "files": file_hashes,
    }


def _example(rule: Rule, last_prompt_token: int) -> dict[str, object]:
    answer = rule.expected((0, last_prompt_token), EXAMPLE_OUTPUT_TOKENS, draft_tokens=1)
    return {
        "last_prompt_token": last_prompt_token,
        "output_tokens": EXAMPLE_OUTPUT_TOKENS,
        "output_ids_sha256": hashlib.sha256(json.dumps(list(answer.output_ids)).encode()).hexdigest(),
        "mtp1_drafts": answer.drafts,
        "mtp1_accepted": answer.accepted,
    }


def load_rule(model_directory: Path) -> Rule | None:
    """The rule of a forged model, or None where the directory holds no `truth.json`.

    Raises:
        ConfigError: the file is there but cannot be used.
    """
    file = model_directory / "truth.json"
    return load_rule_file(file) if file.is_file() else None


def load_rule_file(file: Path) -> Rule:
    """The rule that a `truth.json` holds, wherever it lies.

    Raises:
        ConfigError: it cannot be read or is of a newer schema.
    """
    try:
        truth: dict[str, Any] = json.loads(file.read_text("utf-8"))
        version = truth["schema_version"]
        if version > SCHEMA_VERSION:
            raise ConfigError(
                f"{file}: schema {version} is newer than this harness knows ({SCHEMA_VERSION}); update it"
            )
        successor, wrong = tuple(truth["successor"]), frozenset(truth["wrong_drafts"])
        if not all(type(t) is int and 0 <= t < len(successor) for t in (*successor, *wrong)):
            raise ValueError("a token of it is none of its vocabulary")
        return Rule(successor, wrong)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as e:
        raise ConfigError(f"{file}: not a truth.json of this harness ({e}); forge the model again") from e
