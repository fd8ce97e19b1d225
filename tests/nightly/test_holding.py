"""Two nights at once: the second is told who is first, and a dead one holds nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import SetupFailure
from harness.nightly.holding import one_night
from harness.paths import state_root
from tests.e2e.sessions import wait_for

HOLD = "from harness.nightly.holding import one_night\nwith one_night():\n    input()\n"


def test_the_second_is_told_the_process_and_since_when() -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        file = state_root() / "nightly.json"
        wait_for(file.is_file, 60)
        since = json.loads(file.read_bytes())["since"]
        with pytest.raises(SetupFailure, match=f"process {holder.pid}, since {since}".replace("+", r"\+")), one_night():
            pass
        holder.kill()
        holder.wait()
        with one_night():
            assert json.loads(file.read_bytes())["pid"] == os.getpid(), "a dead process holds nothing"
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdin is not None
        holder.stdin.close()


def test_where_nothing_can_be_held_it_says_what_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(SetupFailure, match="set XDG_STATE_HOME to a folder that can"), one_night():
        pass


def test_it_is_let_go_of_at_the_end_and_after_a_fault() -> None:
    with pytest.raises(ZeroDivisionError), one_night():
        _ = 1 / 0
    with one_night():
        assert (state_root() / "nightly.json").is_file()
    assert not (state_root() / "nightly.json").exists()
