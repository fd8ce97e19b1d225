"""The hooks on the real CuTe DSL, which compiles without a GPU.

`make test` installs its versions into .venv-cutlass; the folders that QUALIFY_TEST_CUTLASS names are taken too (each
with nvidia-cutlass-dsl, its parts and cuda-bindings).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness.observe.jit.trace import LIBRARIES

from .libraries import Traced, run

INSTALLED = [stamp.parent for stamp in Path(__file__).parents[2].glob(".venv-cutlass/*/.complete")]
NAMED = [Path(p) for p in os.environ.get("QUALIFY_TEST_CUTLASS", "").split(os.pathsep) if p]
FOLDERS = sorted({f for f in (*INSTALLED, *NAMED) if any(f.glob("nvidia_cutlass_dsl/*/cutlass"))})
CUTE = [name for name, library in LIBRARIES.items() if library == "CuTeDSL"]

KERNELS = """
import cutlass
import cutlass.cute as cute
class PrefillKernel:
    '''As a library writes one: what it is specialised for stands in the object.'''
    def __init__(self, block_threads):
        self.block_threads = block_threads
    @cute.jit
    def __call__(self, number: cutlass.Int32, TILE: cutlass.Constexpr):
        cute.printf("%d", number)
    @cute.jit
    def reduce(self, number: cutlass.Int32):
        cute.printf("%d", number)
@cute.jit
def hello_all(number: cutlass.Int32, TILE: cutlass.Constexpr):
    cute.printf("%d", number)
@cute.jit
def broken(number: cutlass.Int32):
    raise ValueError("cannot be traced")
def make():
    class InnerKernel:
        @cute.jit
        def __call__(self, number: cutlass.Int32):
            cute.printf("%d", number)
    return InnerKernel()
"""
START = """
import cutlass, os
import cutlass.cute as cute
from cutlass.base_dsl.compiler import CompileCallable, OptLevel
from pkg.attention.mla import PrefillKernel, broken, hello_all, make
number = cutlass.Int32(3)
"""
ARMED = """
import functools
def arm(inner):
    @functools.wraps(inner)
    def monitored(*args, **kwargs):
        print("monitor", getattr(args[0], "__name__", type(args[0]).__name__))
        return inner(*args, **kwargs)
    return monitored
cute.compile = arm(cute.compile)
"""
LIBRARY = """
from cutlass.base_dsl.export.external_binary_module import ExternalBinaryModule
def compiled_or_loaded(kernel, *args, key):
    '''What a library with a cache of objects does.'''
    path = os.path.join(key[:2], key + ".o")
    if os.path.exists(path):
        return getattr(ExternalBinaryModule(path), "k" + key)
    options = (OptLevel(2),)
    asked = cute.compile[options] if hasattr(cute.compile, "__getitem__") else CompileCallable(options)
    compiled = asked(kernel, *args)
    os.makedirs(key[:2], exist_ok=True)
    with open(path, "wb") as file:
        file.write(compiled.dump_to_object("k" + key))
    return compiled
"""

pytestmark = pytest.mark.skipif(not FOLDERS, reason="no CuTe DSL in .venv-cutlass: `make test` installs it")


@pytest.fixture(params=FOLDERS, ids=lambda p: p.name)
def cutlass(request: pytest.FixtureRequest) -> Path:
    """A folder with one version of the library."""
    assert isinstance(request.param, Path)
    return request.param


def traced(tmp_path: Path, cutlass: Path, program: str, launch: str = "one") -> Traced:
    """Run a program on the library; launches of one test share its caches and the current folder."""
    module = tmp_path / "pkg" / "attention" / "mla.py"  # the DSL reads the source of what it compiles
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(KERNELS, "utf-8")
    (tmp_path / launch).mkdir()
    packages = sorted(p.parent for p in cutlass.glob("nvidia_cutlass_dsl/*/cutlass"))
    behind = os.pathsep.join(map(str, [tmp_path, *packages, cutlass]))
    home, cache = str(tmp_path), str(tmp_path / "cache")
    here = f"import os\nos.chdir({str(tmp_path)!r})\n"
    program = here + START + program
    done = run(tmp_path / launch, program, behind=behind, HOME=home, CUTE_DSL_ARCH="sm_90a", CUTE_DSL_CACHE_DIR=cache)
    assert (done.code, done.of("fault")) == (0, []), done.err
    assert {done.hooks()[name] for name in CUTE} == {"hooked"}
    return done


def short(told: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Kernel, constants and origin of each event."""
    return [(t["kernel"], t["constexprs"], t["origin"]) for t in told]


PREFILL = {"block_threads": 384, "TILE": 64}


def test_a_function_and_an_object_are_told_as_the_monitor_names_them(tmp_path: Path, cutlass: Path) -> None:
    program = "cute.compile(hello_all, number, 128)\ncute.compile(PrefillKernel(384), number, TILE=64)\n"
    program += "cute.compile(PrefillKernel(384).reduce, number)\n"
    told = traced(tmp_path, cutlass, program).of("kernel")
    assert short(told) == [
        ("hello_all", {"TILE": 128}, "compiled"),
        ("PrefillKernel", PREFILL, "compiled"),
        ("reduce", {}, "compiled"),
    ]
    assert {t["event"] for t in told} == {"compile"}
    assert [t["signature"] for t in told] == [{"number": "Int32"}] * 3
    assert {t["module"] for t in told} == {"pkg.attention.mla"}


def test_compile_stays_what_it_is_for_others(tmp_path: Path, cutlass: Path) -> None:
    program = """
from cutlass.cute import compile
print(type(compile) is CompileCallable, compile is cute.compile, type(compile[OptLevel(2)]) is CompileCallable)
print(type(compile._compile_options).__name__, CompileCallable.__call__.__name__)
"""
    done = traced(tmp_path, cutlass, program)
    assert done.out == "True True True\nCompileOptions __call__\n"


def test_a_compilation_with_options_is_told_once_also_past_the_armed_monitor(tmp_path: Path, cutlass: Path) -> None:
    compile_ = "compiled_or_loaded(PrefillKernel(384), number, 64, key=key)\n"
    program = LIBRARY + f"key = 'aa11'\n{compile_}{ARMED}key = 'bb22'\n{compile_}cute.compile(hello_all, number, 1)\n"
    done = traced(tmp_path, cutlass, program)
    assert done.out == "monitor hello_all\n", "what has options goes past the monitor"
    first, second, plain = short(done.of("kernel"))
    assert first == second == ("PrefillKernel", PREFILL, "compiled")
    assert plain == ("hello_all", {"TILE": 1}, "compiled")


def test_a_call_compiles_once_and_another_process_reads_the_dsl_s_own_file(tmp_path: Path, cutlass: Path) -> None:
    call = "PrefillKernel(384)(number, 64)\nPrefillKernel(384).reduce(number)\nhello_all(number, TILE=128)\n"
    cold = traced(tmp_path, cutlass, call * 2, "cold").of("kernel")
    assert short(cold) == [
        ("PrefillKernel", PREFILL, "compiled"),
        ("reduce", {}, "compiled"),
        ("hello_all", {"TILE": 128}, "compiled"),
    ]
    assert [t["signature"] for t in cold] == [{"number": "Int32"}] * 3
    warm = traced(tmp_path, cutlass, call * 2, "warm").of("kernel")
    assert short(warm) == [(kernel, constants, "disk") for kernel, constants, _ in short(cold)]
    assert [t["module"] for t in warm] == [t["module"] for t in cold]


def test_a_function_within_a_function_is_part_of_it(tmp_path: Path, cutlass: Path) -> None:
    (tmp_path / "outer.py").write_text(
        "import cutlass\nimport cutlass.cute as cute\nfrom pkg.attention.mla import hello_all\n"
        "@cute.jit\ndef outer(number: cutlass.Int32):\n    hello_all(number, 2)\n",
        "utf-8",
    )
    done = traced(tmp_path, cutlass, "from outer import outer\nouter(number)\ncute.compile(outer, number)\n")
    assert [t["kernel"] for t in done.of("kernel")] == ["outer", "outer"]


def test_an_object_that_is_loaded_has_the_name_of_its_compilation(tmp_path: Path, cutlass: Path) -> None:
    program = LIBRARY + (
        "compiled_or_loaded(PrefillKernel(384), number, 64, key='aa11')\n"
        "compiled_or_loaded(PrefillKernel(384).reduce, number, key='bb22')\n"
        "compiled_or_loaded(hello_all, number, 128, key='cc33')\n"
        "compiled_or_loaded(make(), number, key='dd44')\n"
    )
    cold = traced(tmp_path, cutlass, program, "cold").of("kernel")
    warm = traced(tmp_path, cutlass, program, "warm").of("kernel")
    named = ["PrefillKernel", "reduce", "hello_all", "InnerKernel"]
    assert [(t["kernel"], t["origin"]) for t in cold] == [(name, "compiled") for name in named]
    assert [(t["kernel"], t["origin"]) for t in warm] == [(name, "disk") for name in named]
    assert [t["symbol"] for t in warm] == [t["symbol"] for t in cold]
    assert [t["signature"] for t in warm] == [t["signature"] for t in cold]
    assert [t["module"] for t in warm] == ["pkg.attention.mla"] * 3 + [""], "a local class is in no module's names"
    assert {t["event"] for t in warm} == {"compile"}


def test_a_loaded_function_is_told_once_and_without_the_time_until_it_is_looked_up(
    tmp_path: Path, cutlass: Path
) -> None:
    traced(tmp_path, cutlass, LIBRARY + "compiled_or_loaded(hello_all, number, 128, key='cc33')\n", "cold")
    program = """
import time
from cutlass.cute.runtime import load_module
module = load_module("cc/cc33.o")
time.sleep(0.5)
print(module.kcc33 is None, module["kcc33"] is None, hasattr(module, "engine"))
"""
    warm = traced(tmp_path, cutlass, program, "warm")
    assert warm.out == "False False True\n"
    [told] = warm.of("kernel")
    assert (told["kernel"], told["prefix"], told["origin"]) == ("hello_all", "kcc33", "disk")
    assert told["end_ns"] - told["begin_ns"] < 0.4e9


def test_errors_reach_the_library_and_are_told(tmp_path: Path, cutlass: Path) -> None:
    program = (
        LIBRARY
        + """
def error(function, *args):
    try:
        function(*args)
    except Exception as e:
        print(type(e).__name__)
error(cute.compile, broken, number)
error(cute.compile, 3)
error(ExternalBinaryModule, "gone/dd44.o")
"""
    )
    done = traced(tmp_path, cutlass, program)
    told = done.of("kernel")
    assert [t["error"] for t in told] == done.out.split()
    assert [t["kernel"] for t in told] == ["broken", "int", "dd44"]
