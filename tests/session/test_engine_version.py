"""The engine's version is that of the vLLM which the command starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.session.opening import engine_version


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter beside which vLLM 1.2.3 is installed."""
    found = tmp_path / "python"
    found.write_text("#!/bin/sh\necho 1.2.3\n")
    found.chmod(0o755)
    (tmp_path / "python3").symlink_to(found)
    return found


def test_an_executable_has_the_version_of_the_interpreter_beside_it(python: Path) -> None:
    assert engine_version([str(python.parent / "vllm"), "serve"]) == "1.2.3"


def test_a_module_of_vllm_is_asked_of_its_own_interpreter(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(python.parent), prepend=":")
    assert engine_version(["python3", "-m", "vllm.entrypoints.openai.api_server"]) == "1.2.3"


def test_nothing_is_guessed_where_no_interpreter_is_found(tmp_path: Path) -> None:
    assert engine_version([str(tmp_path / "vllm")]) == "unknown"
    assert engine_version([str(tmp_path / "python3"), "-m", "vllm"]) == "unknown"
