"""Write a forged checkpoint: configuration, tokenizer, weights and `truth.json`."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from safetensors import TensorSpec, serialize_file

from harness.errors import ConfigError
from harness.forge import mla
from harness.forge.recipe import Recipe
from harness.forge.tensors import Bits, gqa_config, groups
from harness.forge.truth import truth_json

SHARD_BYTES = 2 << 30


def forge(directory: Path, recipe: Recipe) -> Path:
    """Write the model that `recipe` describes into `directory`, and return it.

    The same recipe gives the same bytes. An existing directory is completed only when it is
    empty or holds the same recipe; anything else is left alone.

    Raises:
        ConfigError: the directory holds something else.
    """
    truth_file = directory / "truth.json"
    if truth_file.is_file():
        if json.loads(truth_file.read_text("utf-8")).get("recipe") == recipe.arguments():
            return directory
        raise ConfigError(f"forge: {directory} holds a model of another recipe; name another directory or remove it")
    partial = directory / ".partial"
    if directory.is_dir() and any(p != partial for p in directory.iterdir()):
        raise ConfigError(f"forge: {directory} is not empty and holds no truth.json; name another directory")

    shutil.rmtree(partial, ignore_errors=True)  # an interrupted run's, perhaps of another recipe
    partial.mkdir(parents=True)
    _write_json(partial / "config.json", _config(recipe))
    _write_json(partial / "generation_config.json", {})
    _write_json(partial / "tokenizer.json", _tokenizer(recipe))
    _write_json(partial / "tokenizer_config.json", _tokenizer_config(recipe))
    _write_weights(partial, recipe)

    hashes = {}
    for file in sorted(partial.iterdir()):
        with file.open("rb") as stream:
            hashes[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    _write_json(partial / "truth.json", truth_json(recipe, hashes))
    # truth.json moves last: a directory that holds one is complete.
    for name in (*hashes, "truth.json"):
        (partial / name).rename(directory / name)
    partial.rmdir()
    return directory


def _config(recipe: Recipe) -> dict[str, object]:
    return {
        **(mla.config(recipe) if recipe.mla else gqa_config(recipe)),
        "torch_dtype": "bfloat16",
        "hidden_size": recipe.hidden,
        "intermediate_size": recipe.intermediate,
        "num_hidden_layers": recipe.layers,
        "num_attention_heads": recipe.heads,
        "num_nextn_predict_layers": 1,
        "vocab_size": recipe.vocab_size,
        "max_position_embeddings": recipe.max_context,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _tokenizer(recipe: Recipe) -> dict[str, object]:
    """One word per id, so that text and ids tell the same story; prompts are sent as ids."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {_word(t): t for t in range(recipe.vocab_size)},
            "unk_token": _word(0),
        },
    }


def _tokenizer_config(recipe: Recipe) -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": recipe.max_context,
        "clean_up_tokenization_spaces": False,
    }


def _word(token: int) -> str:
    return f"w{token}"


def _write_weights(directory: Path, recipe: Recipe) -> None:
    shards = list(_shards((mla.groups if recipe.mla else groups)(recipe), directory))
    if len(shards) == 1:
        (directory / shards[0][0]).rename(directory / "model.safetensors")
        return
    weight_map = {}
    for number, (written, names) in enumerate(shards, 1):
        final = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        (directory / written).rename(directory / final)
        weight_map.update(dict.fromkeys(names, final))
    _write_json(directory / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})


def _shards(layers: Iterable[dict[str, Bits]], directory: Path) -> Iterator[tuple[str, list[str]]]:
    """Write the layers in shards of about SHARD_BYTES; yield each file's name and its tensors."""
    pending: dict[str, Bits] = {}
    number = 0
    for layer in layers:
        size = sum(t.nbytes for t in pending.values()) + sum(t.nbytes for t in layer.values())
        if pending and size > SHARD_BYTES:
            yield _write_shard(directory, number, pending), list(pending)
            number, pending = number + 1, {}
        pending |= layer
    yield _write_shard(directory, number, pending), list(pending)


def _write_shard(directory: Path, number: int, tensors: dict[str, Bits]) -> str:
    name = f"shard-{number}.safetensors"
    specs = {
        key: TensorSpec(dtype="bfloat16", shape=list(bits.shape), data_ptr=bits.ctypes.data, data_len=bits.nbytes)
        for key, bits in tensors.items()
    }
    serialize_file(specs, str(directory / name), metadata={"format": "pt"})
    return name


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", "utf-8")
