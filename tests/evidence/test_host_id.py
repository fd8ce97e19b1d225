"""A host's random id: drawn once, kept, and never a reason to fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.evidence.origin import host_facts, host_id
from harness.paths import history_file, state_root, work_root


def test_it_is_drawn_once_and_names_nobody() -> None:
    first = host_id()
    assert first is not None
    assert re.fullmatch(r"[0-9a-f]{32}", first)
    assert host_id() == first == host_facts().id
    assert [p.name for p in state_root().iterdir()] == ["host-id"], "no temporary file stays"


def test_two_first_sessions_at_once_take_the_same_one() -> None:
    program = "from harness.evidence.origin import host_id; print(host_id())"
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {p.communicate()[0] for p in both}
    assert len(said) == 1
    assert said == {f"{host_id()}\n"}


@pytest.mark.parametrize("text", ["", "my-server.example.org", "g" * 32])
def test_what_is_no_id_is_drawn_again(text: str) -> None:
    state_root().mkdir(parents=True)
    (state_root() / "host-id").write_text(text, "ascii")
    found = host_id()
    assert found is not None
    assert found != text


def test_a_state_folder_that_cannot_be_written_gives_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert host_id() is None


def test_a_user_without_a_home_has_a_state_folder_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/somewhere")
    assert state_root() == Path("/somewhere/.local/state/qualify")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert state_root() == work_root() / "state"


def test_it_lies_beside_the_index_wherever_that_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert history_file() == state_root() / "history.sqlite"
    monkeypatch.setenv("QUALIFY_HISTORY", str(tmp_path / "h" / "mine.sqlite"))
    assert history_file() == tmp_path / "h" / "mine.sqlite"
    assert host_id() == (tmp_path / "h" / "host-id").read_text("ascii").strip()
