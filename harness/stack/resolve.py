"""Pull requests to commits: ask the repository, hold the answer against the stack, fetch what is needed."""

from __future__ import annotations

from dataclasses import dataclass

from harness.config.components import Component, Head
from harness.errors import ConfigError, SetupFailure
from harness.stack.git import FETCH_TIMEOUT_S, Git, GitError
from harness.stack.sources import Source


@dataclass(frozen=True)
class ResolvedHead:
    """A head of the stack and the commit that it is now."""

    head: Head
    commit: str
    moved: bool


def pull_ref(number: int) -> str:
    """The ref under which a forge keeps a pull request's head."""
    return f"refs/pull/{number}/head"


def resolve(
    git: Git, component: Component, source: Source, heads: list[Head], *, where: str, update: bool
) -> list[ResolvedHead]:
    """The commits of `heads`, fetched into `git` together with the component's base commit.

    Raises:
        ConfigError: a head moved (unless `update`), is not there, or is named by too few digits.
        SetupFailure: the repository cannot be reached.
    """
    now = _ask(git, component, source, heads)
    resolved = [ResolvedHead(h, now[h.pr], moved=not now[h.pr].startswith(h.head)) for h in heads]
    moved = [r for r in resolved if r.moved]
    if moved and not update:
        lines = "\n".join(f"  {_told(r)}" for r in moved)
        raise ConfigError(
            f"component {component.name}: {len(moved)} of {len(heads)} heads are not those of {where}\n{lines}\n"
            "Write the new head into the stack once it was reviewed, or accept it on purpose with --update"
        )
    _fetch(git, component, source, resolved)
    for one in resolved:
        _refuse_ambiguous(git, component, one.head)
    return resolved


def _ask(git: Git, component: Component, source: Source, heads: list[Head]) -> dict[int, str]:
    """Head of each pull request, as the repository says."""
    if not heads:
        return {}
    try:
        answer = git.run("ls-remote", "--", source.address, *(pull_ref(h.pr) for h in heads), timeout_s=120)
    except GitError as e:
        raise _unreachable(component, source, e) from None
    lines = (line.partition("\t") for line in answer.out.decode("utf-8", "replace").splitlines())
    found = {ref: commit for commit, _, ref in lines}
    for head in heads:
        if len(found.get(pull_ref(head.pr), "")) != 40:
            mirrored = "; is the mirror up to date, and made with `git clone --mirror`?" if source.mirror else ""
            raise ConfigError(
                f"component {component.name}: #{head.pr}: {source.shown} has no {pull_ref(head.pr)}{mirrored}"
            )
    return {head.pr: found[pull_ref(head.pr)] for head in heads}


def _told(one: ResolvedHead) -> str:
    pairs = zip(one.head.head, one.commit, strict=False)
    same = next((place for place, (a, b) in enumerate(pairs) if a != b), 0)
    hint = f" (the first {same} digits agree: a typing error?)" if same >= 7 else ""
    return f"#{one.head.pr}: the stack expects {one.head.head}, {pull_ref(one.head.pr)} is now {one.commit}{hint}"


def _fetch(git: Git, component: Component, source: Source, heads: list[ResolvedHead]) -> None:
    kept = {r.head.pr: f"refs/qualify/pull/{r.head.pr}" for r in heads}
    if heads:
        try:
            _fetch_into(git, source, [f"+{pull_ref(number)}:{ref}" for number, ref in kept.items()])
        except GitError as e:
            raise _unreachable(component, source, e) from None
    for one in heads:
        fetched = git.run("rev-parse", "--verify", f"{kept[one.head.pr]}^{{commit}}", accept=(0, 128))
        if fetched.code != 0:
            raise ConfigError(
                f"component {component.name}: {source.shown} did not hand over #{one.head.pr}; is it a shallow clone? "
                "A lock needs the history (`git fetch --unshallow`)"
            )
        if fetched.text != one.commit:
            raise ConfigError(f"component {component.name}: #{one.head.pr} moved while it was fetched; lock again")
    _fetch_base(git, component, source)


def _fetch_base(git: Git, component: Component, source: Source) -> None:
    """Most often the heads' history holds it; else it is asked for by itself, and last as part of a branch."""
    base = component.base_commit
    failure: GitError | None = None
    for refspec in (None, f"+{base}:refs/qualify/base", "+refs/heads/*:refs/qualify/heads/*"):
        failure = None
        try:
            if refspec is not None:
                _fetch_into(git, source, [refspec])
        except GitError as e:
            failure = e
        if git.run("cat-file", "-e", f"{base}^{{commit}}", accept=(0, 1, 128)).code == 0:
            return
    if failure is not None:
        raise _unreachable(component, source, failure)
    raise ConfigError(f"component {component.name}: base_commit {base} is not in {source.shown}")


def _fetch_into(git: Git, source: Source, refspecs: list[str]) -> None:
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance")
    git.run("fetch", *options, "--", source.address, *refspecs, timeout_s=FETCH_TIMEOUT_S)


def _refuse_ambiguous(git: Git, component: Component, head: Head) -> None:
    if len(head.head) == 40:
        return
    names = git.run("rev-parse", f"--disambiguate={head.head}").out.decode("ascii").split()
    commits = [name for name in names if git.run("cat-file", "-t", name).text == "commit"]
    if len(commits) > 1:
        raise ConfigError(
            f"component {component.name}: #{head.pr}: {head.head} is the beginning of {len(commits)} commits "
            f"({', '.join(commits)}); write more digits"
        )


def _unreachable(component: Component, source: Source, error: GitError) -> SetupFailure:
    said = error.text.replace(source.address, source.shown)
    if "dubious ownership" in said:
        return SetupFailure(
            f"component {component.name}: {source.shown} belongs to another user, so git does not read it; "
            "make a mirror of your own with `git clone --mirror`"
        )
    instead = "" if source.mirror else "; --mirror takes a local copy instead"
    return SetupFailure(f"component {component.name}: cannot fetch from {source.shown}: {said}{instead}")
