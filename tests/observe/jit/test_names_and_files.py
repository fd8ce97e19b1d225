"""Kernels by their names in every source, and cache folders before and after."""

from __future__ import annotations

import pytest

from harness.observe.jit.files import changes
from harness.observe.jit.names import is_kernel


@pytest.mark.parametrize(
    ("seen", "named"),
    [
        ("_topk_kernel", "_topk_kernel"),
        ("ComputePrefillMetadataKernel.kernel", "ComputePrefillMetadataKernel"),
        ("sparkinfer.attention._shared.mla.prefill_mg.UnifiedPrefillMGKernel", "UnifiedPrefillMGKernel"),
        ("prefill_mg.UnifiedPrefillMGKernel.kernel", "UnifiedPrefillMGKernel.kernel"),
        ("ns::Kernel", "Kernel"),
        ("make.<locals>._topk_kernel", "_topk_kernel"),
    ],
)
def test_it_is_the_same_function(seen: str, named: str) -> None:
    assert is_kernel(seen, named)


@pytest.mark.parametrize(
    ("seen", "named"),
    [
        ("_topk_kernel_2", "_topk_kernel"),
        ("_topk", "_topk_kernel"),
        ("a_topk_kernel", "_topk_kernel"),
        ("Kernel", "mla.Kernel"),
        ("a.b.c", "a.c"),
        ("", "k"),
    ],
)
def test_it_is_another_one(seen: str, named: str) -> None:
    assert not is_kernel(seen, named)


BEFORE = {"triton/h/k.cubin": (10, 1), "xdg/old": (1, None)}


def test_new_and_rewritten_files_are_told_apart() -> None:
    after = {**BEFORE, "triton/h/k.cubin": (10, 2), "inductor/x": (5, 3)}
    assert [(c.path, c.new, c.changed_ns) for c in changes(BEFORE, after)] == [
        ("inductor/x", True, 3),
        ("triton/h/k.cubin", False, 2),
    ]


def test_a_file_without_a_time_is_told_by_its_size() -> None:
    assert not list(changes(BEFORE, {**BEFORE, "xdg/old": (1, 99)}))
    [change] = changes(BEFORE, {**BEFORE, "xdg/old": (2, None)})
    assert not change.new


@pytest.mark.parametrize(
    ("path", "kernel"),
    [
        ("triton/HASH/_topk_kernel.cubin", "_topk_kernel"),
        ("triton/HASH/__grp___topk_kernel.json", "_topk_kernel"),
        *(
            (f"triton/HASH/_topk_kernel.{stage}", "_topk_kernel")
            for stage in ("source", "ttir", "ttgir", "llir", "ptx", "amdgcn", "json")
        ),
        ("triton/HASH/__triton_launcher.cpython-312-x86_64-linux-gnu.so", None),
        ("inductor/ab/cab.py", None),
    ],
)
def test_a_file_of_tritons_cache_names_its_kernel(path: str, kernel: str | None) -> None:
    [change] = changes({}, {path: (1, 1)})
    assert change.kernel == kernel
