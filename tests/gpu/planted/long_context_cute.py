"""What `long_context.py` does, in the CuTe DSL and compiled as B12X compiles its kernels, with the same scratch space.

This file becomes `vllm/v1/worker/gpu/long_context.py` as well. It has two kernels since they can be compiled in two
ways, and vLLM's monitor sees one of them: once armed it stands in the place of `cute.compile` and takes no options,
so a library that wants some builds its own `CompileCallable`, of which the monitor is not told.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN002, ANN201, B905, PLW0603

import cutlass
import torch
from cuda.bindings.driver import CUstream
from cutlass import cute
from cutlass.base_dsl.compiler import CompileCallable, OptLevel
from cutlass.cute.runtime import from_dlpack

LONG_CONTEXT_TOKENS = 16_384
"""Shorter contexts need none of it, so nothing of a warm-up or a first short prompt meets the kernels."""
PREFILL_TOKENS = 512
"""Fewer tokens of a sequence in one step are decoding, which gathers nothing."""
SCRATCH_BYTES = 300 << 20
GATHER_RANKS = 4
BLOCK = 256

_scratch: torch.Tensor | None = None
_compiled: dict[tuple[str, int], object] = {}


class GatherLongContext:
    """Specialised for a number of ranks, which it holds as B12X's kernels hold theirs."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    @cute.jit
    def __call__(self, source: cute.Tensor, target: cute.Tensor, stream: CUstream) -> None:
        """Launch on a stream."""
        blocks = (cute.size(target) + BLOCK - 1) // BLOCK
        self.kernel(source, target).launch(grid=(blocks, 1, 1), block=(BLOCK, 1, 1), stream=stream)

    @cute.kernel
    def kernel(self, source: cute.Tensor, target: cute.Tensor) -> None:
        """Every `ranks`-th element."""
        block, _, _ = cute.arch.block_idx()
        thread, _, _ = cute.arch.thread_idx()
        index = block * BLOCK + thread
        if index < cute.size(target):
            target[index] = source[(index * self.ranks) % cute.size(source)]


class SpreadLongContext:
    """The way back, compiled with options."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    @cute.jit
    def __call__(self, source: cute.Tensor, target: cute.Tensor, stream: CUstream) -> None:
        """Launch on a stream."""
        blocks = (cute.size(source) + BLOCK - 1) // BLOCK
        self.kernel(source, target).launch(grid=(blocks, 1, 1), block=(BLOCK, 1, 1), stream=stream)

    @cute.kernel
    def kernel(self, source: cute.Tensor, target: cute.Tensor) -> None:
        """Each element to the first of its `ranks`."""
        block, _, _ = cute.arch.block_idx()
        thread, _, _ = cute.arch.thread_idx()
        index = block * BLOCK + thread
        if index < cute.size(source):
            target[index - index % self.ranks] = source[index] + cutlass.BFloat16(1.0)


def longest_prefill(scheduled) -> int:
    """Context, in tokens, of the longest sequence that a step of the scheduler prefills; 0 where it prefills none."""
    cached = scheduled.scheduled_cached_reqs
    computed = dict(zip(cached.req_ids, cached.num_computed_tokens))
    computed |= {new.req_id: new.num_computed_tokens for new in scheduled.scheduled_new_reqs}
    steps = scheduled.num_scheduled_tokens.items()
    return max((computed.get(r, 0) + n for r, n in steps if n >= PREFILL_TOKENS), default=0)


def gather(device: torch.device, ranks: int = GATHER_RANKS) -> None:
    """Take the scratch space where it is not there yet, gather into it and spread again."""
    global _scratch
    if _scratch is None:
        _scratch = torch.empty(SCRATCH_BYTES // 2, dtype=torch.bfloat16, device=device)
    half = _scratch.numel() // 2
    stream = CUstream(torch.cuda.current_stream(device).cuda_stream)
    first, second = (from_dlpack(part).mark_layout_dynamic() for part in (_scratch[:half], _scratch[half:]))
    compiled("gather", ranks, first, second, stream)(first, second, stream)
    compiled("spread", ranks, second, first, stream)(second, first, stream)


def compiled(which: str, ranks: int, *arguments):
    """A kernel for these ranks, compiled where it is needed first; `spread` with options, however that can be had."""
    if (which, ranks) not in _compiled:
        if which == "gather":
            made = cute.compile(GatherLongContext(ranks), *arguments)
        else:
            options = OptLevel(2)
            with_options = cute.compile[options] if hasattr(cute.compile, "__getitem__") else CompileCallable(options)
            made = with_options(SpreadLongContext(ranks), *arguments)
        _compiled[which, ranks] = made
    return _compiled[which, ranks]
