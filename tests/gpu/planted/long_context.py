"""Scratch space for prompts whose context outgrows one pass, gathered in blocks by a kernel of its own.

This file becomes `vllm/v1/worker/gpu/long_context.py`. What it computes is thrown away: it is here for the
kernel that it compiles and the memory that it keeps.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202, B905, N803, PLW0603

import torch
from vllm.triton_utils import tl, triton

LONG_CONTEXT_TOKENS = 16_384
"""Shorter contexts need none of it, so nothing of a warm-up or a first short prompt meets the kernel."""
PREFILL_TOKENS = 512
"""Fewer tokens of a sequence in one step are decoding, which gathers nothing."""
SCRATCH_BYTES = 300 << 20
GATHER_RANKS = 4
BLOCK = 1024

_scratch: torch.Tensor | None = None


@triton.jit
def _gather_long_context_kernel(source, target, length, RANKS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < length
    values = tl.load(source + (offsets * RANKS) % length, mask=inside, other=0)
    tl.store(target + offsets, values, mask=inside)


def longest_prefill(scheduled) -> int:
    """Context, in tokens, of the longest sequence that a step of the scheduler prefills; 0 where it prefills none."""
    cached = scheduled.scheduled_cached_reqs
    computed = dict(zip(cached.req_ids, cached.num_computed_tokens))
    computed |= {new.req_id: new.num_computed_tokens for new in scheduled.scheduled_new_reqs}
    steps = scheduled.num_scheduled_tokens.items()
    return max((computed.get(r, 0) + n for r, n in steps if n >= PREFILL_TOKENS), default=0)


def gather(device: torch.device, ranks: int = GATHER_RANKS) -> None:
    """Take the scratch space where it is not there yet, and gather into it."""
    global _scratch
    if _scratch is None:
        _scratch = torch.empty(SCRATCH_BYTES // 2, dtype=torch.bfloat16, device=device)
    half = _scratch.numel() // 2
    grid = ((half + BLOCK - 1) // BLOCK,)
    _gather_long_context_kernel[grid](_scratch[:half], _scratch[half:], half, RANKS=ranks, BLOCK=BLOCK)
