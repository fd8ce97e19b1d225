"""The silent bug of the origin's pull request, as a small server: its warm-up reads an attribute that is not there.

The kernel is specialised for the decode-context-parallel size and interleave. The warm-up asks the
configuration for `dcp_world_size`, which it does not have, falls back to 1, and compiles a kernel that
nobody launches; the first prompt then compiles the needed one. `--fixed` warms up the right one.

    python b3_program.py [--fixed] [--no-gpu]

Run it with the tracer in front of PYTHONPATH. On its output stand the moments of its course, as JSON:
KV sizing, the monitor's arming, health, the first request, the long prompt, the stop (CLOCK_MONOTONIC, ns).
"""

# mypy: ignore-errors
# Triton and torch are not installed beside mypy, and a kernel is no Python.
# ruff: noqa: ANN001, ANN202, N803

import argparse
import json
import sys
import time
from dataclasses import dataclass

import triton
import triton.language as tl

TOKENS = 1 << 16
BLOCK = 1024


@dataclass(frozen=True)
class Config:
    """What the engine was started with: TP4, DCP4, interleave 64."""

    decode_context_parallel_size: int = 4
    dcp_kv_cache_interleave_size: int = 64


@triton.jit
def _map_global_topk_to_gathered_ckv_kernel(
    topk, gathered, n, DCP_SIZE: tl.constexpr, DCP_INTERLEAVE: tl.constexpr, BLOCK: tl.constexpr
):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(topk + offset, mask=offset < n, other=0)
    rank = index // DCP_INTERLEAVE % DCP_SIZE
    local = index // (DCP_INTERLEAVE * DCP_SIZE) * DCP_INTERLEAVE + index % DCP_INTERLEAVE
    tl.store(gathered + offset, rank * n + local, mask=offset < n)


class OnGpu:
    """Launches on the GPU, and checks what comes back."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.topk = torch.arange(TOKENS, dtype=torch.int32, device="cuda")
        self.gathered = torch.empty_like(self.topk)

    def launch(self, size: int, interleave: int) -> None:
        constants = {"DCP_SIZE": size, "DCP_INTERLEAVE": interleave, "BLOCK": BLOCK}
        grid = (TOKENS // BLOCK,)
        _map_global_topk_to_gathered_ckv_kernel[grid](self.topk, self.gathered, TOKENS, **constants)
        self.torch.cuda.synchronize()
        rank = self.topk // interleave % size
        local = self.topk // (interleave * size) * interleave + self.topk % interleave
        assert self.torch.equal(self.gathered, rank * TOKENS + local), "the kernel is wrong"


class WithoutGpu:
    """Compiles for an H200 and launches nothing."""

    def __init__(self) -> None:
        from triton.backends.compiler import GPUTarget
        from triton.runtime import driver

        class Driver:
            get_current_device = staticmethod(lambda: 0)
            get_current_stream = staticmethod(lambda device: device)
            get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
            get_active_torch_device = staticmethod(lambda: "cuda:0")

        class Pointer:
            dtype = "int32"
            data_ptr = staticmethod(lambda: 256)

        driver.set_active(Driver())
        self.pointer = Pointer()

    def launch(self, size: int, interleave: int) -> None:
        constants = {"DCP_SIZE": size, "DCP_INTERLEAVE": interleave, "BLOCK": BLOCK}
        grid = (TOKENS // BLOCK,)
        _map_global_topk_to_gathered_ckv_kernel.warmup(self.pointer, self.pointer, TOKENS, grid=grid, **constants)


def main() -> None:
    """Warm up, say that the KV cache is sized and the monitor armed, serve a short and a long prompt."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--no-gpu", action="store_true")
    asked = parser.parse_args()
    device = WithoutGpu() if asked.no_gpu else OnGpu()
    config, moments = Config(), {"process started": time.monotonic_ns()}

    def moment(name: str) -> None:
        moments[name] = time.monotonic_ns()

    if asked.fixed:
        device.launch(config.decode_context_parallel_size, config.dcp_kv_cache_interleave_size)
    else:  # the bug: neither attribute exists, and nobody is told
        device.launch(getattr(config, "dcp_world_size", 1), getattr(config, "cp_kv_cache_interleave_size", 1))
    moment("KV sized")
    moment("monitor armed")
    moment("health")
    moment("first request")
    moment("long prompt begins")
    device.launch(config.decode_context_parallel_size, config.dcp_kv_cache_interleave_size)
    device.launch(config.decode_context_parallel_size, config.dcp_kv_cache_interleave_size)
    moment("long prompt ends")
    moment("stop asked")
    sys.stdout.write(json.dumps(moments) + "\n")


if __name__ == "__main__":
    main()
