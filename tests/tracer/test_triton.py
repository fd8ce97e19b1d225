"""The hooks of Triton, on packages of its shapes: what is told, by whom, and what the engine still gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from .libraries import OLD_TRITON, TRITON, run

KERNEL = """
from triton.runtime.jit import JITFunction
def _map_kernel(): pass
kernel = JITFunction(_map_kernel, ["ids", "n", "DCP_SIZE", "DCP_INTERLEAVE"])
"""
ONE = "kernel.run(ids=7, n=7, DCP_SIZE=1, DCP_INTERLEAVE=1)\n"
FOUR = "kernel.run(ids=7, n=7, DCP_SIZE=4, DCP_INTERLEAVE=64)\n"
BOTH = [
    ("_map_kernel", {"DCP_SIZE": 1, "DCP_INTERLEAVE": 1}),
    ("_map_kernel", {"DCP_SIZE": 4, "DCP_INTERLEAVE": 64}),
]


@pytest.mark.parametrize("triton", [TRITON, OLD_TRITON], ids=["new", "old"])
def test_each_specialisation_is_told_once_although_two_hooks_see_it(tmp_path: Path, triton: dict[str, str]) -> None:
    done = run(tmp_path, KERNEL + ONE + FOUR + FOUR, triton)
    assert (done.code, done.err) == (0, "")
    assert done.compiled() == BOTH
    [first, _] = done.of("kernel", event="compile")
    assert (first["origin"], first["via"], first["signature"]) == ("compiled", "compile", {"ids": "*i32", "n": "*i32"})
    assert first["begin_ns"] <= first["end_ns"]
    assert (first["rank"], first["free_before_bytes"]) == (None, None), "nothing was there to ask"


@pytest.mark.parametrize("triton", [TRITON, OLD_TRITON], ids=["new", "old"])
def test_the_jits_own_hook_tells_what_the_compilers_does_not_see(tmp_path: Path, triton: dict[str, str]) -> None:
    # An engine that has put another compiler into place.
    other = "import triton.compiler as c\nc.compile = lambda src, **_: c.CompiledKernel(src)\n"
    done = run(tmp_path, "import triton\n" + other + KERNEL + ONE + FOUR, triton)
    assert done.compiled() == BOTH
    assert {r["via"] for r in done.of("kernel", event="compile")} == {"hook"}
    assert {r["origin"] for r in done.of("kernel", event="compile")} == {None}, "not known is not compiled"


def test_the_compilers_hook_tells_what_the_jits_does_not_see(tmp_path: Path) -> None:
    # As Inductor does it.
    program = "import triton\nfrom triton.compiler import ASTSource\ntriton.compile(ASTSource(kernel, {}, {(2,): 8}))\n"
    done = run(tmp_path, KERNEL + program, TRITON)
    assert done.compiled() == [("_map_kernel", {"DCP_SIZE": 8})]


def test_a_kernel_from_disk_is_told_apart(tmp_path: Path) -> None:
    done = run(tmp_path, KERNEL + ONE, TRITON, FAKE_CACHE=str(tmp_path))
    [told] = done.of("kernel", event="compile")
    assert told["origin"] == "disk"


def test_loading_onto_the_device_is_an_event_of_its_own(tmp_path: Path) -> None:
    done = run(tmp_path, KERNEL + ONE + "kernel.run(ids=7, n=7, DCP_SIZE=1, DCP_INTERLEAVE=1)._init_handles()", TRITON)
    [told] = done.of("kernel", event="load")
    assert told["kernel"] == "_map_kernel"


def test_an_argument_of_one_is_part_of_the_code_and_no_constexpr(tmp_path: Path) -> None:
    done = run(tmp_path, KERNEL + "kernel.run(ids=7, n=1, DCP_SIZE=4, DCP_INTERLEAVE=64)", TRITON)
    [told] = done.of("kernel", event="compile")
    assert (told["constexprs"], told["folded"]) == ({"DCP_SIZE": 4, "DCP_INTERLEAVE": 64}, {"n": 1})


def test_an_error_of_the_compiler_reaches_the_engine_and_is_told(tmp_path: Path) -> None:
    program = KERNEL.replace("_map_kernel", "broken") + f"try:\n    {ONE}except ValueError as e:\n    print(e)\n"
    done = run(tmp_path, program, TRITON)
    assert done.out == "cannot compile\n"
    [told] = done.of("kernel")
    assert (told["kernel"], told["error"]) == ("broken", "ValueError")


def test_a_constant_that_is_no_json_breaks_no_engine(tmp_path: Path) -> None:
    # With any hook set, Triton serialises the constants; without ours it would not have to.
    done = run(tmp_path, KERNEL + "kernel.run(ids=7, n=7, DCP_SIZE=object(), DCP_INTERLEAVE=float('nan'))", TRITON)
    assert (done.code, done.err) == (0, "")
    [(_, constants)] = done.compiled()
    assert constants["DCP_SIZE"].startswith("<object object at")
    assert constants["DCP_INTERLEAVE"] == "nan"


def test_a_hook_that_comes_after_ours_and_chains_is_heard_too(tmp_path: Path) -> None:
    # As vLLM's monitor chains.
    monitor = """
from triton import knobs
ours = knobs.runtime.jit_post_compile_hook
def monitor(**kwargs):
    print("late", kwargs["fn"].name)
    return ours(**kwargs)
knobs.runtime.jit_post_compile_hook = monitor
"""
    done = run(tmp_path, "import triton\n" + monitor + KERNEL + ONE, TRITON)
    assert done.out == "late _map_kernel\n"
    assert done.compiled() == BOTH[:1]


def test_a_hook_that_replaces_ours_hides_nothing(tmp_path: Path) -> None:
    replaced = "from triton import knobs\nknobs.runtime.jit_post_compile_hook = lambda **_: None\n"
    done = run(tmp_path, "import triton\n" + replaced + KERNEL + ONE, TRITON)
    assert done.compiled() == BOTH[:1]


def test_a_monitor_that_raises_still_does(tmp_path: Path) -> None:
    # `--jit-monitor-mode error` ends the engine on purpose.
    raising = "from triton import knobs\ndef monitor(**_):\n    raise RuntimeError('late')\n"
    set_ = "knobs.runtime.jit_post_compile_hook = monitor\n"
    done = run(tmp_path, "import triton\n" + raising + set_ + KERNEL + ONE, TRITON)
    assert done.code == 1
    assert "RuntimeError: late" in done.err


def test_candidates_of_a_tuning_are_marked_and_the_tuning_is_told(tmp_path: Path) -> None:
    program = """
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction
def _tuned(): pass
fn = JITFunction(_tuned, ["ids", "BLOCK"])
tuner = Autotuner(fn, [{"BLOCK": 64}, {"BLOCK": 128}])
tuner.run(key=1, ids=7)
tuner.run(key=1, ids=7)
"""
    done = run(tmp_path, program, TRITON)
    assert [(r["constexprs"]["BLOCK"], r["autotune"]) for r in done.of("kernel", event="compile")] == [
        (64, True),
        (128, True),
    ]
    [tuning] = done.of("kernel", event="autotune")
    assert (tuning["kernel"], tuning["best_config"]) == ("_tuned", "{'BLOCK': 64}")


@pytest.mark.parametrize(
    ("gone", "hook", "told"),
    [
        ("def compile(", "triton.compiler.compiler", "triton.compiler.compiler has no compile"),
        ("class JITFunction", "triton.runtime.jit", "neither knobs.runtime.jit_post_compile_hook nor"),
        ("class Autotuner", "triton.runtime.autotuner", "has no Autotuner"),
    ],
)
def test_a_version_of_another_shape_is_told_and_works(tmp_path: Path, gone: str, hook: str, told: str) -> None:
    renamed = f"{gone.split(maxsplit=1)[0]} Renamed{'(' if gone.endswith('(') else ''}"
    changed = {k: v.replace(gone, renamed) for k, v in OLD_TRITON.items()}
    changed["triton/__init__.py"] = "__version__ = '4.0.0'\n"
    changed["triton/compiler/__init__.py"] = ""
    done = run(tmp_path, f"import triton, {hook}\nprint('works')\n", changed)
    assert (done.out, done.err) == ("works\n", "")
    [state] = done.of("hook", hook=hook, status="changed")
    assert told in state["detail"]
    assert "triton 4.0.0" in state["detail"]


def test_a_reload_hooks_nothing_twice(tmp_path: Path) -> None:
    program = "import importlib, triton.runtime.jit, triton.compiler.compiler\n"
    again = "importlib.reload(triton.runtime.jit)\nimportlib.reload(triton.compiler.compiler)\n"
    done = run(tmp_path, program + again + again + KERNEL + ONE, TRITON)
    assert done.compiled() == BOTH[:1]
