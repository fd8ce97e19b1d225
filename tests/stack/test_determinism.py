"""Same inputs, same tree, same patch, same lock: whoever runs it, wherever, whenever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.paths import PROJECT
from tests.stack.bench import Bench, inline, lines, lock, written

HOSTILE_CONFIG = """
[user]
  name = Somebody Else
  email = else@example.org
[core]
  autocrlf = true
  quotePath = false
  abbrev = 4
  attributesFile = {attributes}
  hooksPath = {hooks}
[diff]
  noprefix = true
  algorithm = histogram
  context = 9
  external = /bin/false
  renames = copies
[merge]
  conflictStyle = zdiff3
  renames = false
  ff = only
[commit]
  gpgSign = true
[fetch]
  prune = true
  fsckObjects = true
[url "https://evil.example/"]
  insteadOf = {origin}
[i18n]
  commitEncoding = latin1
"""


def case(bench: Bench) -> Path:
    """A stack with all that a lock can hold: merge, pick, rename, binary file, mode, patch."""
    one = bench.pull(1, {"vllm/a.py": lines(l3="three = 3"), "vllm/t.bin": bytes(range(256)) * 9})
    two = bench.pull(2, {"vllm/a.py": None, "vllm/renamed.py": lines()})
    three = bench.pull(3, {"vllm/b.py": lines(l9="neun = 9"), "tests/ü.py": "u\n"})
    after = bench.origin.commit({"vllm/b.py": lines(l19="x = 19")}, bench.base)
    patch = bench.patch_file(bench.origin.patch(bench.base, after))
    return bench.stack(
        bench.head(1, one),
        bench.head(2, two),
        bench.head(3, three[:9], strategy="cherry-pick"),
        extra=f"patches = [{{ path = '{patch['path']}', sha256 = '{patch['sha256']}' }}]",
    )


def elsewhere(stack: Path, place: Path, *, zone: str, umask: int, origin: Path) -> dict[str, bytes]:
    """Lock in another process: another folder, time zone, umask, language and git configuration."""
    home = place / "home"
    home.mkdir(parents=True)
    (home / "attributes").write_text("*.py merge=union diff=python text eol=crlf\n*.bin -diff\n")
    config = HOSTILE_CONFIG.format(attributes=home / "attributes", hooks=home, origin=origin)
    (home / ".gitconfig").write_text(config)
    (home / "post-checkout").write_text("#!/bin/sh\nexit 1\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "TZ": zone,
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(PROJECT),
        "GIT_DIR": "/nonexistent",
        "GIT_AUTHOR_NAME": "Somebody",
        "GIT_COMMITTER_DATE": "2030-01-01T00:00:00Z",
        "GIT_DIFF_OPTS": "-u9",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "merge.renames",
        "GIT_CONFIG_VALUE_0": "false",
    }
    subprocess.run(
        [sys.executable, "-m", "harness.cli", "lock", str(stack), "--output", "out"],
        cwd=place,
        env=environment,
        umask=umask,
        check=True,
        capture_output=True,
    )
    return written(place / "out")


def test_twice_in_two_places_under_other_circumstances_gives_the_same_bytes(bench: Bench) -> None:
    stack = case(bench)
    here = written(lock(stack).folder)
    assert sorted(here) == ["lock.json", "vllm/composed.tar", "vllm/integration.patch"]
    for name, zone, umask in (("one", "Asia/Tokyo", 0o077), ("two", "America/New_York", 0o000)):
        there = elsewhere(stack, bench.root / name, zone=zone, umask=umask, origin=bench.origin.path)
        assert there == here


def test_twice_gives_the_same_bytes_and_says_unchanged(bench: Bench) -> None:
    stack = case(bench)
    first = lock(stack)
    before = written(first.folder)
    second = lock(stack)
    assert (first.state, second.state) == ("written", "unchanged")
    assert (second.lock, written(second.folder)) == (first.lock, before)


def test_the_lock_does_not_say_where_it_was_made(bench: Bench) -> None:
    """The one path in it is the repository that the stack itself names."""
    data = (lock(case(bench)).folder / "lock.json").read_text("utf-8")
    assert str(bench.root) not in data.replace(str(bench.origin.path), "")
    assert "vllm-qualify" not in data


def test_a_repacked_origin_gives_the_same_bytes(bench: Bench) -> None:
    stack = case(bench)
    before = written(lock(stack).folder)
    bench.origin.git("-c", "core.compression=1", "repack", "-q", "-a", "-d", "-f")
    assert lock(stack).state == "unchanged"
    assert written(lock(stack).folder) == before


def test_a_stack_that_moves_to_another_folder_with_its_patches_keeps_its_lock(bench: Bench) -> None:
    stack = case(bench)
    before = written(lock(stack).folder)
    moved = bench.root / "elsewhere"
    bench.stacks.rename(moved)
    assert written(lock(moved / stack.name, output=bench.root / "again").folder) == before


def test_a_patch_file_in_another_folder_is_the_same_patch(bench: Bench) -> None:
    after = bench.origin.commit({"vllm/b.py": lines(l19="x = 19")}, bench.base)
    patch = bench.patch_file(bench.origin.patch(bench.base, after))
    here = lock(bench.stack(extra=f"patches = [{inline(patch)}]"))
    (bench.stacks / "below").mkdir()
    (bench.stacks / patch["path"]).rename(bench.stacks / "below" / patch["path"])
    patch["path"] = f"below/{patch['path']}"
    assert lock(bench.stack(extra=f"patches = [{inline(patch)}]")).state == "unchanged"
    assert here.lock.components[0].patches[0].file == "local.patch"
