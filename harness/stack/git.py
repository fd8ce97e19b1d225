"""The one place that runs git: a bare repository of our own, an environment made from nothing.

What git does must not depend on whose machine it runs on: no configuration of the user or the system,
no hooks, no attributes, no prompts, fixed names and dates. And what a repository contains is a
stranger's: nothing of it is checked out, and only transports that run no program are allowed.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.config.components import public_url
from harness.errors import SetupFailure

NEEDED = (2, 38)
"""The first git that merges trees without a working directory (merge-tree --write-tree)."""
LOCAL_TIMEOUT_S = 600.0
FETCH_TIMEOUT_S = 3600.0

PASSED_ON = (
    *("PATH", "TMPDIR", "LD_LIBRARY_PATH", "SSH_AUTH_SOCK"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
)
"""How to reach the network; none of it changes what is composed."""

ENVIRONMENT = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    **{f"GIT_{who}_NAME": "vllm-qualify" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "qualify@localhost" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_DATE": "2000-01-01T00:00:00+0000" for who in ("AUTHOR", "COMMITTER")},
}

CONFIG = {
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.compression": "6",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "maintenance.auto": "false",
    "merge.directoryRenames": "conflict",
    "merge.renameLimit": "30000",
    "merge.renames": "true",
    "protocol.version": "2",
}


class GitError(SetupFailure):
    """Git refused or failed; callers that know what it means say so in better words."""

    def __init__(self, action: str, code: int, text: str) -> None:
        self.text = text
        super().__init__(f"git {action} failed (exit code {code}): {text or 'it said nothing'}")


@dataclass(frozen=True)
class Done:
    """What a git command answered."""

    code: int
    out: bytes

    @property
    def text(self) -> str:
        """The output as one line of ASCII: an object id, a type."""
        return self.out.decode("ascii", "replace").strip()


@dataclass(frozen=True)
class Git:
    """A bare repository that only we write to."""

    directory: Path

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        accept: tuple[int, ...] = (0,),
        index: Path | None = None,
        timeout_s: float = LOCAL_TIMEOUT_S,
    ) -> Done:
        """Run one command in the repository.

        Raises:
            GitError: its exit code is none of `accept`, or it took too long.
            SetupFailure: there is no git.
        """
        try:
            done = subprocess.run(
                self._argv(arguments),
                input=stdin if stdin is not None else b"",
                capture_output=True,
                env=_environment(index),
                cwd=self.directory,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise GitError(arguments[0], -1, f"no answer within {timeout_s:.0f} s") from None
        except (FileNotFoundError, PermissionError):
            raise SetupFailure(
                f"git is not installed, or not on PATH; install git {NEEDED[0]}.{NEEDED[1]} or newer"
            ) from None
        if done.returncode not in accept:
            raise GitError(arguments[0], done.returncode, _last_words(done.stderr))
        return Done(done.returncode, done.stdout)

    @contextlib.contextmanager
    def stream(self, *arguments: str) -> Iterator[IO[bytes]]:
        """Output of one command as a pipe: for contents that may not fit into memory.

        Raises:
            GitError: it failed.
        """
        # What git says goes to a file: a second pipe that nobody reads could fill up.
        with (
            tempfile.TemporaryFile() as words,
            subprocess.Popen(
                self._argv(arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=words,
                env=_environment(None),
                cwd=self.directory,
            ) as process,
        ):
            assert process.stdout is not None
            yield process.stdout
            process.stdout.read()
            if process.wait() != 0:
                words.seek(0)
                raise GitError(arguments[0], process.returncode, _last_words(words.read()))

    def _argv(self, arguments: tuple[str, ...]) -> list[str]:
        settings = [item for key, value in CONFIG.items() for item in ("-c", f"{key}={value}")]
        return ["git", *settings, f"--git-dir={self.directory}", *arguments]


@contextlib.contextmanager
def temporary_repository() -> Iterator[Git]:
    """An empty bare repository, removed afterwards.

    Raises:
        SetupFailure: there is no git, or it is too old.
    """
    with tempfile.TemporaryDirectory(prefix="qualify-lock-") as folder:
        git = Git(Path(folder).resolve() / "repository.git")
        git.directory.mkdir()
        version = git.run("version").text
        numbers = re.search(r"(\d+)\.(\d+)", version)
        if numbers is None or (int(numbers[1]), int(numbers[2])) < NEEDED:
            raise SetupFailure(f"`{version}` is too old: git {NEEDED[0]}.{NEEDED[1]} or newer is needed")
        git.run("init", "--bare", "--quiet", "--template=", "--object-format=sha1", "--initial-branch=none", ".")
        yield git


def _environment(index: Path | None) -> dict[str, str]:
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {**passed, **ENVIRONMENT, **({"GIT_INDEX_FILE": str(index)} if index else {})}


def _last_words(stderr: bytes) -> str:
    """The lines that say what went wrong, without credentials that an address may carry."""
    text = re.sub(r"\w+://[^\s'\"]+", lambda url: public_url(url[0]), stderr.decode("utf-8", "replace"))
    lines = [line for line in text.splitlines() if line.startswith(("fatal:", "error:", "ERROR:", "remote:"))]
    return "; ".join(line.strip() for line in (lines or text.splitlines())[-3:])
