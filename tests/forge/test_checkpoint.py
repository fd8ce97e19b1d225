from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness.errors import ConfigError
from harness.forge import checkpoint
from harness.forge.arithmetic import Rule
from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from harness.forge.truth import load_rule

Array = npt.NDArray[Any]

PLAIN = Recipe(layers=2, wrong_drafts=0.3, seed=1)
EPSILON = 1e-6


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forge(tmp_path_factory.mktemp("forged") / "plain", PLAIN)


def hashes(directory: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(directory.iterdir())}


def read_json(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def load(*files: Path) -> dict[str, Array]:
    """Every tensor as float32, read without the library that wrote it."""
    tensors = {}
    for file in files:
        raw = file.read_bytes()
        start = 8 + int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:start])
        assert header.pop("__metadata__") == {"format": "pt"}  # vLLM refuses files without it
        for name, entry in header.items():
            assert entry["dtype"] == "BF16"
            begin, end = (start + offset for offset in entry["data_offsets"])
            bits = np.frombuffer(raw[begin:end], dtype="<u2").astype(np.uint32) << 16  # the upper half of a float32
            tensors[name] = bits.view(np.float32).reshape(entry["shape"])
    return tensors


def rms_norm(x: Array, weight: Array) -> Array:
    normed: Array = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(EPSILON)) * weight
    return normed


def decoder_layer(x: Array, weights: dict[str, Array], prefix: str) -> Array:
    """What a layer adds to the residual stream, with the attention reduced to the token itself."""
    normed = rms_norm(x, weights[f"{prefix}input_layernorm.weight"])
    value = normed @ weights[f"{prefix}self_attn.v_proj.weight"].T + weights[f"{prefix}self_attn.v_proj.bias"]
    heads = weights[f"{prefix}self_attn.o_proj.weight"].shape[1] // value.shape[1]
    x = x + np.tile(value, (1, heads)) @ weights[f"{prefix}self_attn.o_proj.weight"].T
    normed = rms_norm(x, weights[f"{prefix}post_attention_layernorm.weight"])
    gate = normed @ weights[f"{prefix}mlp.gate_proj.weight"].T
    up = normed @ weights[f"{prefix}mlp.up_proj.weight"].T
    added: Array = x + (gate / (1 + np.exp(-gate)) * up) @ weights[f"{prefix}mlp.down_proj.weight"].T
    return added


def target_logits(weights: dict[str, Array], layers: int) -> Array:
    """Logits after each token of the vocabulary."""
    x = weights["model.embed_tokens.weight"]
    for layer in range(layers):
        x = decoder_layer(x, weights, f"model.layers.{layer}.")
    return rms_norm(x, weights["model.norm.weight"]) @ weights["lm_head.weight"].T


def draft_logits(weights: dict[str, Array], previous_hidden: Array) -> Array:
    """Logits of the MTP layer, given the token just produced and any previous hidden state."""
    prefix = "model.mtp_layers.0."
    token = rms_norm(weights["model.embed_tokens.weight"], weights[f"{prefix}token_layernorm.weight"])
    hidden = rms_norm(previous_hidden, weights[f"{prefix}hidden_layernorm.weight"])
    x = np.concatenate([hidden, token], axis=1) @ weights[f"{prefix}input_proj.weight"].T
    x = decoder_layer(x, weights, prefix)
    return rms_norm(x, weights[f"{prefix}final_layernorm.weight"]) @ weights["lm_head.weight"].T


def log_probabilities(logits: Array) -> Array:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    logprobs: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logprobs


def best(logits: Array) -> list[int]:
    return [int(token) for token in logits.argmax(axis=-1)]


# --- the answers are in the weights ------------------------------------------------------------------


@pytest.mark.parametrize(
    "recipe",
    [
        PLAIN,
        replace(PLAIN, changed_successor=True),
        replace(PLAIN, near_tie=True),
        replace(PLAIN, near_tie=True, changed_successor=True),
        replace(PLAIN, wrong_drafts=0.0),
        Recipe(hidden=192, head_size=64, kv_heads=3, vocab=50, intermediate=24, seed=5),
    ],
    ids=["plain", "changed", "near-tie", "near-tie-swapped", "all-right", "narrow-vocabulary"],
)
def test_the_forward_pass_gives_what_the_rule_says(tmp_path: Path, recipe: Recipe) -> None:
    weights = load(forge(tmp_path / "m", recipe) / "model.safetensors")
    rule = recipe.rule
    assert best(target_logits(weights, recipe.layers)) == list(rule.successor)

    noise = np.random.default_rng(0).normal(size=(recipe.vocab_size, recipe.hidden)).astype(np.float32)
    for previous in (noise, np.ones_like(noise)):  # the draft never depends on it
        drafts = best(draft_logits(weights, previous))
        wrong = {token for token, draft in enumerate(drafts) if draft != rule.successor[token]}
        assert wrong == rule.wrong_drafts


def test_every_answer_but_a_near_tie_is_far_from_the_second_best(plain: Path) -> None:
    logits = np.sort(target_logits(load(plain / "model.safetensors"), PLAIN.layers), axis=1)
    assert (logits[:, -1] - logits[:, -2]).min() > 5


def test_a_near_tie_is_one_token_whose_two_best_lie_within_a_tenth_of_a_nat(tmp_path: Path) -> None:
    recipe = replace(PLAIN, near_tie=True)
    weights = load(forge(tmp_path / "m", recipe) / "model.safetensors")
    logprobs = log_probabilities(target_logits(weights, recipe.layers))
    ordered = np.sort(logprobs, axis=1)
    gaps = ordered[:, -1] - ordered[:, -2]
    assert np.flatnonzero(gaps <= 0.1).tolist() == [recipe.special_token]
    assert gaps[recipe.special_token] > 0.05  # and it is no exact tie, whose winner nothing decides
    assert recipe.tie is not None
    runner_up = int(np.argsort(logprobs[recipe.special_token])[-2])
    assert (recipe.special_token, runner_up) == recipe.tie


def test_attention_and_mlp_have_work_to_do_and_add_nothing(plain: Path) -> None:
    weights = load(plain / "model.safetensors")
    assert np.all(weights["model.layers.1.self_attn.o_proj.weight"] == 0)
    assert np.all(weights["model.layers.1.mlp.down_proj.weight"] == 0)
    for name in ("self_attn.q_proj.weight", "self_attn.k_proj.bias", "mlp.gate_proj.weight"):
        magnitude = np.abs(weights[f"model.layers.1.{name}"])
        assert 2**-7 <= magnitude.min() <= magnitude.max() < 2**-6


def test_the_configuration_fits_the_weights(plain: Path) -> None:
    config, weights = read_json(plain / "config.json"), load(plain / "model.safetensors")
    hidden, head_size = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
    assert (config["architectures"], config["model_type"]) == (["MiMoForCausalLM"], "qwen2")
    assert config["num_nextn_predict_layers"] == 1
    assert weights["model.embed_tokens.weight"].shape == weights["lm_head.weight"].shape == (128, hidden)
    assert weights["model.layers.1.self_attn.k_proj.weight"].shape == (head_size, hidden)
    assert {name.split(".")[2] for name in weights if name.startswith("model.layers.")} == {"0", "1"}
    assert config["vocab_size"] == len(read_json(plain / "tokenizer.json")["model"]["vocab"]) == 128


# --- same arguments, same bytes ---------------------------------------------------------------------------


def test_the_same_recipe_gives_the_same_bytes(plain: Path, tmp_path: Path) -> None:
    assert hashes(forge(tmp_path / "deep" / "er", PLAIN)) == hashes(plain)


@pytest.mark.parametrize("other", [{"seed": 2}, {"near_tie": True}, {"wrong_drafts": 0.4}, {"layers": 1}], ids=str)
def test_another_recipe_gives_other_weights(plain: Path, tmp_path: Path, other: dict[str, Any]) -> None:
    forged = hashes(forge(tmp_path / "m", replace(PLAIN, **other)))
    assert forged["model.safetensors"] != hashes(plain)["model.safetensors"]


def test_truth_holds_the_rule_and_the_hash_of_every_other_file(plain: Path) -> None:
    truth = read_json(plain / "truth.json")
    found = hashes(plain)
    del found["truth.json"]
    assert truth["files"] == found
    assert truth["recipe"] == PLAIN.arguments()
    assert load_rule(plain) == PLAIN.rule


def test_the_examples_of_truth_follow_from_its_own_map(plain: Path) -> None:
    truth = read_json(plain / "truth.json")
    rule = Rule(tuple(truth["successor"]), frozenset(truth["wrong_drafts"]))
    for example in truth["examples"]:
        answer = rule.expected((0, example["last_prompt_token"]), example["output_tokens"], draft_tokens=1)
        assert (example["mtp1_drafts"], example["mtp1_accepted"]) == (answer.drafts, answer.accepted)
        digest = hashlib.sha256(json.dumps(list(answer.output_ids)).encode()).hexdigest()
        assert example["output_ids_sha256"] == digest


# --- directories that are not empty -----------------------------------------------------------------------


def test_a_complete_directory_of_the_same_recipe_is_left_as_it_is(plain: Path) -> None:
    before = {p.name: p.stat().st_mtime_ns for p in plain.iterdir()}
    assert forge(plain, PLAIN) == plain
    assert {p.name: p.stat().st_mtime_ns for p in plain.iterdir()} == before


def test_a_directory_of_another_recipe_is_refused_and_kept(plain: Path) -> None:
    before = hashes(plain)
    with pytest.raises(ConfigError, match="holds a model of another recipe"):
        forge(plain, replace(PLAIN, seed=2))
    assert hashes(plain) == before


def test_a_strangers_directory_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(ConfigError, match=r"is not empty and holds no truth\.json"):
        forge(tmp_path, PLAIN)
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


def test_an_empty_directory_is_filled(plain: Path, tmp_path: Path) -> None:
    assert hashes(forge(tmp_path, PLAIN)) == hashes(plain)


def test_an_interrupted_run_is_completed_and_what_it_left_goes(plain: Path, tmp_path: Path) -> None:
    partial = tmp_path / "m" / ".partial"
    partial.mkdir(parents=True)
    (partial / "shard-1.safetensors").write_bytes(b"of a larger recipe")
    (partial / "config.json").write_text("{", "utf-8")
    assert hashes(forge(tmp_path / "m", PLAIN)) == hashes(plain)


def test_a_run_that_dies_leaves_no_truth_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(directory: Path, recipe: Recipe) -> None:
        raise OSError(28, f"No space left on device: {directory} {recipe.seed}")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "_write_weights", full_disk)
        with pytest.raises(OSError, match="No space left"):
            forge(tmp_path / "m", PLAIN)
    assert [p.name for p in (tmp_path / "m").iterdir()] == [".partial"]
    assert load_rule(forge(tmp_path / "m", PLAIN)) == PLAIN.rule


# --- shards ---------------------------------------------------------------------------------------------------


def test_a_large_model_is_written_in_shards_whose_index_names_every_tensor(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 300_000)  # a layer has about 230,000 bytes
    directory = forge(tmp_path / "m", PLAIN)
    index = read_json(directory / "model.safetensors.index.json")["weight_map"]
    shards = sorted(directory.glob("*.safetensors"))
    assert len(shards) > 1
    assert [p.name for p in shards] == [
        f"model-{n:05d}-of-{len(shards):05d}.safetensors" for n in range(1, len(shards) + 1)
    ]
    assert {name: shard.name for shard in shards for name in load(shard)} == index

    whole, sharded = load(plain / "model.safetensors"), load(*shards)
    assert whole.keys() == sharded.keys()
    assert all(np.array_equal(whole[name], sharded[name]) for name in whole)
    assert {*index.values(), "model.safetensors.index.json"} <= read_json(directory / "truth.json")["files"].keys()


# --- reading truth.json ---------------------------------------------------------------------------------------


def test_a_directory_without_truth_json_has_no_rule(tmp_path: Path) -> None:
    assert load_rule(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not a truth.json of this harness"),
        ("[]", "not a truth.json of this harness"),
        ('{"schema_version": 1}', "not a truth.json of this harness"),
        ('{"schema_version": 2}', "schema 2 is newer than this harness knows"),
    ],
)
def test_a_truth_json_that_cannot_be_used_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "truth.json").write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=told):
        load_rule(tmp_path)
