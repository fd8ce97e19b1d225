"""The engine's version is that of the vLLM which the command starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.session.opening import engine_version

OTHER = "#!/bin/sh\necho another\n"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter of vLLM 1.2.3, which says with what it was asked, too."""
    found = program(tmp_path / "bin" / "python", '#!/bin/sh\necho "$0" "$@" >> "$0.asked"\necho 1.2.3\n')
    (found.parent / "python3").symlink_to(found)
    return found


def asked(python: Path) -> list[str]:
    return python.with_name(f"{python.name}.asked").read_text("utf-8").split()


def test_an_executable_has_the_version_of_the_interpreter_in_its_first_line(python: Path, tmp_path: Path) -> None:
    vllm = program(tmp_path / "elsewhere" / "vllm", f"#!{python}\nimport vllm\n")
    program(vllm.parent / "python", OTHER)
    assert engine_version([str(vllm), "serve"]) == "1.2.3"


@pytest.mark.parametrize("text", ["#!/bin/sh\nexec true\n", "\x7fELF", ""], ids=["wrapper", "binary", "empty"])
def test_one_that_is_no_python_script_has_that_of_the_interpreter_beside_it(python: Path, text: str) -> None:
    assert engine_version([str(program(python.parent / "vllm", text)), "serve"]) == "1.2.3"


def test_a_bare_name_is_looked_for_on_path(python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen as `unknown`: the Python of the working folder was asked, which has none."""
    vllm = program(tmp_path / "venv" / "vllm", f"#!{python}\nimport vllm\n")
    linked = tmp_path / "local" / "vllm"
    linked.parent.mkdir()
    linked.symlink_to(vllm)
    for folder in (vllm.parent, linked.parent):
        monkeypatch.setenv("PATH", str(folder))
        assert engine_version(["vllm", "serve"]) == "1.2.3"


@pytest.mark.parametrize(
    "options",
    [(), ("-u",), ("-u", "-B"), ("-X", "dev", "-W", "ignore")],
    ids=["none", "one", "two", "with values"],
)
def test_a_module_is_asked_of_its_own_interpreter_with_its_options(
    python: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", str(python.parent), prepend=":")
    assert engine_version(["python3", *options, "-m", "vllm.entrypoints.openai.api_server"]) == "1.2.3"
    assert asked(python.with_name("python3"))[: len(options) + 2] == [str(python.with_name("python3")), *options, "-c"]


def test_options_in_one_word_with_the_module_are_kept(python: Path) -> None:
    assert engine_version([str(python), "-Im", "vllm", "serve"]) == "1.2.3"
    assert asked(python)[:3] == [str(python), "-I", "-c"]


def test_nothing_is_guessed_where_no_interpreter_is_found(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine_version([str(tmp_path / "vllm")]) == "unknown"
    assert engine_version([str(tmp_path / "python3"), "-m", "vllm"]) == "unknown"
    assert engine_version([str(python)]) == "unknown"
    moved = program(tmp_path / "moved" / "vllm", f"#!{tmp_path}/gone/python\nimport vllm\n")
    assert engine_version([str(moved), "serve"]) == "unknown"
    program(python.parent / "numactl", "\x7fELF")
    monkeypatch.setenv("PATH", str(python.parent), prepend=":")
    assert engine_version(["numactl", "vllm", "serve"]) == "unknown", "what it starts need not be of this folder"
