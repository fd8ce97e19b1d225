"""The hooks on the real Triton, as far as it goes without a GPU: its JIT runs up to the launch.

Any version that is found is used: the one of this environment, the one beside the real vLLM, and the
folders that QUALIFY_TEST_TRITONS names (each made with `pip install --target FOLDER triton==...`).
"""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.paths import PROJECT

from .libraries import Traced, run

PROGRAM = Path(__file__).with_name("triton_program.py")
KERNEL = "_map_global_topk_to_gathered_ckv_kernel"
WARM = (KERNEL, {"DCP_SIZE": 1, "DCP_INTERLEAVE": 1, "BLOCK": 128})
NEEDED = (KERNEL, {"DCP_SIZE": 4, "DCP_INTERLEAVE": 64, "BLOCK": 128})


def _folders() -> list[Path]:
    named = [Path(p) for p in os.environ.get("QUALIFY_TEST_TRITONS", "").split(os.pathsep) if p]
    beside = sorted((PROJECT / ".venv-vllm").glob("lib/python3*/site-packages"))
    own = find_spec("triton")
    here = [Path(own.origin).parents[1]] if own is not None and own.origin else []
    return [p for p in (*named, *beside, *here) if (p / "triton" / "runtime" / "jit.py").is_file()]


FOLDERS = _folders()
pytestmark = pytest.mark.skipif(not FOLDERS, reason="no Triton found; name folders in QUALIFY_TEST_TRITONS")


def traced(folder: Path, triton: Path, specialisations: object, *arguments: str) -> Traced:
    """Run the program in a process whose arguments are these."""
    argv = [str(PROGRAM), json.dumps(specialisations), *arguments]
    program = f"import runpy, sys\nsys.argv = {argv!r}\nrunpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    cache = {"TRITON_CACHE_DIR": str(folder / "cache"), "HOME": str(folder)}
    return run(folder, program, behind=str(triton), arguments=("-W", "ignore"), **cache)


@pytest.mark.parametrize("triton", FOLDERS, ids=lambda p: p.name)
def test_each_specialisation_is_told_once_with_its_origin(tmp_path: Path, triton: Path) -> None:
    cold = traced(tmp_path, triton, [[1, 1], [4, 64], [4, 64]])
    assert cold.code == 0, cold.err
    assert cold.compiled() == [WARM, NEEDED]
    assert {r["origin"] for r in cold.of("kernel")} == {"compiled"}
    assert all(r["signature"] == {"ids": "*i32", "out": "*i32", "n": "i32"} for r in cold.of("kernel"))
    hooks = {hook: status for hook, status in cold.hooks().items() if hook.startswith("triton")}
    assert set(hooks.values()) == {"hooked"}, hooks
    for file in cold.folder.iterdir():
        file.unlink()
    warm = traced(tmp_path, triton, [[4, 64]])
    assert [(r["kernel"], r["origin"]) for r in warm.of("kernel")] == [(KERNEL, "disk")]


@pytest.mark.parametrize("triton", FOLDERS, ids=lambda p: p.name)
def test_the_engines_monitor_hears_what_it_would_without_us(tmp_path: Path, triton: Path) -> None:
    if not (triton / "triton" / "knobs.py").is_file():
        pytest.skip("vLLM's monitor needs the knobs of Triton 3.4")
    done = traced(tmp_path, triton, [[4, 64]], "--monitor")
    assert done.code == 0, done.err
    assert json.loads(done.out)["told"] == [KERNEL]
    assert done.compiled() == [NEEDED]
