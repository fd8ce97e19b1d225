"""A night in twenty lines at most, and hooks whose failure changes nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness.errors import SetupFailure
from harness.nightly import hook
from harness.nightly.hook import JSON_VARIABLE, hand_over
from harness.nightly.summary import MOST_LINES, WIDTH, Moved, Summary, failed, summarise, text_of
from harness.records.history import Night
from harness.words import Word
from tests.history.bench import session


def made(*moved: Moved, note: str = "3 series of nights, 0 with a lasting change") -> Summary:
    return Summary(
        night="2026-11-30",
        profile="cpu-forged",
        against="today against anchor 1: r31 of s1",
        verdict=Word.FAIL,
        exit_code=1,
        session="s9",
        moved=moved,
        note=note,
        report="/results/s9/report/report.html",
    )


def row(number: int) -> Moved:
    return Moved(what=f"prefill {number}", word=Word.FAIL, since="2026-11-28", reason="regressed: -3.0 %")


def test_it_says_verdict_what_moved_since_when_and_where_the_report_is(tmp_path: Path) -> None:
    night = Night(date="2026-11-30", anchor=None, anchor_session=None)
    bundle = session(tmp_path, "s9", (0.8, 0.81, 0.79, 0.8), night=night, judged=True)
    found = summarise(bundle, bundle.verdict(), "today against the anchor")
    lines = text_of(found).splitlines()
    assert lines[0] == "cpu-forged, night of 2026-11-30: fail (exit code 1)"
    assert lines[1] == "today against the anchor"
    assert any(line.startswith("fail: decode steps [mtp1 engine warm 96]: regressed: -20.") for line in lines)
    assert lines[-1] == f"report: {bundle.root}/report/report.html"
    assert len(lines) <= MOST_LINES
    assert found.exit_code == 1


def test_a_change_over_nights_carries_its_first_night_and_a_row_of_tonight_has_none() -> None:
    from harness.nightly.summary import _moved
    from harness.records import Row

    reason = "regressed: -2.0 % since 2026-11-08, 2 nights"
    assert _moved(Row(name="nights, decode steps", word=Word.FAIL, reason=reason)).since == "2026-11-08"
    assert _moved(Row(name="decode steps", word=Word.FAIL, reason=reason)).since is None


@pytest.mark.parametrize("number", [0, 1, 15, 16, 200])
def test_it_never_has_more_than_twenty_lines(number: int) -> None:
    text = text_of(made(*(row(n) for n in range(number))))
    assert len(text.splitlines()) <= MOST_LINES
    assert ("rows more" in text) == (number > 15)
    assert ("nothing moved" in text) == (number == 0)


def test_no_line_is_endless_or_holds_control_codes() -> None:
    nasty = made(Moved(what="x", word=Word.FAIL, since=None, reason="a\x1b[31m\n" + "b" * 4000))
    assert all(len(line) <= WIDTH and line.isprintable() for line in text_of(nasty).splitlines())


def test_a_night_that_did_not_begin_is_told_of_too() -> None:
    found = failed("2026-11-30", None, SetupFailure("no GPU here"))
    assert text_of(found).splitlines()[0] == (
        "the profile of this host, night of 2026-11-30: setup failure (exit code 3)"
    )
    assert "no GPU here" in text_of(found)


def test_files_get_text_or_json_by_their_name(tmp_path: Path) -> None:
    files = [str(tmp_path / "s.txt"), str(tmp_path / "s.json")]
    assert list(hand_over(made(row(1)), files, [])) == []
    assert (tmp_path / "s.txt").read_text("utf-8") == text_of(made(row(1)))
    assert json.loads((tmp_path / "s.json").read_bytes())["moved"][0]["since"] == "2026-11-28"


def test_a_hook_gets_the_text_on_its_stdin_and_the_json_in_its_environment(tmp_path: Path) -> None:
    program = tmp_path / "hook.py"
    program.write_text(
        f"import os, sys, pathlib\npathlib.Path({str(tmp_path / 'got')!r}).write_text("
        f"sys.stdin.read() + '|' + os.environ[{JSON_VARIABLE!r}])\n",
        "utf-8",
    )
    assert list(hand_over(made(), [], [f"{sys.executable} {program}"])) == []
    text, _, tree = (tmp_path / "got").read_text("utf-8").partition("|")
    assert text == text_of(made())
    assert json.loads(tree)["verdict"] == "fail"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("/no/such/hook", "cannot be run: "),
        ("", "cannot be run: "),
        ("sh 'unclosed", "cannot be run: "),
        (f"{sys.executable} -c 'import sys; sys.exit(\"no mail today\")'", "exit code 1: no mail today"),
    ],
    ids=["missing", "empty", "unclosed", "fails"],
)
def test_a_hook_that_fails_is_told_of(command: str, told: str) -> None:
    [line] = hand_over(made(), [], [command])
    assert line.startswith(f"hook `{command}`: {told}")
    assert line.endswith("; the verdict stands")


def test_a_hook_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "HOOK_S", 0.2)
    [line] = hand_over(made(), [], [f"{sys.executable} -c 'import time; time.sleep(60)'"])
    assert "took longer than 0 s and was ended" in line


def test_a_file_that_cannot_be_written_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    [line] = hand_over(made(), [str(tmp_path / "file" / "s.txt")], [])
    assert "not written" in line
