"""The tensors of a forged checkpoint, as bfloat16 bit patterns.

Constructed so that the residual stream carries a one-hot of the current token from embedding to
`lm_head`: the output projections of attention and MLP are zero, every norm weight is one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.forge.recipe import Recipe

Bits = npt.NDArray[np.uint16]
"""bfloat16 values as their 16 bits; shape as the tensor's."""

ONE = 0x3F80
NEARLY_ONE = 0x3F7E
"""bfloat16 0.9921875: after the final norm the logits differ by sqrt(hidden) / 128 (0.09 at 128)."""


def gqa_config(recipe: Recipe) -> dict[str, object]:
    """`config.json` of the model with grouped-query attention, but for what every forged model has."""
    return {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "qwen2",  # served without custom code; the architecture brings the MTP layer
        "num_key_value_heads": recipe.kv_heads,
        "use_sliding_window": False,
    }


def groups(recipe: Recipe) -> Iterator[dict[str, Bits]]:
    """Tensors by name, one layer at a time, so that a large model never stands in memory whole."""
    yield {
        "model.embed_tokens.weight": one_hot(recipe.vocab_size, recipe.hidden, range(recipe.vocab_size)),
        "model.norm.weight": ones(recipe.hidden),
        "lm_head.weight": head(recipe),
    }
    for layer in range(recipe.layers):
        yield _decoder_layer(recipe, f"model.layers.{layer}.")
    yield _mtp_layer(recipe)


def _mtp_layer(recipe: Recipe) -> dict[str, Bits]:
    prefix = "model.mtp_layers.0."
    norms = {
        f"{prefix}{name}.weight": ones(recipe.hidden)
        for name in ("token_layernorm", "hidden_layernorm", "final_layernorm")
    }
    # input_proj reads [previous hidden state | embedding].
    projection = draft_projection(recipe, embedding_from=recipe.hidden)
    return {**_decoder_layer(recipe, prefix), **norms, f"{prefix}input_proj.weight": projection}


def draft_projection(recipe: Recipe, *, embedding_from: int) -> Bits:
    """The MTP layer's projection, of shape [hidden, 2 hidden]: of its input only the embedding's half is used.

    It maps a token's one-hot to itself, or, in the set of wrong drafts, to that of another token.
    """
    seen_as = [recipe.mistaken_for(t) if t in recipe.rule.wrong_drafts else t for t in range(recipe.vocab_size)]
    projection = np.zeros((recipe.hidden, 2 * recipe.hidden), dtype=np.uint16)
    projection[seen_as, embedding_from + np.arange(recipe.vocab_size)] = ONE
    return projection


def _decoder_layer(recipe: Recipe, prefix: str) -> dict[str, Bits]:
    hidden, kv = recipe.hidden, recipe.kv_heads * recipe.head_size
    shapes = {
        "self_attn.q_proj.weight": (hidden, hidden),
        "self_attn.q_proj.bias": (hidden,),
        "self_attn.k_proj.weight": (kv, hidden),
        "self_attn.k_proj.bias": (kv,),
        "self_attn.v_proj.weight": (kv, hidden),
        "self_attn.v_proj.bias": (kv,),
        "mlp.gate_proj.weight": (recipe.intermediate, hidden),
        "mlp.up_proj.weight": (recipe.intermediate, hidden),
    }
    return {
        **{prefix + name: filler(recipe, prefix + name, shape) for name, shape in shapes.items()},
        prefix + "self_attn.o_proj.weight": np.zeros((hidden, hidden), dtype=np.uint16),
        prefix + "mlp.down_proj.weight": np.zeros((hidden, recipe.intermediate), dtype=np.uint16),
        prefix + "input_layernorm.weight": ones(hidden),
        prefix + "post_attention_layernorm.weight": ones(hidden),
    }


def head(recipe: Recipe) -> Bits:
    """lm_head of shape [vocab, hidden]: row v is 1 in the columns of the tokens that v follows."""
    matrix = one_hot(recipe.vocab_size, recipe.hidden, ())
    matrix[list(recipe.rule.successor), np.arange(recipe.vocab_size)] = ONE
    if recipe.tie is not None:
        token, runner_up = recipe.tie
        matrix[runner_up, token] = NEARLY_ONE
    return matrix


def one_hot(rows: int, columns: int, places: range | tuple[()]) -> Bits:
    """Matrix of zeros with a one per row, in the column that `places` names."""
    matrix = np.zeros((rows, columns), dtype=np.uint16)
    for row, column in enumerate(places):
        matrix[row, column] = ONE
    return matrix


def ones(length: int) -> Bits:
    """Weight of a norm."""
    return np.full((length,), ONE, dtype=np.uint16)


def filler(recipe: Recipe, name: str, shape: tuple[int, ...]) -> Bits:
    """Seeded values of either sign and magnitude 2^-7 to 2^-6.

    Zeros would give the same answers, but not the arithmetic's real cost: power and clocks of a
    GPU depend on the bits that toggle.
    """
    noise = np.frombuffer(hashlib.shake_256(f"forge/1/{recipe.seed}/{name}".encode()).digest(1 << 16), dtype="<u2")
    values = (noise & 0x807F) | 0x3C00
    return np.resize(values, shape).astype(np.uint16)
