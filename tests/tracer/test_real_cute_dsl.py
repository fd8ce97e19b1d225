"""The hook on the real CuTe DSL, which compiles without a GPU.

The folders that QUALIFY_TEST_CUTLASS names are searched (each with nvidia-cutlass-dsl, its parts and cuda-python).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .libraries import run

FOLDERS = [Path(p) for p in os.environ.get("QUALIFY_TEST_CUTLASS", "").split(os.pathsep) if p]
pytestmark = pytest.mark.skipif(not FOLDERS, reason="name folders of the CuTe DSL in QUALIFY_TEST_CUTLASS")

PROGRAM = """
import cutlass
from cutlass.cute import compile
import cutlass.cute as cute
@cute.jit
def hello(number: cutlass.Int32, TILE: cutlass.Constexpr):
    cute.printf("%d", number)
compile(hello, cutlass.Int32(3), 128)
print(compile is cute.compile)
"""


@pytest.mark.parametrize("cutlass", FOLDERS, ids=lambda p: p.name)
def test_a_compilation_is_told(tmp_path: Path, cutlass: Path) -> None:
    packages = sorted(p.parent for p in cutlass.glob("nvidia_cutlass_dsl/*/cutlass") if p.is_dir())
    source = tmp_path / "hello.py"  # the DSL reads the source of what it compiles
    source.write_text(PROGRAM, "utf-8")
    program = f"import runpy\nrunpy.run_path({str(source)!r}, run_name='__main__')"
    behind = os.pathsep.join(map(str, [*packages, cutlass]))
    done = run(tmp_path, program, behind=behind, HOME=str(tmp_path), CUTE_DSL_ARCH="sm_90a")
    assert done.out == "True\n", done.err
    [told] = done.of("kernel")
    assert (told["kernel"], told["constexprs"], told["signature"]) == ("hello", {"TILE": 128}, {"number": "Int32"})
    assert told["error"] is None
