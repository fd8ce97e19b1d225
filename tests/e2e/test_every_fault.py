"""The table of faults, checked mechanically: each one is driven end to end, or says here why it is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.fakes.faults import KINDS

TESTS = Path(__file__).resolve().parents[1]
END_TO_END = ("e2e", "launch")
DRIVEN_ELSEWHERE = {
    "clip-output": "a course that would ask for it is refused when its profile is read (tests/config/test_load.py)",
    "nan-logprobs": "what comes of it is in the record of the request (tests/client)",
    "null-logprobs": "likewise",
    "secret-in-log": "raw logs stay as they are; reports redact (tests/fakes, tests/report)",
}


def mentions(fault: str, folders: tuple[str, ...]) -> bool:
    """Whether a test of these folders names the fault as one, alone or in a list."""
    word = re.compile(rf"[\"'=,]{re.escape(fault)}[\"'=,@]")
    files = (f for folder in folders for f in (TESTS / folder).glob("*.py") if f.name != Path(__file__).name)
    return any(word.search(f.read_text("utf-8")) for f in files)


@pytest.mark.parametrize("fault", [f for f in KINDS if f not in DRIVEN_ELSEWHERE])
def test_a_fault_is_driven_end_to_end(fault: str) -> None:
    assert mentions(fault, END_TO_END), f"no test below tests/e2e or tests/launch sets {fault}"


@pytest.mark.parametrize("fault", DRIVEN_ELSEWHERE)
def test_a_fault_that_is_not_is_driven_at_all(fault: str) -> None:
    assert fault in KINDS
    assert mentions(fault, ("fakes", "client"))
