"""`qualify lock` as a user meets it: what it prints, its exit codes, and git that is missing or too old."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import main
from tests.stack.bench import DIGEST, Bench, lines, lock
from tests.stack.origin import link


def qualify(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["lock", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_lock_is_told_head_by_head(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    one = bench.pull(258, {"vllm/a.py": lines(l3="three = 3"), "tests/test_a.py": "new\n"})
    two = bench.pull(270, {"vllm/b.py": link("a.py")})
    three = bench.pull(300, {"vllm/a.py": lines(l3="three = 3")})
    stack = bench.stack(
        bench.head(258, one),
        bench.head(269, "a" * 12),
        bench.head(270, two[:12], replaces=269),
        bench.head(300, three, strategy="cherry-pick"),
        bench.head(301, "b" * 12),
    )
    code, out, err = qualify(capsys, stack, "--without", "301", "--output", bench.root / "out")
    done = lock(stack, without=("301",), output=bench.root / "out")
    only = done.lock.components[0]
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"stack on registry.example/vllm@{DIGEST}",
        f"vllm: {bench.base[:12]} = tree {only.tree_before[:12]}",
        f"  #258    merged           {one}",
        f"  #269    superseded       {'a' * 12} #270 replaces it",
        f"  #270    merged           {two} completed from {two[:12]}",
        f"  #300    already in base  {three} it changes nothing any more",
        f"  #301    left out         {'b' * 12}",
        f"  tree {only.tree[:12]}: 2 installed files change, in 2 copies each; 1 others are for the source checks",
        "  note: vllm/b.py is a symbolic link",
        f"{bench.root / 'out' / 'lock.json'}: written, lock sha256 {done.lock.sha256}",
    ]


def test_a_moved_head_is_told_when_it_is_accepted(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    old = bench.pull(1, {"vllm/n.py": "old\n"})
    stack = bench.stack(bench.head(1, old))
    new = bench.pull(1, {"vllm/n.py": "new\n"})
    code, out, err = qualify(capsys, stack)
    assert (code, out) == (2, "")
    assert err.startswith("qualify: component vllm: 1 of 1 heads are not those of")
    assert (old in err, new in err) == (True, True)
    code, out, _ = qualify(capsys, stack, "--update")
    assert code == 0
    assert f"  #1      merged           {new} moved: the stack expects {old}, --update accepted it\n" in out


def test_a_mirror_is_named_as_what_the_answer_rests_on(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    stack = bench.stack(bench.head(1, bench.pull(1, {"vllm/n.py": "n\n"})))
    code, out, _ = qualify(capsys, stack, "--mirror", bench.origin.path)
    assert code == 0
    assert "heads are as the mirror has them: fetch it again" in out


@pytest.mark.parametrize("stack", ["", "no-such-stack", "cpu-near-tie"])
def test_what_cannot_be_locked_is_a_usage_error(capsys: pytest.CaptureFixture[str], stack: str) -> None:
    code, out, err = qualify(capsys, stack)
    assert (code, out) == (2, "")
    assert err.startswith("qualify: ")
    assert "Traceback" not in err


def test_a_conflict_is_a_usage_error_and_a_dead_remote_a_setup_failure(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    one = bench.pull(1, {"vllm/a.py": lines(l5="one = 5")})
    two = bench.pull(2, {"vllm/a.py": lines(l5="two = 5")})
    code, _, err = qualify(capsys, bench.stack(bench.head(1, one), bench.head(2, two)))
    assert code == 2
    assert f"#2 ({two}) conflicts" in err
    code, _, err = qualify(capsys, bench.stack(bench.head(1, one), repository="http://127.0.0.1:1/x.git"))
    assert code == 3
    assert err.startswith(
        "qualify: component vllm: cannot fetch from http://127.0.0.1:1/x.git: fatal: unable to access"
    )


def test_without_git_the_message_says_what_to_install(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = bench.stack()
    monkeypatch.setenv("PATH", str(bench.root / "empty"))
    code, _, err = qualify(capsys, stack)
    assert code == 3
    assert err == "qualify: git is not installed, or not on PATH; install git 2.38 or newer\n"


def test_a_git_that_is_too_old_is_refused_by_its_version(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = bench.stack()
    old = bench.root / "bin" / "git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho git version 2.30.2\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent), prepend=":")
    code, _, err = qualify(capsys, stack)
    assert code == 3
    assert err == "qualify: `git version 2.30.2` is too old: git 2.38 or newer is needed\n"


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from harness.cli import main\n"
        "try: main(['lock', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = ('pydantic', 'requests', 'harness.stack')\n"
        "print(sorted(m for m in sys.modules if m.startswith(heavy)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--without PR" in done.stdout


def test_the_default_folder_is_below_locks(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = qualify(capsys, bench.stack(name="my-stack"))
    assert code == 0
    assert str(Path("locks") / "my-stack" / "lock.json") in out
