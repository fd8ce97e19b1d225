"""What becomes of a head: merged, cherry-picked, already in base, superseded, or a conflict."""

from __future__ import annotations

from harness.stack.record import Disposition
from tests.stack.bench import Bench, component, heads, lines, lock, refusal


def content(bench: Bench, tree: str, path: str) -> str:
    return bench.origin.git("show", f"{tree}:{path}") + "\n"


def dispositions(bench: Bench, *stack_heads: str) -> dict[int, tuple[Disposition, str]]:
    return {pr: (h.disposition, h.note) for pr, h in heads(lock(bench.stack(*stack_heads))).items()}


def test_a_head_is_merged_and_the_tree_holds_its_change(bench: Bench) -> None:
    head = bench.pull(258, {"vllm/a.py": lines(l5="five = 5")})
    outcome = lock(bench.stack(bench.head(258, head, title="a title")))
    only = heads(outcome)[258]
    assert (only.disposition, only.head, only.expected, only.ref) == ("merged", head, head, "refs/pull/258/head")
    assert (only.title, only.moved, only.strategy, only.note) == ("a title", False, "merge", "")
    # Nothing else is on the base, so the result is the head's own tree.
    assert only.tree == component(outcome).tree == bench.origin.tree(head)
    assert component(outcome).tree_before == component(outcome).base_tree == bench.origin.tree(bench.base)


def test_heads_that_touch_other_lines_of_one_file_come_together(bench: Bench) -> None:
    one = bench.pull(1, {"vllm/a.py": lines(l3="three = 3")})
    two = bench.pull(2, {"vllm/a.py": lines(l15="fifteen = 15")})
    three = bench.pull(3, {"vllm/new.py": "new = 1\n"})
    expected = bench.origin.tree_with(
        {"vllm/a.py": lines(l3="three = 3", l15="fifteen = 15"), "vllm/new.py": "new = 1\n"}, bench.base
    )
    outcome = lock(bench.stack(bench.head(1, one), bench.head(2, two), bench.head(3, three)))
    assert component(outcome).tree == expected
    assert [h.tree == expected for h in component(outcome).heads] == [False, False, True]


def test_a_head_that_the_base_grew_from_is_already_in_it(bench: Bench) -> None:
    old = bench.pull(7, {"vllm/b.py": lines(l1="one = 1")})
    bench.base = bench.origin.branch("main", bench.origin.commit({"vllm/a.py": lines(l9="nine = 9")}, old))
    assert dispositions(bench, bench.head(7, old)) == {7: (Disposition.ALREADY_IN_BASE, "ancestor of the base commit")}


def test_a_head_that_was_squashed_into_the_base_is_already_in_it(bench: Bench) -> None:
    change = {"vllm/b.py": lines(l1="one = 1")}
    head = bench.pull(7, {**change})
    bench.base = bench.origin.branch("main", bench.origin.commit({**change}, bench.base))
    told = (Disposition.ALREADY_IN_BASE, "it changes nothing any more")
    assert dispositions(bench, bench.head(7, head)) == {7: told}
    assert dispositions_of_picks(bench, head) == {7: told}


def dispositions_of_picks(bench: Bench, head: str) -> dict[int, tuple[Disposition, str]]:
    picked = lock(bench.stack(bench.head(7, head, strategy="cherry-pick")), output=bench.root / "picked")
    return {pr: (h.disposition, h.note) for pr, h in heads(picked).items()}


def test_a_head_that_an_earlier_head_is_built_on_says_so(bench: Bench) -> None:
    below = bench.pull(1, {"vllm/a.py": lines(l3="three = 3")})
    above = bench.pull(2, {"vllm/a.py": lines(l3="three = 3", l4="four = 4")}, below)
    found = dispositions(bench, bench.head(2, above), bench.head(1, below))
    assert found[1] == (Disposition.ALREADY_IN_BASE, "part of an earlier head")


def test_a_replaced_head_is_superseded_and_not_even_asked_for(bench: Bench) -> None:
    new = bench.pull(729, {"vllm/a.py": lines(l5="new = 5")})
    outcome = lock(bench.stack(bench.head(721, "abcdef1"), bench.head(729, new, replaces=721)))
    old = heads(outcome)[721]
    assert (old.disposition, old.note, old.head, old.tree) == ("superseded", "#729 replaces it", None, None)
    assert (heads(outcome)[729].disposition, heads(outcome)[729].replaces) == ("merged", 721)
    assert component(outcome).tree == bench.origin.tree(new)


def test_a_chain_of_replacements_leaves_the_last(bench: Bench) -> None:
    last = bench.pull(3, {"vllm/a.py": lines(l5="last = 5")})
    stack = bench.stack(bench.head(1, "a" * 7), bench.head(2, "b" * 7, replaces=1), bench.head(3, last, replaces=2))
    found = {pr: h.disposition for pr, h in heads(lock(stack)).items()}
    assert found == {1: "superseded", 2: "superseded", 3: "merged"}


def test_cherry_pick_takes_the_heads_own_commits_and_not_what_they_stand_on(bench: Bench) -> None:
    """The head was opened on a branch that moved on: a merge would bring that along."""
    ahead = bench.origin.commit({"vllm/b.py": lines(l10="not ours = 0")}, bench.base)
    bench.origin.branch("main", ahead)
    first = bench.origin.commit({"vllm/a.py": lines(l2="two = 2")}, bench.base)
    second = bench.origin.pull(5, bench.origin.commit({"vllm/a.py": lines(l2="two = 2", l18="x = 18")}, first))
    other = bench.pull(4, {"vllm/a.py": lines(l10="ten = 10")})
    stack = bench.stack(bench.head(4, other), bench.head(5, second, strategy="cherry-pick"))
    outcome = lock(stack)
    assert (heads(outcome)[5].disposition, heads(outcome)[5].strategy) == ("cherry-picked", "cherry-pick")
    expected = {"vllm/a.py": lines(l2="two = 2", l10="ten = 10", l18="x = 18")}
    assert component(outcome).tree == bench.origin.tree_with({**expected}, bench.base)


def test_a_cherry_picked_head_gives_the_same_tree_as_merging_it(bench: Bench) -> None:
    head = bench.pull(5, {"vllm/a.py": lines(l2="two = 2")})
    other = bench.pull(4, {"vllm/a.py": lines(l10="ten = 10")})
    trees = [
        component(lock(bench.stack(bench.head(4, other), bench.head(5, head, strategy=s)), output=bench.root / s)).tree
        for s in ("merge", "cherry-pick")
    ]
    assert trees[0] == trees[1]


def test_a_merge_among_the_commits_to_pick_is_refused_with_the_way_out(bench: Bench) -> None:
    ahead = bench.origin.commit({"vllm/b.py": lines(l10="main = 10")}, bench.base)
    own = bench.origin.commit({"vllm/a.py": lines(l2="two = 2")}, bench.base)
    merge = bench.origin.pull(5, bench.origin.commit({"vllm/b.py": lines(l10="main = 10")}, own, ahead))
    told = refusal(bench.stack(bench.head(5, merge, strategy="cherry-pick")))
    assert told == (
        f'component vllm: #5 cannot be cherry-picked: its commit {merge} is a merge; use strategy = "merge"'
    )


def test_a_conflict_names_the_head_its_files_and_what_went_before(bench: Bench) -> None:
    one = bench.pull(258, {"vllm/a.py": lines(l5="one = 5")})
    two = bench.pull(270, {"vllm/a.py": lines(l5="two = 5"), "vllm/b.py": lines(l5="fine = 5"), "tests/x.py": "x\n"})
    told = refusal(bench.stack(bench.head(258, one), bench.head(270, two)))
    assert told.splitlines()[:2] == [
        f"component vllm: #270 ({two}) conflicts, after #258 (merged), in",
        "  vllm/a.py",
    ]
    assert "vllm/b.py" not in told
    assert not (bench.root / "locks").exists()


def test_a_conflict_of_a_pick_and_one_of_a_removed_file_are_conflicts_too(bench: Bench) -> None:
    one = bench.pull(1, {"vllm/a.py": None})
    two = bench.pull(2, {"vllm/a.py": lines(l5="two = 5")})
    told = refusal(bench.stack(bench.head(1, one), bench.head(2, two, strategy="cherry-pick")))
    assert f"#2 ({two}) conflicts, after #1 (merged), in\n  vllm/a.py\n" in told


def test_a_conflict_with_the_base_itself_says_so(bench: Bench) -> None:
    head = bench.pull(2, {"vllm/a.py": lines(l5="two = 5")})
    bench.base = bench.origin.branch("main", bench.origin.commit({"vllm/a.py": lines(l5="base = 5")}, bench.base))
    assert "conflicts, after the base alone, in\n  vllm/a.py\n" in refusal(bench.stack(bench.head(2, head)))


def test_the_order_of_heads_matters(bench: Bench) -> None:
    below = bench.pull(1, {"vllm/a.py": lines(l5="one = 5")})
    above = bench.pull(2, {"vllm/a.py": lines(l5="two = 5")}, below)
    sideways = bench.pull(3, {"vllm/a.py": lines(l5="two = 5")})
    # #2 stands on #1. With #3, which says the same as #2, in front, #1 no longer fits.
    good = lock(bench.stack(bench.head(1, below), bench.head(2, above), bench.head(3, sideways), name="good"))
    assert [h.disposition for h in component(good).heads] == ["merged", "merged", "already in base"]
    told = refusal(bench.stack(bench.head(3, sideways), bench.head(1, below), bench.head(2, above), name="bad"))
    assert f"#1 ({below}) conflicts, after #3 (merged)" in told


def test_a_pull_request_of_another_history_is_refused(bench: Bench) -> None:
    alien = bench.origin.pull(9, bench.origin.commit({"vllm/a.py": "x\n"}))
    assert "#9 has no history in common with base_commit" in refusal(bench.stack(bench.head(9, alien)))


def test_a_component_without_heads_is_pinned_as_it_is(bench: Bench) -> None:
    only = component(lock(bench.stack()))
    assert (only.heads, only.files, only.tree) == ((), (), bench.origin.tree(bench.base))
