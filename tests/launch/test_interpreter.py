"""The Python behind a command: from a script's first line, or from the command itself."""

from __future__ import annotations

import pytest

from harness.errors import SetupFailure
from harness.launch.interpreter import python_options, shebang


@pytest.mark.parametrize(
    ("head", "argv"),
    [
        (b"#!/opt/venv/bin/python3\nimport sys", ("/opt/venv/bin/python3",)),
        (b"#! /opt/venv/bin/python3.12 \n", ("/opt/venv/bin/python3.12",)),
        (b"#!/usr/bin/python3 -I -s\n", ("/usr/bin/python3", "-I -s")),
        (b"#!/usr/bin/env python3\n", ("/usr/bin/env", "python3")),
        (b"#!/usr/bin/env -S python3 -I\n", ("/usr/bin/env", "-S python3 -I")),
        (b"#!/bin/sh\n'''exec' \"/a path/bin/python\" \"$0\" \"$@\"\n' '''\n", ("/a path/bin/python",)),
        (b"#!/bin/sh\n'''exec' /very/long/bin/python3 \"$0\" \"$@\"\n", ("/very/long/bin/python3",)),
    ],
    ids=["a venv's", "spaces", "the kernel gives one argument", "env", "env -S", "pip: a space", "pip: too long"],
)
def test_a_scripts_first_line(head: bytes, argv: tuple[str, ...]) -> None:
    assert shebang("/opt/venv/bin/vllm", head) == argv


@pytest.mark.parametrize("head", [b"#!/bin/bash\nexec vllm", b"#!/usr/bin/env bash\n", b"#!\n", b"#!/usr/bin/env\n"])
def test_a_wrapper_is_refused_with_its_interpreter(head: bytes) -> None:
    with pytest.raises(SetupFailure, match=r"/opt/vllm is a script of .*, no Python; name the program"):
        shebang("/opt/vllm", head)


def test_a_first_line_that_no_shell_can_read_is_refused() -> None:
    with pytest.raises(SetupFailure, match=r"names its interpreter as .*: No closing quotation"):
        shebang("/opt/vllm", b'#!/bin/sh\n\'\'\'exec\' "/a path/bin/python "$0" "$@"\n')


@pytest.mark.parametrize(
    ("command", "options", "script"),
    [
        (("python3", "-m", "vllm.entrypoints.openai.api_server"), (), None),
        (("python3", "-I", "-m", "vllm"), ("-I",), None),
        (("python3", "-Im", "vllm"), ("-I",), None),
        (("python3", "-X", "dev", "-W", "error", "-c", "pass"), ("-X", "dev", "-W", "error"), None),
        (("python3", "-B", "/opt/serve.py"), ("-B",), "/opt/serve.py"),
        (("python3", "-Xpycache_prefix=/tmp/c", "/opt/serve.py"), ("-Xpycache_prefix=/tmp/c",), "/opt/serve.py"),
    ],
    ids=["module", "option", "options in one word", "options with a value", "script", "a value that ends in c"],
)
def test_pythons_own_options_are_kept(command: tuple[str, ...], options: tuple[str, ...], script: str | None) -> None:
    assert python_options(command) == (options, script)


@pytest.mark.parametrize("command", [("python3",), ("python3", "-I"), ("python3", "--version")])
def test_a_python_without_a_program_is_refused(command: tuple[str, ...]) -> None:
    with pytest.raises(SetupFailure, match="names no module and no script"):
        python_options(command)
