"""One component from its pull requests to its part of the lock, its patch and its archive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.config.components import Component, Head, PatchFile
from harness.config.model import Stack
from harness.errors import ConfigError
from harness.stack.artifacts import write_composed, write_patch
from harness.stack.changes import changed_files, changed_paths, compiled_sources
from harness.stack.compose import Composition, Placed, compose
from harness.stack.git import Git, temporary_repository
from harness.stack.record import (
    COMPOSED_FILE,
    PATCH_FILE,
    Disposition,
    LockedComponent,
    LockedHead,
    LockedPatch,
)
from harness.stack.resolve import ResolvedHead, pull_ref, resolve
from harness.stack.selection import Left
from harness.stack.sources import Source


@dataclass(frozen=True)
class Locking:
    """What the components of a stack have in common while it is locked."""

    stack: Stack
    named_in: str
    """The file or files that name the heads."""
    folder: Path
    """Where the stack's own relative paths begin."""
    left: Left
    staging: Path
    update: bool

    def lock(self, component: Component, source: Source) -> LockedComponent:
        """Resolve and compose one component; its files are left in the staging folder.

        Raises:
            ConfigError: it cannot be locked as the stack describes it.
            SetupFailure: git is missing, or the repository cannot be reached.
        """
        wanted = [h for h in component.heads if self._is_wanted(component, h)]
        with temporary_repository() as git:
            resolved = resolve(git, component, source, wanted, where=self.named_in, update=self.update)
            for head in component.heads:
                if (component.name, head.pr) in self.left.out:
                    _refuse_hollow_leaving_out(git, component, head, resolved)
            trees = compose(git, component, resolved, self.folder)
            files = changed_files(git, component, trees.tree_before, trees.tree)
            builds = self.stack.build.mode == "source" and bool(component.build_command)
            if not builds and (compiled := compiled_sources(files)):
                raise ConfigError(_compiled_text(git, component, trees, compiled))
            place = self.staging / component.name
            return LockedComponent(
                name=component.name,
                repository=component.model_dump(include={"repository"})["repository"],
                base_commit=component.base_commit,
                base_tree=trees.base_tree,
                integration=_patch(component.integration) if component.integration else None,
                tree_before=trees.tree_before,
                heads=tuple(_head(component, head, trees.placed) for head in component.heads),
                patches=tuple(_patch(patch) for patch in component.patches),
                tree=trees.tree,
                packages=component.packages,
                install=component.install,
                source=component.source if builds else None,
                build_command=component.build_command if builds else "",
                patch_sha256=write_patch(git, trees.tree_before, trees.tree, place / PATCH_FILE),
                composed_sha256=write_composed(git, trees.tree, files, place / COMPOSED_FILE),
                files=files,
            )

    def _is_wanted(self, component: Component, head: Head) -> bool:
        return head.pr not in component.superseded and (component.name, head.pr) not in self.left.out


def _refuse_hollow_leaving_out(git: Git, component: Component, left: Head, kept: list[ResolvedHead]) -> None:
    """A head that others are built on comes in with them, and the lock would not be without it.

    Raises:
        ConfigError: `left` is part of a kept head, or of the base commit.
    """
    commit = git.run("rev-parse", "--verify", "--quiet", f"{left.head}^{{commit}}", accept=(0, 1, 128))
    if commit.code != 0:
        return  # nothing that was fetched contains it
    holders = [("the base commit", component.base_commit), *((f"#{r.head.pr}", r.commit) for r in kept)]
    for name, holder in holders:
        if git.run("merge-base", "--is-ancestor", commit.text, holder, accept=(0, 1)).code == 0:
            raise ConfigError(
                f"component {component.name}: --without {left.pr}: {name} contains its commits, so they would come in "
                "all the same; leave out what is built on it too"
            )


def _patch(patch: PatchFile) -> LockedPatch:
    return LockedPatch(file=Path(patch.path).name, sha256=patch.sha256)


def _head(component: Component, head: Head, placed: tuple[Placed, ...]) -> LockedHead:
    """What became of a head of the stack; also of one that nothing was done with."""
    found = next((p for p in placed if p.resolved.head.pr == head.pr), None)
    if found:
        disposition, note = found.disposition, found.note
    elif head.pr in component.superseded:
        disposition, note = Disposition.SUPERSEDED, f"#{component.superseded[head.pr]} replaces it"
    else:
        disposition, note = Disposition.LEFT_OUT, ""
    return LockedHead(
        pr=head.pr,
        ref=pull_ref(head.pr),
        title=head.title,
        strategy=head.strategy,
        expected=head.head,
        head=found.resolved.commit if found else None,
        moved=found.resolved.moved if found else False,
        disposition=disposition,
        replaces=head.replaces,
        note=note,
        tree=found.tree if found else None,
    )


def _compiled_text(git: Git, component: Component, trees: Composition, compiled: list[str]) -> str:
    """Which head brings which compiled source, and what to do about it."""
    lines = []
    before = trees.tree_before
    steps = [(f"#{p.resolved.head.pr}", p.tree) for p in trees.placed]
    for name, after in (*steps, ("local patches", trees.tree)):
        touched = changed_paths(git, before, after)
        lines += [f"  {name}: {path}" for path in compiled if path in touched]
        before = after
    reason = "compiled sources change, and an overlay of files would leave the image's old binaries in place"
    mend = (
        'Set [build] mode = "source" in the stack, and `source` and `build_command` in the component, to have them '
        "built, or leave these heads out"
    )
    return "\n".join((f"component {component.name}: {reason}", *lines, mend))
