"""The forged model in DeepSeek-V3's shape: what its layers add is nothing, and what its two heads say is the rule."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from harness.forge import mla
from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe

from .test_checkpoint import load, rms_norm

RECIPE = Recipe(layers=2, hidden=256, head_size=64, mla=True, seed=3)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forge(tmp_path_factory.mktemp("forged") / "mla", RECIPE)


def test_nothing_but_the_attention_differs_from_the_other_models_answers(directory: Path) -> None:
    plain = Recipe(layers=2, hidden=256, head_size=64, seed=3)
    assert RECIPE.rule == plain.rule
    truth = json.loads((directory / "truth.json").read_text("utf-8"))
    assert truth["recipe"]["mla"] is True
    assert truth["successor"] == list(plain.rule.successor)


def test_the_configuration_is_one_of_multi_head_latent_attention_without_experts(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text("utf-8"))
    assert (config["architectures"], config["model_type"]) == (["DeepseekV3ForCausalLM"], "deepseek_v3")
    assert (config["kv_lora_rank"], config["qk_rope_head_dim"], config["num_attention_heads"]) == (512, 64, 4)
    for layer in range(RECIPE.layers + config["num_nextn_predict_layers"]):
        has_experts = layer >= config["first_k_dense_replace"] and layer % config["moe_layer_freq"] == 0
        assert not has_experts, layer


def test_no_layer_adds_anything_to_the_residual_stream(directory: Path) -> None:
    weights = load(directory / "model.safetensors")
    for layer in range(RECIPE.layers + 1):
        assert not weights[f"model.layers.{layer}.self_attn.o_proj.weight"].any()
        assert not weights[f"model.layers.{layer}.mlp.down_proj.weight"].any()
        assert weights[f"model.layers.{layer}.self_attn.kv_b_proj.weight"].shape == (4 * (mla.NOPE + mla.VALUE), 512)


def test_the_head_answers_with_each_tokens_successor(directory: Path) -> None:
    weights = load(directory / "model.safetensors")
    stream = rms_norm(weights["model.embed_tokens.weight"], weights["model.norm.weight"])
    answers = (stream @ weights["lm_head.weight"].T).argmax(axis=1)
    assert tuple(answers) == RECIPE.rule.successor


def test_the_mtp_layer_drafts_right_exactly_outside_the_set(directory: Path) -> None:
    weights = load(directory / "model.safetensors")
    prefix = f"model.layers.{RECIPE.layers}."
    embedded = rms_norm(weights[f"{prefix}embed_tokens.weight"], weights[f"{prefix}enorm.weight"])
    previous = np.ones_like(embedded)  # whatever it is, it is not read
    stream = np.concatenate([embedded, previous], axis=1) @ weights[f"{prefix}eh_proj.weight"].T
    stream = rms_norm(stream, weights[f"{prefix}shared_head.norm.weight"])
    drafts = (stream @ weights[f"{prefix}shared_head.head.weight"].T).argmax(axis=1)
    wrong = {t for t, draft in enumerate(drafts) if draft != RECIPE.rule.successor[t]}
    assert wrong == RECIPE.rule.wrong_drafts
