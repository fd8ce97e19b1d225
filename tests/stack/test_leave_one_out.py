"""Locks without one head, so that an effect can be given to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.stack.record import Disposition
from tests.stack.bench import DIGEST, Bench, component, heads, lines, lock, refusal


def three(bench: Bench) -> Path:
    return bench.stack(
        bench.head(258, bench.pull(258, {"vllm/a.py": lines(l3="three = 3")})),
        bench.head(270, bench.pull(270, {"vllm/a.py": lines(l10="ten = 10")})),
        bench.head(271, bench.pull(271, {"vllm/a.py": lines(l17="seventeen = 17")})),
    )


@pytest.mark.parametrize("asked", ["270", "#270", "vllm#270"])
def test_a_head_is_left_out_and_the_lock_says_so(bench: Bench, asked: str) -> None:
    outcome = lock(three(bench), without=(asked,))
    left = heads(outcome)[270]
    assert (left.disposition, left.head, left.tree) == (Disposition.LEFT_OUT, None, None)
    assert [heads(outcome)[pr].disposition for pr in (258, 271)] == ["merged", "merged"]
    assert outcome.lock.without == ("vllm#270",)
    expected = {"vllm/a.py": lines(l3="three = 3", l17="seventeen = 17")}
    assert component(outcome).tree == bench.origin.tree_with({**expected}, bench.base)


def test_each_leave_one_out_lock_has_a_folder_of_its_own_beside_the_whole(bench: Bench) -> None:
    stack = three(bench)
    folders = [lock(stack, without=w).folder.name for w in ((), ("258",), ("270",), ("271", "258"))]
    assert folders == ["stack", "stack-without-vllm-258", "stack-without-vllm-270", "stack-without-vllm-258-vllm-271"]


def test_the_differences_of_leave_one_out_locks_are_the_heads_themselves(bench: Bench) -> None:
    """With the last head left out, the lock is that of a stack which never had it."""
    stack = three(bench)
    whole, without = lock(stack), lock(stack, without=("271",))
    before_it = heads(whole)[270].tree
    assert component(without).tree == before_it != component(whole).tree
    assert whole.lock.inputs_sha256 == without.lock.inputs_sha256


def test_a_head_that_is_left_out_is_not_even_asked_for(bench: Bench) -> None:
    stack = bench.stack(bench.head(1, bench.pull(1, {"vllm/n.py": "n\n"})), bench.head(999, "a" * 40))
    assert heads(lock(stack, without=("999",)))[999].disposition == "left out"


@pytest.mark.parametrize("strategy", ["merge", "cherry-pick"])
@pytest.mark.parametrize("digits", [9, 40])
def test_a_head_that_another_one_is_built_on_cannot_be_left_out_alone(bench: Bench, strategy: str, digits: int) -> None:
    below = bench.pull(1, {"vllm/a.py": lines(l5="one = 5")})
    above = bench.pull(2, {"vllm/a.py": lines(l5="two = 5")}, below)
    stack = bench.stack(bench.head(1, below[:digits]), bench.head(2, above, strategy=strategy))
    assert refusal(stack, without=("1",)) == (
        "component vllm: --without 1: #2 contains its commits, so they would come in all the same; "
        "leave out what is built on it too"
    )
    assert component(lock(stack, without=("1", "2"))).tree == bench.origin.tree(bench.base)


def test_a_head_that_the_base_holds_cannot_be_left_out(bench: Bench) -> None:
    old = bench.pull(7, {"vllm/b.py": lines(l1="one = 1")})
    bench.base = bench.origin.branch("main", bench.origin.commit({"vllm/a.py": lines(l9="nine = 9")}, old))
    told = refusal(bench.stack(bench.head(7, old)), without=("7",))
    assert "--without 7: the base commit contains its commits" in told


def test_what_a_left_out_head_replaces_does_not_come_back(bench: Bench) -> None:
    new = bench.pull(2, {"vllm/n.py": "n\n"})
    stack = bench.stack(bench.head(1, "a" * 40), bench.head(2, new, replaces=1))
    found = {pr: h.disposition for pr, h in heads(lock(stack, without=("2",))).items()}
    assert found == {1: "superseded", 2: "left out"}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("271x", "--without 271x: write the number of a pull request, as 270 or vllm#270"),
        ("", "--without : write the number of a pull request"),
        ("--upload-pack", "--without --upload-pack: write the number"),
        ("9", "--without 9: no head of stack two (vllm#1, vllm#2, b12x#1)"),
        ("b12x#2", "--without b12x#2: no head of stack two (vllm#1, vllm#2, b12x#1)"),
        ("1", "--without 1: write vllm#1 or b12x#1"),
    ],
)
def test_what_is_left_out_must_be_one_head(bench: Bench, asked: str, told: str) -> None:
    one = f'repository = "{bench.origin.path}"\nbase_commit = "{bench.base}"\npackages = ["x"]\ninstall = ["/x"]\n'
    text = (
        f'name = "two"\ndescription = "d"\nbase = {{ reference = "x/y@{DIGEST}" }}\n'
        f'[[components]]\nname = "vllm"\n{one}heads = [{bench.head(1, "a" * 7)}, {bench.head(2, "b" * 7)}]\n'
        f'[[components]]\nname = "b12x"\n{one}heads = [{bench.head(1, "c" * 7)}]\n'
    )
    assert refusal(bench.write(text), without=(asked,)).startswith(told)


def test_a_superseded_head_cannot_be_left_out(bench: Bench) -> None:
    stack = bench.stack(bench.head(1, "a" * 40), bench.head(2, "b" * 40, replaces=1))
    assert refusal(stack, without=("1",)) == "--without 1: #2 replaces it, so it is not in the stack anyway"
