"""The forged model in DeepSeek-V3's shape: multi-head latent attention (MLA) and one MTP layer, all layers dense.

The same construction as `tensors.py`: attention and MLP add nothing to the residual stream, so the answers
are those of the recipe's rule. Ranks and head sizes are DeepSeek-V3's own (kernels of MLA know no others);
width, depth and the number of heads are the recipe's.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.forge.recipe import Recipe
from harness.forge.tensors import Bits, draft_projection, filler, head, one_hot, ones

Q_RANK = 1536
KV_RANK = 512
NOPE = 128
"""Part of a query or key head without a position."""
ROPE = 64
"""The part with one; together with KV_RANK a token's whole entry in the KV cache."""
VALUE = 128


def config(recipe: Recipe) -> dict[str, object]:
    """`config.json`, but for what every forged model has."""
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "q_lora_rank": Q_RANK,
        "kv_lora_rank": KV_RANK,
        "qk_nope_head_dim": NOPE,
        "qk_rope_head_dim": ROPE,
        "v_head_dim": VALUE,
        "num_key_value_heads": recipe.heads,
        # Experts that no layer has: the MTP layer is layer number `layers`, and no multiple of the frequency.
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "moe_intermediate_size": 128,
        "first_k_dense_replace": recipe.layers,
        "moe_layer_freq": recipe.layers + 1,
    }


def groups(recipe: Recipe) -> Iterator[dict[str, Bits]]:
    """Tensors by name, one layer at a time."""
    embedding = one_hot(recipe.vocab_size, recipe.hidden, range(recipe.vocab_size))
    yield {
        "model.embed_tokens.weight": embedding,
        "model.norm.weight": ones(recipe.hidden),
        "lm_head.weight": head(recipe),
    }
    for layer in range(recipe.layers):
        yield _decoder_layer(recipe, f"model.layers.{layer}.")
    # eh_proj reads [embedding | previous hidden state], the other way round than MiMo's.
    prefix = f"model.layers.{recipe.layers}."
    yield {
        **_decoder_layer(recipe, prefix),
        f"{prefix}embed_tokens.weight": embedding,
        f"{prefix}enorm.weight": ones(recipe.hidden),
        f"{prefix}hnorm.weight": ones(recipe.hidden),
        f"{prefix}eh_proj.weight": draft_projection(recipe, embedding_from=0),
        f"{prefix}shared_head.norm.weight": ones(recipe.hidden),
        f"{prefix}shared_head.head.weight": head(recipe),
    }


def _decoder_layer(recipe: Recipe, prefix: str) -> dict[str, Bits]:
    hidden, heads = recipe.hidden, recipe.heads
    shapes = {
        "self_attn.q_a_proj.weight": (Q_RANK, hidden),
        "self_attn.q_b_proj.weight": (heads * (NOPE + ROPE), Q_RANK),
        "self_attn.kv_a_proj_with_mqa.weight": (KV_RANK + ROPE, hidden),
        "self_attn.kv_b_proj.weight": (heads * (NOPE + VALUE), KV_RANK),
        "mlp.gate_proj.weight": (recipe.intermediate, hidden),
        "mlp.up_proj.weight": (recipe.intermediate, hidden),
    }
    return {
        **{prefix + name: filler(recipe, prefix + name, shape) for name, shape in shapes.items()},
        prefix + "self_attn.q_a_layernorm.weight": ones(Q_RANK),
        prefix + "self_attn.kv_a_layernorm.weight": ones(KV_RANK),
        prefix + "self_attn.o_proj.weight": np.zeros((hidden, heads * VALUE), dtype=np.uint16),
        prefix + "mlp.down_proj.weight": np.zeros((hidden, recipe.intermediate), dtype=np.uint16),
        prefix + "input_layernorm.weight": ones(hidden),
        prefix + "post_attention_layernorm.weight": ones(hidden),
    }
