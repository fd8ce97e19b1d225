"""What the engines chose: equal, different, or on runners that are not comparable."""

from __future__ import annotations

from pathlib import Path

from harness.judge.case import read_case
from harness.judge.cell_identity import difference_text, different, identity
from harness.words import ExitCode, Word

from .bundles import Session

NAME = "resolved by the engine"
V2 = "Using V2 Model Runner"
V1 = "Model Runner V2 requires Triton; using the V1 model runner instead."
FLASH = "Using FLASH_ATTN attention backend out of potential backends: x"
TRITON = "Using TRITON_ATTN attention backend out of potential backends: x"


def said(session: Session, control: tuple[str, ...], candidate: tuple[str, ...]) -> Session:
    return session.control(said_at_start=control).candidate(said_at_start=candidate)


def test_equal_choices_pass_and_are_named(tmp_path: Path) -> None:
    row = said(Session(tmp_path), (V2, FLASH), (V2, FLASH)).judge().row(NAME)
    assert (row.word, row.control, row.candidate) == (Word.PASS, "runner V2, attention FLASH_ATTN", row.control)
    assert all(":" in source for source in row.sources)


def test_another_backend_is_noted(tmp_path: Path) -> None:
    judged = said(Session(tmp_path), (V2, FLASH), (V2, TRITON)).judge()
    row = judged.row(NAME)
    assert (row.word, row.control, row.candidate) == (Word.NOTE, "attention FLASH_ATTN", "attention TRITON_ATTN")
    assert row.reason == "the arms differ in attention: figures compare that too"
    assert judged.verdict.exit_code == ExitCode.PASS


def test_a_choice_that_one_arm_alone_names_is_noted(tmp_path: Path) -> None:
    row = said(Session(tmp_path), (V2, FLASH), (V2,)).judge().row(NAME)
    assert (row.word, row.control, row.candidate) == (Word.NOTE, "attention FLASH_ATTN", None)


def test_different_runners_void_the_comparison(tmp_path: Path) -> None:
    judged = said(Session(tmp_path), (V1,), (V2,)).judge()
    row = judged.row(NAME)
    assert (row.word, row.control, row.candidate) == (Word.VOID, "runner V1", "runner V2")
    assert judged.verdict.exit_code == ExitCode.VOID


def test_an_arm_that_names_nothing_is_not_compared(tmp_path: Path) -> None:
    row = said(Session(tmp_path), (V2,), ()).judge().row(NAME)
    assert (row.word, row.reason) == (Word.NOT_TESTED, "an arm's log names no choice of the engine")


def test_what_an_engine_chose_is_part_of_the_identity_of_its_figures(tmp_path: Path) -> None:
    cases = [
        read_case(said(Session(tmp_path / name), control, (V2, FLASH)).build())
        for name, control in (("one", (V2, FLASH)), ("same", (V2, FLASH)), ("other", (V2, TRITON)))
    ]
    one, same, other = (identity(case, case.cells[0], 48) for case in cases)
    assert different(one, same) == []
    assert different(one, other) == ["resolved by the control's engine"]
    assert "attention" in difference_text(one, other, "resolved by the control's engine")
