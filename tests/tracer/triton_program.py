"""Compile kernels with the Triton on the path, without a GPU: its JIT runs up to the launch.

Prints what Triton's own hooks and listeners were told, for the test to hold the tracer's files against.
"""

# mypy: ignore-errors
# Triton is not installed beside mypy, and its functions are no Python.
# ruff: noqa: ANN001, ANN202, N803

import json
import sys
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime import driver


@triton.jit
def _map_global_topk_to_gathered_ckv_kernel(
    ids,
    out,
    n,
    DCP_SIZE: tl.constexpr,
    DCP_INTERLEAVE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(ids + offset, mask=offset < n)
    tl.store(out + offset, value // DCP_INTERLEAVE % DCP_SIZE, mask=offset < n)


class Pointer:
    """A tensor, as far as the JIT looks before a launch."""

    dtype = "int32"

    def data_ptr(self) -> int:
        return 256


class Driver:
    """A driver with one H100 that nothing is launched on."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return device

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self) -> str:
        return "cuda:0"


def main() -> None:
    driver.set_active(Driver())
    told: list[str] = []
    if "--monitor" in sys.argv:  # as vLLM's monitor does it
        from triton import knobs

        earlier = knobs.runtime.jit_post_compile_hook

        def monitor(**kwargs: Any) -> Any:
            told.append(kwargs["fn"].name)
            return earlier(**kwargs) if earlier is not None else None

        knobs.runtime.jit_post_compile_hook = monitor
    for size, interleave in json.loads(sys.argv[1]):
        arguments = {"DCP_SIZE": size, "DCP_INTERLEAVE": interleave, "BLOCK": 128}
        _map_global_topk_to_gathered_ckv_kernel.warmup(Pointer(), Pointer(), 1000, grid=(8,), **arguments)
    sys.stdout.write(json.dumps({"version": triton.__version__, "told": told}) + "\n")


if __name__ == "__main__":
    main()
