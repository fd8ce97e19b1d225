"""Outputs that no working engine gives, in one arm or in both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.judge.garbage import REPEATED_TOKENS, garbage
from harness.records import OutputRecord, RequestRecord
from harness.words import ExitCode, Step, Word

from .asked import asked
from .bundles import COURSE, Session

SENSE = "outputs make sense"


def request(**changes: Any) -> RequestRecord:
    return asked(tokens=40, **changes)


def output(ids: list[int], **changes: Any) -> OutputRecord:
    text = " ".join(map(str, ids))
    record = OutputRecord(request="0001", token_ids=tuple(ids), text=text, finish_reason="length", sha256="b" * 64)
    return record.model_copy(update=changes)


def test_an_ordinary_output_makes_sense() -> None:
    logprobs = ({"a": -0.1, "b": -3.0},) * 40
    assert garbage(request(), output(list(range(40)), top_logprobs=logprobs)) is None


def test_an_empty_output_is_garbage() -> None:
    assert garbage(request(), output([])) == "an empty output"


def test_a_long_run_of_one_token_is_garbage_and_a_shorter_one_is_not() -> None:
    run = [7] * REPEATED_TOKENS
    assert garbage(request(), output([1, 2, *run, 3])) == "token 7 32 times in a row, from token 2 on"
    assert garbage(request(), output([1, *run[1:], 3])) is None
    assert garbage(request(), output([7, 8] * REPEATED_TOKENS)) is None


def test_a_logprob_that_is_no_number_is_garbage() -> None:
    logprobs = ({"a": -0.1}, {"a": -0.1, "b": None})
    fault = garbage(request(), output([1, 2], top_logprobs=logprobs))
    assert fault == "a logprob that is no number, at token 1"


def test_an_end_before_the_asked_length_is_garbage() -> None:
    fault = garbage(request(finish_reason="stop"), output([1, 2]))
    assert fault == "an early stop (stop) after 2 of 40 tokens"


@pytest.mark.parametrize("changes", [{"status": 500}, {"error": "the stream ended without [DONE]"}])
def test_a_request_that_failed_is_told_elsewhere(changes: dict[str, Any]) -> None:
    assert garbage(request(**changes), output([])) is None


def test_an_output_that_we_lost_is_not_the_servers() -> None:
    assert garbage(request(), None) is None


def test_garbage_of_the_candidate_alone_fails(tmp_path: Path) -> None:
    judged = Session(tmp_path, forged=False).candidate(empty=("decode/48/0",)).judge()
    row = judged.row(SENSE)
    assert (row.word, row.control, row.candidate) == (Word.FAIL, "12 of 12", "11 of 12")
    assert "decode/48/0 request " in row.reason
    assert row.reason.endswith(": an empty output")


def test_arms_that_are_equally_empty_show_nothing(tmp_path: Path) -> None:
    judged = Session(tmp_path, forged=False).both(empty=("decode/48/0",)).judge()
    assert judged.row(SENSE).word is Word.VOID
    assert judged.verdict.exit_code == ExitCode.VOID


def test_without_outputs_there_is_nothing_to_say(tmp_path: Path) -> None:
    judged = Session(tmp_path).both(course=tuple(s for s in COURSE if s is Step.PREFILL)).judge()
    assert judged.row(SENSE).word is Word.NOT_TESTED
