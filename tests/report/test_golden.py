"""Whole comments as they are published, for a reader of the diff.

To renew them after a change that is meant: `QUALIFY_RENEW_GOLDEN=1 pytest tests/report/test_golden.py`, then read
the difference and commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.report.blocks import LIMIT, length
from tests.report.comments import GOLDEN, golden

FOLDER = Path(__file__).parent / "golden"
VERDICTS = {
    "pass": "PASS",
    "fail-late-jit": "FAIL",
    "inconclusive": "INCONCLUSIVE",
    "void": "VOID",
    "setup-failure": "SETUP FAILURE",
}


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_comment_is_as_it_was(name: str, tmp_path: Path) -> None:
    text, file = golden(name, tmp_path), FOLDER / f"{name}.md"
    if os.environ.get("QUALIFY_RENEW_GOLDEN"):
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")
    assert text.startswith(f"### {VERDICTS[name]}: ")
    assert length(text) <= LIMIT
