"""Heads held against what the stack expects: moved, short, ambiguous, gone."""

from __future__ import annotations

import hashlib

import pytest

from harness.errors import ConfigError
from harness.words import ExitCode
from tests.stack.bench import Bench, component, heads, lines, lock, refusal


def two_commits_that_begin_alike(bench: Bench) -> tuple[str, str]:
    """Two commits with the same first seven digits, found by trying messages: 28 bits meet after some 2^14."""
    tree = bench.origin.tree_with({"vllm/a.py": lines(l5="five = 5")}, bench.base)
    head = f"tree {tree}\nparent {bench.base}\nauthor a <a@b> 0 +0000\ncommitter a <a@b> 0 +0000\n\n"
    seen: dict[bytes, bytes] = {}
    for number in range(1_000_000):
        body = f"{head}{number}\n".encode()
        digest = hashlib.sha1(b"commit %d\0" % len(body) + body, usedforsecurity=False).digest()
        key = digest[:3] + bytes([digest[3] & 0xF0])
        if key in seen:
            one, other = (
                bench.origin.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=b) for b in (body, seen[key])
            )
            return one, other
        seen[key] = body
    raise AssertionError("no two commits alike")


# --- moved ---------------------------------------------------------------------------------------------


def test_a_head_that_moved_is_refused_with_old_and_new(bench: Bench) -> None:
    old = bench.pull(271, {"vllm/a.py": lines(l5="five = 5")})
    stack = bench.stack(bench.head(271, old))
    new = bench.pull(271, {"vllm/a.py": lines(l5="cinq = 5")})
    with pytest.raises(ConfigError) as caught:
        lock(stack)
    assert caught.value.exit_code == ExitCode.USAGE
    assert str(caught.value).splitlines() == [
        f"component vllm: 1 of 1 heads are not those of {stack}",
        f"  #271: the stack expects {old}, refs/pull/271/head is now {new}",
        "Write the new head into the stack once it was reviewed, or accept it on purpose with --update",
    ]
    assert not (bench.root / "locks").exists()


def test_every_head_that_moved_is_told_at_once(bench: Bench) -> None:
    stack_heads = [bench.head(pr, bench.pull(pr, {f"vllm/n{pr}.py": "old\n"})) for pr in (1, 2, 3)]
    for pr in (1, 3):
        bench.pull(pr, {f"vllm/n{pr}.py": "new\n"})
    told = refusal(bench.stack(*stack_heads))
    assert "2 of 3 heads are not those of" in told
    assert [line.split(":")[0].strip() for line in told.splitlines()[1:3]] == ["#1", "#3"]


def test_update_accepts_a_moved_head_and_the_lock_says_so(bench: Bench) -> None:
    old = bench.pull(271, {"vllm/a.py": lines(l5="five = 5")})
    stack = bench.stack(bench.head(271, old))
    new = bench.pull(271, {"vllm/a.py": lines(l5="cinq = 5")})
    outcome = lock(stack, update=True)
    moved = heads(outcome)[271]
    assert (moved.expected, moved.head, moved.moved, moved.disposition) == (old, new, True, "merged")
    assert component(outcome).tree == bench.origin.tree(new)


def test_update_without_a_move_gives_the_same_lock(bench: Bench) -> None:
    stack = bench.stack(bench.head(1, bench.pull(1, {"vllm/n.py": "n\n"})))
    plain = lock(stack, output=bench.root / "plain").lock
    assert lock(stack, output=bench.root / "update", update=True).lock == plain


def test_an_accepted_move_stays_refused_until_the_stack_says_it_too(bench: Bench) -> None:
    stack = bench.stack(bench.head(1, bench.pull(1, {"vllm/n.py": "old\n"})))
    new = bench.pull(1, {"vllm/n.py": "new\n"})
    lock(stack, update=True)
    assert "1 of 1 heads are not those of" in refusal(stack)
    outcome = lock(bench.stack(bench.head(1, new)), update=True)
    assert (heads(outcome)[1].moved, outcome.state) == (False, "replaced")


# --- short heads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", [7, 12, 39, 40])
def test_a_short_head_is_completed(bench: Bench, digits: int) -> None:
    head = bench.pull(270, {"vllm/a.py": lines(l5="five = 5")})
    found = heads(lock(bench.stack(bench.head(270, head[:digits]))))[270]
    assert (found.expected, found.head, found.moved) == (head[:digits], head, False)


def test_a_short_head_that_does_not_match_is_a_moved_head(bench: Bench) -> None:
    head = bench.pull(270, {"vllm/a.py": lines(l5="five = 5")})
    other = "".join("0" if digit != "0" else "1" for digit in head[:12])
    told = refusal(bench.stack(bench.head(270, other)))
    assert f"#270: the stack expects {other}, refs/pull/270/head is now {head}" in told
    assert "typing error" not in told


def test_a_head_that_begins_rightly_and_goes_on_wrongly_is_called_a_typing_error(bench: Bench) -> None:
    """As in the origin's own comment: #258 `63b77c803149`, its release lock `63b77c8031e0`."""
    head = bench.pull(258, {"vllm/a.py": lines(l5="five = 5")})
    wrong = head[:10] + ("00" if head[10:12] != "00" else "11")
    told = refusal(bench.stack(bench.head(258, wrong)))
    same = 10 + (wrong[10] == head[10])
    assert f"is now {head} (the first {same} digits agree: a typing error?)" in told


def test_a_short_head_that_fits_two_commits_is_refused_and_more_digits_mend_it(bench: Bench) -> None:
    one, other = two_commits_that_begin_alike(bench)
    assert one[:7] == other[:7]
    bench.origin.pull(1, one)
    bench.origin.pull(2, other)
    told = refusal(bench.stack(bench.head(1, one[:7]), bench.head(2, other)))
    assert f"component vllm: #1: {one[:7]} is the beginning of 2 commits (" in told
    assert one in told
    assert other in told
    assert told.endswith("write more digits")
    digits = next(n for n in range(8, 41) if one[:n] != other[:n])
    assert heads(lock(bench.stack(bench.head(1, one[:digits]), bench.head(2, other))))[1].head == one


# --- what is not there -----------------------------------------------------------------------------------


def test_a_pull_request_that_is_not_there_is_named_with_its_ref(bench: Bench) -> None:
    told = refusal(bench.stack(bench.head(999, "a" * 40)))
    assert told == f"component vllm: #999: {bench.origin.path} has no refs/pull/999/head"


def test_a_branch_that_only_looks_like_the_ref_is_not_taken_for_it(bench: Bench) -> None:
    """git ls-remote matches the end of a name."""
    bench.origin.branch("refs/pull/7/head", bench.base)
    assert "has no refs/pull/7/head" in refusal(bench.stack(bench.head(7, bench.base)))


def test_a_base_commit_that_is_not_there_is_named(bench: Bench) -> None:
    head = bench.pull(1, {"vllm/n.py": "n\n"})
    told = f"component vllm: base_commit {'1' * 40} is not in {bench.origin.path}"
    assert refusal(bench.stack(bench.head(1, head), base_commit="1" * 40)) == told
    assert refusal(bench.stack(base_commit="1" * 40)) == told


def test_a_base_commit_that_no_head_stands_on_is_fetched_by_itself(bench: Bench) -> None:
    head = bench.pull(1, {"vllm/n.py": "n\n"})
    ahead = bench.origin.branch("main", bench.origin.commit({"vllm/b.py": lines(l1="one = 1")}, bench.base))
    outcome = lock(bench.stack(bench.head(1, head), base_commit=ahead))
    assert component(outcome).base_commit == ahead
    assert heads(outcome)[1].disposition == "merged"


def test_a_base_tree_that_is_another_one_is_refused(bench: Bench) -> None:
    tree = bench.origin.tree(bench.base)
    assert component(lock(bench.stack(base_tree=tree))).base_tree == tree
    told = f"component vllm: base_commit has tree {tree}, base_tree says {'2' * 40}"
    assert refusal(bench.stack(base_tree="2" * 40)) == told
