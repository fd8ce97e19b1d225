"""A model folder with a rule and no weights: all that the fake server reads of a forged model."""

from __future__ import annotations

import json
from pathlib import Path

from harness.forge.recipe import Recipe
from harness.forge.truth import truth_json


def write_rule_folder(folder: Path, recipe: Recipe) -> Path:
    """Write `config.json` and `truth.json` of a recipe into a folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": recipe.max_context}), "utf-8")
    (folder / "truth.json").write_text(json.dumps(truth_json(recipe, {})), "utf-8")
    return folder
