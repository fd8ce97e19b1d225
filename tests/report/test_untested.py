"""What is not claimed is told once per reason, not once per cell, and what nobody tried is told too."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.judge.case import Case, read_case
from harness.judge.verdict import judge_case
from harness.records import Row
from harness.report.markdown import comment
from harness.report.model import Untested, untested
from harness.report.untried import untried
from harness.words import Word
from tests.judge.bundles import Session, stack

BLIND = "; read every 50 ms, at worst {} ms: what was shorter is not seen"


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        ([f"no gate{BLIND.format(n)}" for n in ("93", "1,082")], "no gate"),
        (["counted once per process, read every 0.25 s; no gate", "counted once per process; no gate"], None),
        (
            [f"exploratory: no clear change: +{n} %, 90 % interval -1.0 % to +9.0 % (better is +)" for n in (1, 2)],
            "exploratory: no clear change",
        ),
        (["-7.6 % (better is +); one pair shows no spread", "one pair shows no spread"], None),
    ],
)
def test_reasons_that_differ_in_figures_alone_are_one(reasons: list[str], told: str | None) -> None:
    """The page of a matrix on an H200 named "free at idle" nine times, each with another 82 to 98 ms."""
    rows = [Row(name="free at idle", word=Word.NOT_TESTED, reason=reason) for reason in reasons]
    assert untested(rows) == [Untested(told or reasons[-1], ("free at idle",), 2)]


def test_reasons_that_differ_otherwise_are_not() -> None:
    rows = [Row(name="x", word=Word.NOT_TESTED, reason=reason) for reason in ("no gate", "no sample")]
    assert [found.reason for found in untested(rows)] == ["no gate", "no sample"]


# --- what was never tried ------------------------------------------------------------------------------

PROGRESS = "[b12x cute.compile] compile-start number=1 target=b12x.mla.UnifiedPrefillMGKernel cache_key=1"
B12X = "[b12x cute.compile] miss reason=cold target=b12x.mla.UnifiedPrefillMGKernel status=cold cache_key=1"


def of(root: Path, overrides: dict[str, object], *, line: str = B12X, **flags: int) -> Case:
    session = Session(root, overrides, candidate=stack("new", None, **flags))
    return read_case(session.candidate(start_lines=(line,)).build())


def test_kernel_libraries_and_ranks_that_nobody_tried_are_not_passed_over(tmp_path: Path) -> None:
    """Silence would read as support."""
    case = of(tmp_path, {"host.gpus": 4}, tensor_parallel_size=4, decode_context_parallel_size=4)
    assert untried(case) == ["B12X", "decode-context parallel 4 on GPUs", "tensor parallel 4 on GPUs"]
    told = "B12X, decode-context parallel 4 on GPUs, tensor parallel 4 on GPUs"
    assert f"- {told}: seen here, and never tried by the makers of this harness" in comment(case, judge_case(case))


def test_a_line_about_its_progress_is_enough(tmp_path: Path) -> None:
    assert untried(of(tmp_path, {}, line=PROGRESS)) == ["B12X"]


def test_a_backends_name_on_the_command_line_is_enough(tmp_path: Path) -> None:
    session = Session(tmp_path, candidate=stack("new", attention_backend="B12X_MLA_SPARSE"))
    assert untried(read_case(session.build())) == ["B12X"]


def test_what_was_tried_on_gpus_is_not_named(tmp_path: Path) -> None:
    """Kernels in the CuTe DSL were: late, prewarmed, and prewarmed for the wrong constant (docs/gpu.md)."""
    line = "WARNING 11-30 20:48:10 [jit_monitor.py:125] CuTeDSL JIT compilation during inference: GatherLongContext."
    assert untried(of(tmp_path, {"host.gpus": 1}, line=line)) == []


def test_two_ranks_were_tried_and_four_on_a_cpu_too(tmp_path: Path) -> None:
    two = of(tmp_path / "gpus", {"host.gpus": 2}, line="", tensor_parallel_size=2, decode_context_parallel_size=2)
    assert untried(two) == []
    assert untried(of(tmp_path / "cpu", {}, line="", tensor_parallel_size=4)) == []
