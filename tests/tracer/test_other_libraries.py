"""The hooks of the CuTe DSL and of TileLang."""

from __future__ import annotations

from pathlib import Path

import pytest

from .libraries import CUTLASS, OLD_CUTLASS, TILELANG, run

KERNEL = """
class UnifiedPrefillMGKernel:
    def __init__(self):
        self.block_threads, self.has_sink, self.layout = 384, False, object()
    def __call__(self, q, out): pass
kernel = UnifiedPrefillMGKernel()
"""


@pytest.mark.parametrize("cutlass", [CUTLASS, OLD_CUTLASS], ids=["object", "function"])
@pytest.mark.parametrize(
    "program",
    [
        "import cutlass.cute as cute\nprint(cute.compile(kernel, 1, 2)[0])",
        "from cutlass.cute import compile\nprint(compile(kernel, 1, 2)[0])",
        "import cutlass\nimport cutlass.cute\nprint(cutlass.cute.compile(kernel, 1, 2)[0])",
    ],
    ids=["attribute", "by name", "package"],
)
def test_a_compilation_is_told_however_it_was_imported(tmp_path: Path, cutlass: dict[str, str], program: str) -> None:
    done = run(tmp_path, KERNEL + program, cutlass)
    assert (done.out, done.err) == ("compiled\n", "")
    [told] = done.of("kernel")
    assert (told["backend"], told["kernel"]) == ("CuTeDSL", "UnifiedPrefillMGKernel")
    assert told["constexprs"] == {"block_threads": 384, "has_sink": False}
    assert told["signature"] == {"q": "int", "out": "int"}
    assert told["origin"] is None, "the DSL does not say"


def test_options_in_brackets_stay_and_are_traced(tmp_path: Path) -> None:
    program = KERNEL + "from cutlass.cute import compile\nprint(compile['opt-level 2'](kernel)[2], compile.options)"
    done = run(tmp_path, program, CUTLASS)
    assert done.out == "opt-level 2 ()\n"
    assert len(done.of("kernel")) == 1


def test_a_library_that_was_imported_before_us_by_name_is_hooked_there_too(tmp_path: Path) -> None:
    # A .pth file or an earlier sitecustomize may have done so; the tracer is then installed late.
    late = (
        "import os, sys\nfrom cutlass.cute import compile\n"
        "import qualify_tracer\nqualify_tracer.install(os.environ['LATE'])\n" + KERNEL + "compile(kernel)\n"
    )
    (tmp_path / "late").mkdir()
    done = run(tmp_path, late, CUTLASS, QUALIFY_TRACE="", LATE=str(tmp_path / "trace"))
    assert (done.code, done.err) == (0, "")
    assert done.compiled() == [("UnifiedPrefillMGKernel", {"block_threads": 384, "has_sink": False})]


def test_a_constexpr_of_a_function_is_told_by_name(tmp_path: Path) -> None:
    program = """
import cutlass, cutlass.cute as cute
def _gemm(a, TILE: cutlass.Constexpr, b): pass
cute.compile(_gemm, 1, 128, b=2)
"""
    done = run(tmp_path, program, CUTLASS)
    assert done.compiled() == [("_gemm", {"TILE": 128})]


def test_an_error_reaches_the_engine(tmp_path: Path) -> None:
    program = "import cutlass.cute as c\ntry:\n    c.compile(print, fails=1)\nexcept RuntimeError as e:\n    print(e)\n"
    done = run(tmp_path, program, CUTLASS)
    assert done.out == "cannot compile\n"
    [told] = done.of("kernel")
    assert told["error"] == "RuntimeError"


@pytest.mark.parametrize(
    ("call", "origin"),
    [
        ("JITKernel(f)", "compiled"),
        ("JITKernel(func=f, from_database=True)", "disk"),
        ("JITKernel(f, None, 'x', 'y', None, False, None, True)", "disk"),
    ],
)
def test_a_kernel_of_tilelang_is_told_with_its_origin(tmp_path: Path, call: str, origin: str) -> None:
    program = f"""
from tilelang.jit.kernel import JITKernel
class PrimFunc:
    attrs = {{"global_symbol": "mhc_pre"}}
f = PrimFunc()
assert {call}.func is f
"""
    done = run(tmp_path, program, TILELANG)
    assert (done.code, done.err) == (0, "")
    [told] = done.of("kernel")
    assert (told["backend"], told["kernel"], told["origin"]) == ("TileLang", "mhc_pre", origin)


@pytest.mark.parametrize(
    ("library", "module"), [(CUTLASS, "cutlass.cute"), (TILELANG, "tilelang.jit.kernel")], ids=["cute", "tilelang"]
)
def test_another_shape_is_told(tmp_path: Path, library: dict[str, str], module: str) -> None:
    emptied = dict.fromkeys(library, "")
    done = run(tmp_path, f"import {module}\nprint('works')", emptied)
    assert done.out == "works\n"
    assert done.hooks()[module] == "changed"
