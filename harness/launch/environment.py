"""The environment of a server, built from nothing, so that no credential of the user leaks in."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

SECRET_NAME = re.compile(r"TOKEN(?!IZ|S_PER)|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|PRIVATE", re.IGNORECASE)

CACHE_VARIABLES = {
    "XDG_CACHE_HOME": "xdg",
    "VLLM_CACHE_ROOT": "vllm",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "TORCH_EXTENSIONS_DIR": "torch-extensions",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "DG_JIT_CACHE_DIR": "deep-gemm",
    "CUTE_DSL_CACHE_DIR": "cute-dsl",
    "TILELANG_CACHE_DIR": "tilelang",
    "TVM_FFI_CACHE_DIR": "tvm-ffi",
    "CUDA_CACHE_PATH": "cuda",
    "NUMBA_CACHE_DIR": "numba",
    "CUPY_CACHE_DIR": "cupy",
    "TVM_CACHE_DIR": "tvm",
    "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR": "flashinfer-autotune",
    # Forks of this field (notes/field.md 1.3 and receipts of the r-series).
    "VLLM_CACHE_DIR": "vllm-fork",
    "B12X_COMPILE_CACHE_DIR": "b12x",
    "B12X_CUTE_COMPILE_CACHE_DIR": "b12x-cute",
    "SPARKINFER_COMPILE_CACHE_DIR": "sparkinfer",
    "VLLM_EXL3_ONLINE_CACHE_DIR": "exl3",
}
"""Every compile cache that vLLM and its kernel libraries keep, and its folder below the cache root."""


def server_environment(
    *, engine: str, home: Path, temporary: Path, caches: Path, layers: tuple[Mapping[str, str], ...]
) -> dict[str, str]:
    """Environment of a server process.

    Args:
        engine: the engine's executable; its folder comes first in PATH (Inductor calls ninja from there).
        home: an empty folder; caches that no variable moves land there and not in the user's.
        temporary: TMPDIR; short, because vLLM makes UNIX sockets in it (at most 107 characters).
        caches: root of the compile caches.
        layers: profile, mode, warm-up and stack, the later one wins.
    """
    folder = Path(shutil.which(engine) or engine).parent  # a bare name was found on the harness's own PATH
    environment = {
        "PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        **{name: str(caches / folder) for name, folder in CACHE_VARIABLES.items()},
    }
    for layer in layers:
        environment |= layer
    return environment


def redacted(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment as evidence: values of variables that look like credentials are removed."""
    return {k: "<redacted>" if SECRET_NAME.search(k) else v for k, v in sorted(environment.items())}
