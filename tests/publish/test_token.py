"""The token comes from the environment or from a file that nobody else can read, and is shown nowhere."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.publish.token import Token, find_token

SECRET = "ghp_secret0123456789"


def file(folder: Path, text: str = f"{SECRET}\n", mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def shown(token: Token | None) -> str:
    assert token is not None
    return token.hidden(SECRET)


def test_our_own_variable_comes_before_githubs(tmp_path: Path) -> None:
    both = {"GITHUB_TOKEN": "other", "QUALIFY_GITHUB_TOKEN": SECRET}
    assert shown(find_token(None, both)) == "[token]"
    assert shown(find_token(None, {"GITHUB_TOKEN": SECRET})) == "[token]"
    assert shown(find_token(file(tmp_path), {"QUALIFY_GITHUB_TOKEN": "other"})) == "[token]"
    assert find_token(None, {"GITHUB_TOKEN": ""}) is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match=r"others may read it .*chmod 600") as caught:
        find_token(file(tmp_path, mode=mode), {})
    assert SECRET not in str(caught.value)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        find_token(tmp_path / "none", {})
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigError, match="no regular file"):
        find_token(tmp_path / "pipe", {})


@pytest.mark.parametrize("text", ["", " ", f"{SECRET} x", f"{SECRET}\nx", f"{SECRET}\x7f", f"{SECRET}é"])
def test_what_could_not_stand_in_a_header_is_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="holds no token") as caught:
        find_token(file(tmp_path, text), {})
    assert SECRET not in str(caught.value)


def test_it_is_not_in_what_python_prints_of_it() -> None:
    token = Token(SECRET, "GITHUB_TOKEN")
    assert repr(token) == str(token) == f"{token}" == "Token(from GITHUB_TOKEN)"
    try:
        raise ValueError(token)
    except ValueError:
        assert SECRET not in traceback.format_exc()
