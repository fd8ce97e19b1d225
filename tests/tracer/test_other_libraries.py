"""The hooks of the CuTe DSL and of TileLang."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.observe.jit.trace import LIBRARIES as HOOKED

from .libraries import CUTLASS, OLD_CUTLASS, TILELANG, run

KERNEL = """
class UnifiedPrefillMGKernel:
    def __init__(self):
        self.block_threads, self.has_sink, self.layout = 384, False, object()
    def __call__(self, q, out): pass
kernel = UnifiedPrefillMGKernel()
"""


@pytest.mark.parametrize(
    ("cutlass", "origin"), [(CUTLASS, "compiled"), (OLD_CUTLASS, None)], ids=["class", "function, which does not say"]
)
@pytest.mark.parametrize(
    "program",
    [
        "import cutlass.cute as cute\nprint(cute.compile(kernel, 1, 2)[0])",
        "from cutlass.cute import compile\nprint(compile(kernel, 1, 2)[0])",
        "import cutlass\nimport cutlass.cute\nprint(cutlass.cute.compile(kernel, 1, 2)[0])",
    ],
    ids=["attribute", "by name", "package"],
)
def test_a_compilation_is_told_however_it_was_imported(
    tmp_path: Path, cutlass: dict[str, str], origin: str | None, program: str
) -> None:
    done = run(tmp_path, KERNEL + program, cutlass)
    assert (done.out, done.err) == ("compiled\n", "")
    [told] = done.of("kernel")
    assert (told["backend"], told["kernel"]) == ("CuTeDSL", "UnifiedPrefillMGKernel")
    assert told["constexprs"] == {"block_threads": 384, "has_sink": False}
    assert told["signature"] == {"q": "int", "out": "int"}
    assert told["origin"] == origin


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


def test_an_object_with_slots_tells_what_it_holds(tmp_path: Path) -> None:
    program = """
import cutlass.cute as cute
class Kernel:
    __slots__ = ("block", "unset")
    def __init__(self): self.block = 384
    def __call__(self): pass
cute.compile(Kernel())
"""
    assert run(tmp_path, program, CUTLASS).compiled() == [("Kernel", {"block": 384})]


def test_of_an_early_version_a_call_s_compilation_is_named_by_its_symbol(tmp_path: Path) -> None:
    program = """
from cutlass.cute import BaseDSL
class Kernel:
    def __call__(self): pass
dsl = BaseDSL()
for _ in range(2):
    dsl.compile_and_cache("ir", "hash", "cutlass___call_____main__Kernel_object_at___64", None, None, False, False)
dsl.compile_and_cache("ir", "other", "cutlass_hello_64", None, None, False, False)
"""
    told = run(tmp_path, program, CUTLASS).of("kernel")
    assert [(t["kernel"], t["module"], t["origin"]) for t in told] == [
        ("Kernel", "__main__", "compiled"),
        ("Kernel", "__main__", "disk"),
        ("hello_64", "", "compiled"),
    ]


def test_a_loaded_object_that_tells_no_name_has_that_of_its_prefix(tmp_path: Path) -> None:
    (tmp_path / "k.o").write_text("k7", "utf-8")
    program = f"""
from cutlass.cute import ExternalBinaryModule
print(ExternalBinaryModule({str(tmp_path / "k.o")!r}).k7())
"""
    done = run(tmp_path, program, CUTLASS)
    assert done.out == "k7\n"
    [told] = done.of("kernel")
    assert (told["kernel"], told["origin"], told["symbol"]) == ("k7", "disk", None)


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
    ("library", "module"),
    [
        *[(CUTLASS, name) for name in HOOKED if name.startswith("cutlass.")],
        (TILELANG, "tilelang.jit.kernel"),
    ],
)
def test_another_shape_is_told(tmp_path: Path, library: dict[str, str], module: str) -> None:
    emptied = dict.fromkeys(library, "")
    done = run(tmp_path, f"import {module}\nprint('works')", emptied)
    assert done.out == "works\n"
    assert done.hooks()[module] == "changed"
