"""`qualify build` as a user meets it: which lock it means, what it refuses, what it prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import ConfigError, SetupFailure
from harness.image.build import chosen_builder
from tests.image.bench import COPIES, Images, installed, stack_bench
from tests.stack.bench import Bench, lines, lock


def qualify(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str], str]:
    code = main(["build", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def small(bench: Bench, *more: str) -> Path:
    return bench.stack(bench.head(1, bench.pull(1, {"vllm/a.py": lines(l5="five = 5")})), *more)


# --- which lock --------------------------------------------------------------------------------------


def test_a_stack_without_a_lock_is_told_how_to_get_one(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    stack = small(bench)
    code, out, err = qualify(capsys, stack)
    assert (code, out) == (2, [])
    folder = bench.root / "locks" / "stack"
    assert err == f"qualify: stack stack has no lock in {folder}; `qualify lock {stack}` writes it\n"


def test_a_leave_one_out_lock_is_another_one(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    stack = small(bench)
    lock(stack)
    code, _, err = qualify(capsys, stack, "--without", "1")
    assert code == 2
    assert f"no lock in {bench.root / 'locks' / 'stack-without-vllm-1'}; `qualify lock {stack} --without 1`" in err


def test_a_stack_that_says_something_else_by_now_is_refused(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    stack = small(bench)
    lock(stack)
    stack.write_text(stack.read_text("utf-8").replace("3230c25f", "3230c25e"), "utf-8")
    code, out, err = qualify(capsys, stack)
    assert (code, out) == (2, [])
    assert f"lock.json is not what {stack} says by now" in err
    assert "--update` locks it again" in err


def test_words_that_are_no_part_of_the_image_may_change(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    stack = small(bench)
    lock(stack)
    stack.write_text(stack.read_text("utf-8").replace("a stack for tests", "another word"), "utf-8")
    assert "by now" not in qualify(capsys, stack, "--builder", "none-such")[2]


def test_without_belongs_to_a_stack_and_not_to_a_lock_s_folder(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = lock(small(bench)).folder
    assert "--without belongs to a stack's name" in qualify(capsys, folder, "--without", "1")[2]


@pytest.mark.parametrize("name", ["", "no-such-stack", "cpu-near-tie"])
def test_what_has_no_lock_and_can_have_none_is_a_usage_error(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, err = qualify(capsys, name)
    assert (code, out) == (2, [])
    assert err.startswith("qualify: ")


def test_a_head_that_conflicts_or_needs_a_compiler_never_gets_here(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their locks are refused (tests/stack), so there is nothing to build."""
    one = bench.head(1, bench.pull(1, {"vllm/a.py": lines(l5="one = 5")}))
    two = bench.head(2, bench.pull(2, {"vllm/a.py": lines(l5="two = 5")}))
    cuda = bench.head(3, bench.pull(3, {"csrc/x.cu": "x\n"}))
    for name, heads in (("conflict", (one, two)), ("compiled", (cuda,))):
        stack = bench.stack(*heads, name=name)
        with pytest.raises(ConfigError, match=r"conflicts|compiled sources"):
            lock(stack)
        assert f"stack {name} has no lock" in qualify(capsys, stack)[2]


# --- which builder -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("path")
class TestBuilder:
    @pytest.fixture
    def path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.delenv("QUALIFY_BUILDER", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        return tmp_path

    def docker(self, path: Path, code: int) -> None:
        program = path / "docker"
        program.write_text(f'#!/bin/sh\n[ "$*" = "buildx version" ] && exit {code}\nexit 99\n', "utf-8")
        program.chmod(0o755)

    def test_buildx_where_it_works(self, path: Path) -> None:
        self.docker(path, 0)
        assert chosen_builder("auto") == "buildx"
        assert chosen_builder("classic") == "classic"

    def test_classic_where_docker_has_no_such_plugin(self, path: Path) -> None:
        self.docker(path, 1)
        assert chosen_builder("auto") == "classic"

    def test_classic_where_there_is_no_docker_command_at_all(self) -> None:
        assert chosen_builder("auto") == "classic"

    def test_the_variable_speaks_where_no_option_does(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.docker(path, 0)
        monkeypatch.setenv("QUALIFY_BUILDER", "classic")
        assert (chosen_builder("auto"), chosen_builder("buildx")) == ("classic", "buildx")

    def test_another_name_is_refused_with_where_it_stands(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(
            ConfigError, match=r"--builder: there is no builder `kaniko`; write buildx, classic or auto"
        ):
            chosen_builder("kaniko")
        monkeypatch.setenv("QUALIFY_BUILDER", "kaniko")
        with pytest.raises(ConfigError, match=r"QUALIFY_BUILDER: there is no builder `kaniko`"):
            chosen_builder("auto")

    def test_buildx_that_was_asked_for_is_not_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("QUALIFY_BUILDER", "buildx")
        with pytest.raises(SetupFailure, match="QUALIFY_BUILDER names buildx, and `docker buildx version` fails"):
            chosen_builder("auto")


# --- what is printed -----------------------------------------------------------------------------------


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from harness.cli import main\n"
        "try: main(['build', '--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('pydantic', 'docker') or 'image' in m))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.docker
@pytest.mark.xdist_group("docker-images")
def test_a_build_is_told_and_a_second_one_says_that_it_was_one(
    images: Images, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUALIFY_LOCKS", str(tmp_path / "locks"))
    old = {"vllm/a.py": lines(), "vllm/b.py": lines()}
    bench = stack_bench(tmp_path, images.make(installed(old)))
    stack = small(bench)
    outcome = lock(stack)
    arguments = (stack, "--builder", "classic")
    code, out, err = qualify(capsys, *arguments)
    assert (code, err) == (0, "")
    tag, image = out[4].split()[1], out[5].split()[1].rstrip(",")
    described = images.inspect(image)
    images.made.append(image)
    assert described["RepoTags"] == [tag]
    base = images.inspect(bench.reference)["Id"]
    tree = outcome.lock.components[0].tree
    assert out[:4] == [
        f"building {tag}",
        f"stack on {bench.reference}",
        f"base        manifest {bench.reference.partition('@')[2]}, image {base}",
        f"vllm        tree {tree}, 1 files x {len(COPIES)} copies overlaid",
    ]
    assert out[5] == f"image       {image}, built (classic)"
    log = outcome.folder / "build.log"
    assert out[6].startswith(f"log         {log}, sha256 ")
    assert b"copies of 1 files are as the lock says" in log.read_bytes()

    code, again, _ = qualify(capsys, outcome.folder, "--log", tmp_path / "second.log")
    assert code == 0
    assert again == [*out[1:5], f"image       {image}, reused: built before"]
    assert not (tmp_path / "second.log").exists()
