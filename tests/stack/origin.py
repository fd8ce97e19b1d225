"""A forge in a folder: a bare repository with refs/pull/N/head, made of plumbing, without a working directory."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_AUTHOR_DATE": "2026-08-08T10:00:00+0200",
    "GIT_COMMITTER_DATE": "2026-08-08T10:00:00+0200",
}


@dataclass(frozen=True)
class Entry:
    """Content with another mode than a plain file's."""

    mode: str
    content: bytes | str


def link(target: str) -> Entry:
    return Entry("120000", target)


def program(text: str) -> Entry:
    return Entry("100755", text)


def submodule(commit: str = "1" * 40) -> Entry:
    return Entry("160000", commit)


Changes = dict[str, str | bytes | Entry | None]
"""Path to new content; None takes the file away."""


class Origin:
    """A bare repository, and the few things that a forge does with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--bare", "--initial-branch=main", ".")
        self.commits = 0

    def git(self, *arguments: str, stdin: bytes = b"", index: str = "") -> str:
        env = ENVIRONMENT | ({"GIT_INDEX_FILE": index} if index else {})
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env=env, input=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "replace").strip()

    def commit(self, changes: Changes, *parents: str) -> str:
        """A commit whose tree is the first parent's with these changes."""
        self.commits += 1
        tree = self.tree_with(changes, f"{parents[0]}^{{tree}}" if parents else "")
        chain = [item for parent in parents for item in ("-p", parent)]
        return self.git("commit-tree", tree, "-m", f"commit {self.commits}", *chain)

    def tree_with(self, changes: Changes, tree: str = "") -> str:
        index = str(self.path.parent / f"{self.path.name}.index")
        self.git("read-tree", *([tree] if tree else ["--empty"]), index=index)
        lines = []
        for path, content in changes.items():
            entry = content if isinstance(content, Entry) or content is None else Entry("100644", content)
            if entry is None:
                lines.append(f"0 {'0' * 40}\t{path}")
            elif entry.mode == "160000":
                lines.append(f"160000 {entry.content!s}\t{path}")
            else:
                data = entry.content if isinstance(entry.content, bytes) else entry.content.encode()
                lines.append(f"{entry.mode} {self.git('hash-object', '-w', '--stdin', stdin=data)}\t{path}")
        self.git(
            "update-index", "-z", "--index-info", stdin="".join(f"{line}\0" for line in lines).encode(), index=index
        )
        return self.git("write-tree", index=index)

    def branch(self, name: str, commit: str) -> str:
        self.git("update-ref", f"refs/heads/{name}", commit)
        return commit

    def pull(self, number: int, commit: str) -> str:
        """Open a pull request, or push to it."""
        self.git("update-ref", f"refs/pull/{number}/head", commit)
        return commit

    def tree(self, commit: str) -> str:
        return self.git("rev-parse", f"{commit}^{{tree}}")

    def patch(self, before: str, after: str) -> bytes:
        return subprocess.run(
            ["git", "diff", "--binary", before, after], cwd=self.path, env=ENVIRONMENT, capture_output=True, check=True
        ).stdout
