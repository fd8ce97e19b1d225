"""Put the heads onto the base, one after the other, and say what became of each.

No file is ever checked out: trees are merged as trees, with names and dates that never change, so
that the same commits give the same trees on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.config.components import Component, Integration, PatchFile
from harness.errors import ConfigError
from harness.stack.git import Git, GitError
from harness.stack.record import Disposition
from harness.stack.resolve import ResolvedHead


@dataclass(frozen=True)
class Placed:
    """A head that was put onto the tree, or was there already."""

    resolved: ResolvedHead
    disposition: Disposition
    note: str
    tree: str


@dataclass(frozen=True)
class Composition:
    """Trees of a component from its base commit to its result."""

    base_tree: str
    tree_before: str
    placed: tuple[Placed, ...]
    tree: str


def compose(git: Git, component: Component, heads: Iterable[ResolvedHead], stack_folder: Path) -> Composition:
    """The trees that base, integration patch, heads and patches give, in that order.

    Raises:
        ConfigError: a tree is not the one that the stack names, a head conflicts, a patch does not fit.
    """
    where = f"component {component.name}"
    base_tree = _tree_of(git, component.base_commit)
    if component.base_tree not in (None, base_tree):
        raise ConfigError(f"{where}: base_commit has tree {base_tree}, base_tree says {component.base_tree}")
    tree_before = base_tree
    if component.integration is not None:
        patch = _read(component.integration, stack_folder, where)
        tree_before = _apply(git, base_tree, patch, f"{where}: integration patch {component.integration.path}")
        if tree_before != component.integration.tree:
            raise ConfigError(
                f"{where}: base_commit and integration patch give tree {tree_before}, but the image holds "
                f"{component.integration.tree}; one of the three is of another release"
            )
    at = _commit(git, tree_before, "The base image's tree", component.base_commit)
    placed: list[Placed] = []
    for resolved in heads:
        before = placed[-1].tree if placed else tree_before
        try:
            one, at = _place(git, component, resolved, at, before)
        except _Conflict as e:
            raise ConfigError(_conflict_text(where, resolved, e.files, placed)) from None
        placed.append(one)
    tree = placed[-1].tree if placed else tree_before
    for local in component.patches:
        tree = _apply(git, tree, _read(local, stack_folder, where), f"{where}: patch {local.path}")
    return Composition(base_tree, tree_before, tuple(placed), tree)


def check_patches(component: Component, stack_folder: Path) -> None:
    """Look at the patch files alone: a missing one is told before a large repository is fetched.

    Raises:
        ConfigError: one is not there, or not the one that the stack names.
    """
    for patch in (*((component.integration,) if component.integration else ()), *component.patches):
        _read(patch, stack_folder, f"component {component.name}")


def _read(patch: PatchFile, folder: Path, where: str) -> bytes:
    """Content of a patch file, hashed before anything is done with it."""
    path = folder / patch.path
    hint = f"; get it from {patch.source}" if isinstance(patch, Integration) and patch.source else ""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise ConfigError(f"{where}: patch {path} cannot be read ({e.strerror}){hint}") from None
    found = hashlib.sha256(data).hexdigest()
    if found != patch.sha256:
        raise ConfigError(f"{where}: patch {path} has SHA-256 {found}, the stack says {patch.sha256}{hint}")
    return data


class _Conflict(Exception):  # noqa: N818  # never leaves this module
    def __init__(self, files: list[str]) -> None:
        self.files = files


def _place(git: Git, component: Component, resolved: ResolvedHead, at: str, before: str) -> tuple[Placed, str]:
    """Put one head onto commit `at`, whose tree is `before`; the outcome and the new commit."""
    commit, head = resolved.commit, resolved.head
    if git.run("merge-base", "--is-ancestor", commit, at, accept=(0, 1)).code == 0:
        of_base = git.run("merge-base", "--is-ancestor", commit, component.base_commit, accept=(0, 1)).code == 0
        note = "ancestor of the base commit" if of_base else "part of an earlier head"
        return Placed(resolved, Disposition.ALREADY_IN_BASE, note, before), at
    fork = git.run("merge-base", at, commit, accept=(0, 1)).text
    if not fork:
        raise ConfigError(
            f"component {component.name}: #{head.pr} has no history in common with base_commit; "
            "is it another repository, or a mirror without its history?"
        )
    if head.strategy == "merge":
        tree = _merged(git, at, commit)
        after = _commit(git, tree, f"Merge #{head.pr}", at, commit)
        disposition = Disposition.MERGED
    else:
        after = _cherry_picked(git, component, resolved, at, fork)
        tree = _tree_of(git, after)
        disposition = Disposition.CHERRY_PICKED
    if tree == before:
        return Placed(resolved, Disposition.ALREADY_IN_BASE, "it changes nothing any more", before), after
    return Placed(resolved, disposition, "", tree), after


def _cherry_picked(git: Git, component: Component, resolved: ResolvedHead, at: str, fork: str) -> str:
    """The head's own commits, one by one, onto `at`."""
    listing = git.run("rev-list", "--reverse", "--topo-order", "--parents", f"{fork}..{resolved.commit}").text
    for commit, *parents in (line.split() for line in listing.splitlines()):
        if len(parents) != 1:
            raise ConfigError(
                f"component {component.name}: #{resolved.head.pr} cannot be cherry-picked: its commit {commit} is a "
                'merge; use strategy = "merge"'
            )
        # Three commits of ours whose common ancestor is the picked commit's parent: git 2.38 has no other
        # way to name the base of a merge of trees.
        root = _commit(git, _tree_of(git, parents[0]), "base of a pick")
        ours = _commit(git, _tree_of(git, at), "ours", root)
        theirs = _commit(git, _tree_of(git, commit), "theirs", root)
        at = _commit(git, _merged(git, ours, theirs), f"Pick {commit} of #{resolved.head.pr}", at)
    return at


def _merged(git: Git, ours: str, theirs: str) -> str:
    """Tree of the merge.

    Raises:
        _Conflict: there is none without a decision.
    """
    done = git.run("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs, accept=(0, 1))
    tree, *files = done.out.decode("utf-8", "backslashreplace").rstrip("\0").split("\0")
    if done.code == 1:
        raise _Conflict(files)
    return tree


def _commit(git: Git, tree: str, message: str, *parents: str) -> str:
    chain = [item for parent in parents for item in ("-p", parent)]
    return git.run("commit-tree", tree, "-m", message, *chain).text


def _tree_of(git: Git, commit: str) -> str:
    return git.run("rev-parse", "--verify", f"{commit}^{{tree}}").text


def _apply(git: Git, tree: str, patch: bytes, what: str) -> str:
    """Tree after a patch. Git itself refuses paths that leave the tree, and has no fuzz."""
    index = git.directory.parent / "index"
    git.run("read-tree", tree, index=index)
    try:
        git.run("apply", "--cached", "--whitespace=nowarn", "-", stdin=patch, index=index)
    except GitError as e:
        raise ConfigError(f"{what} does not apply: {e.text}") from None
    return git.run("write-tree", index=index).text


def _conflict_text(where: str, resolved: ResolvedHead, files: list[str], placed: list[Placed]) -> str:
    after = ", ".join(f"#{p.resolved.head.pr} ({p.disposition})" for p in placed) or "the base alone"
    names = "\n".join(f"  {name}" for name in files)
    return (
        f"{where}: #{resolved.head.pr} ({resolved.commit}) conflicts, after {after}, in\n{names}\n"
        "Another order of heads, a rebased head, or a head that `replaces` one of the others may mend it"
    )
