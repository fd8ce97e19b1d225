"""Where commits come from: remotes, mirrors, and addresses that mean harm."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import SetupFailure
from harness.words import ExitCode
from tests.stack.bench import Bench, component, heads, lines, lock, refusal, written
from tests.stack.origin import Origin


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def served(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The origin over HTTP; the address carries credentials, as pasted from a CI log."""
    for name in ("http_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    handler = functools.partial(Quiet, directory=str(bench.origin.path.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://me:hunter2@127.0.0.1:{server.server_port}/vllm.git"
        server.shutdown()
        thread.join()


def mirror_of(bench: Bench, place: Path) -> Path:
    bench.origin.git("clone", "--quiet", "--mirror", str(bench.origin.path), str(place))
    return place


# --- credentials ---------------------------------------------------------------------------------------


def test_credentials_of_an_address_are_used_and_stand_in_no_file(bench: Bench, served: str) -> None:
    head = bench.pull(1, {"vllm/n.py": "n\n"})
    bench.origin.git("update-server-info")
    outcome = lock(bench.stack(bench.head(1, head), repository=served))
    assert heads(outcome)[1].head == head
    assert component(outcome).repository == served.replace("me:hunter2@", "")
    assert all(b"hunter2" not in data for data in written(outcome.folder).values())


@pytest.mark.parametrize("number", [1, 2])
def test_no_message_tells_credentials(bench: Bench, served: str, number: int) -> None:
    """Once the remote answers and has no such ref, once it is not there."""
    address = served if number == 1 else "http://me:hunter2@127.0.0.1:1/vllm.git?token=hunter2"
    bench.origin.git("update-server-info")
    told = refusal(bench.stack(bench.head(9, "a" * 40), repository=address))
    assert "127.0.0.1" in told
    assert "hunter2" not in told
    assert "me@" not in told


def test_two_users_of_a_repository_get_the_same_lock(bench: Bench, served: str) -> None:
    head = bench.pull(1, {"vllm/n.py": "n\n"})
    bench.origin.git("update-server-info")
    lock(bench.stack(bench.head(1, head), repository=served))
    plain = served.replace("me:hunter2@", "")
    assert lock(bench.stack(bench.head(1, head), repository=plain)).state == "unchanged"


# --- mirrors ---------------------------------------------------------------------------------------------


def test_a_mirror_serves_when_the_origin_is_gone_and_the_lock_is_the_same(bench: Bench) -> None:
    head = bench.pull(270, {"vllm/a.py": lines(l5="five = 5")})
    stack = bench.stack(bench.head(270, head[:12]))
    online = written(lock(stack).folder)
    mirror = mirror_of(bench, bench.root / "mirrors" / "vllm.git")
    bench.origin.path.rename(bench.root / "gone.git")
    with pytest.raises(SetupFailure) as caught:
        lock(stack)
    assert "; --mirror takes a local copy instead" in str(caught.value)
    for number, mirrors in enumerate(([str(mirror.parent)], [str(mirror)], [f"vllm={mirror}"])):
        offline = lock(stack, mirrors=tuple(mirrors), output=bench.root / f"offline{number}")
        assert written(offline.folder) == online


def test_a_mirror_is_found_by_the_repository_s_name_too_and_may_have_a_working_directory(bench: Bench) -> None:
    head = bench.pull(1, {"vllm/n.py": "n\n"})
    place = bench.root / "mirrors" / "fork"
    bench.origin.git("clone", "--quiet", str(bench.origin.path), str(place))
    bench.origin.git("-C", str(place), "fetch", "--quiet", "origin", "+refs/pull/*:refs/pull/*")
    stack = bench.stack(bench.head(1, head), repository="https://nowhere.invalid/lab/fork.git")
    assert heads(lock(stack, mirrors=(str(place.parent),)))[1].head == head


def test_a_stale_mirror_that_lacks_the_pull_request_says_how_to_make_one(bench: Bench) -> None:
    mirror = mirror_of(bench, bench.root / "vllm.git")
    head = bench.pull(1, {"vllm/n.py": "n\n"})
    told = refusal(bench.stack(bench.head(1, head)), mirrors=(str(mirror),))
    assert told == (
        f"component vllm: #1: {mirror} has no refs/pull/1/head; "
        "is the mirror up to date, and made with `git clone --mirror`?"
    )


def test_a_shallow_mirror_is_refused_and_not_taken_for_another_history(bench: Bench) -> None:
    head = bench.pull(1, {"vllm/n.py": "n\n"})
    shallow = Origin(bench.root / "shallow.git")
    shallow.git("fetch", "--quiet", "--depth=1", f"file://{bench.origin.path}", f"{head}:refs/pull/1/head")
    told = refusal(bench.stack(bench.head(1, head)), mirrors=(str(shallow.path),))
    assert f"{shallow.path} did not hand over #1; is it a shallow clone? A lock needs the history" in told


@pytest.mark.parametrize(
    ("mirrors", "told"),
    [
        (("/nowhere",), "--mirror: no git repository for component vllm (looked for /nowhere/vllm.git, "),
        (
            ("vllm=/nowhere",),
            "--mirror: no git repository for component vllm (looked for /nowhere); `git clone --mirror",
        ),
        (("vlm=/nowhere",), "--mirror vlm=/nowhere: there is no component `vlm` (vllm)"),
        (("vllm=/a", "vllm=/b"), "--mirror vllm=/b: component vllm has a mirror already, /a"),
        (("/a", "/b"), "--mirror /b: there is a folder already, /a; write COMPONENT=PATH"),
    ],
)
def test_a_mirror_that_is_none_is_refused(bench: Bench, mirrors: tuple[str, ...], told: str) -> None:
    assert refusal(bench.stack(), mirrors=mirrors).startswith(told)


# --- places ----------------------------------------------------------------------------------------------


def test_a_local_repository_is_seen_from_the_stack_file(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    head = bench.pull(1, {"vllm/n.py": "n\n"})
    monkeypatch.chdir("/")
    outcome = lock(bench.stack(bench.head(1, head), repository="../forge/vllm.git"))
    assert component(outcome).repository == "../forge/vllm.git"


def test_a_remote_that_is_not_there_is_a_failure_of_the_environment(bench: Bench) -> None:
    with pytest.raises(SetupFailure) as caught:
        lock(bench.stack(bench.head(1, "a" * 40), repository="../nowhere.git"))
    assert caught.value.exit_code == ExitCode.SETUP_FAILURE
    assert str(caught.value).startswith(
        "component vllm: cannot fetch from ../nowhere.git: fatal: '../nowhere.git' does "
    )
    assert str(bench.root) not in str(caught.value)


@pytest.mark.parametrize(
    "repository",
    [
        "--upload-pack=touch /tmp/owned",
        "-oProxyCommand=touch",
        "ext::sh -c touch% owned",
        "fd::3",
        "ssh://-oProxyCommand=touch/x",
        "ssh://me@-oProxyCommand=touch/x",
        "javascript://x/y",
        "https://host",
        "https://ho st/x",
        "https://host/x\n--upload-pack=y",
        "",
    ],
)
def test_an_address_that_is_an_option_or_runs_a_program_is_refused(bench: Bench, repository: str) -> None:
    told = refusal(bench.stack(bench.head(1, "a" * 40), repository=repository))
    assert "key `components.0.repository`: " in told


def test_a_path_that_looks_like_an_option_is_a_path(bench: Bench) -> None:
    """Seen from the stack's folder, so that git gets an absolute one."""
    told = refusal(bench.stack(bench.head(1, "a" * 40), repository="./--upload-pack=x"))
    assert "does not appear to be a git repository" in told


@pytest.mark.parametrize("pr", [0, -1, 2**31, "1", "1/head:refs/heads/main", True, 1.0])
def test_a_pull_request_is_a_number(bench: Bench, pr: object) -> None:
    stack = bench.stack(f"{{ pr = {json.dumps(pr)}, head = '{'a' * 40}' }}")
    assert "key `components.0.heads.0.pr`: " in refusal(stack)


@pytest.mark.parametrize(
    "head", ["abcdef", "A" * 40, "a" * 41, "HEAD", "refs/heads/x", "-aaaaaaa", "aaaaaaa\n", "aaaaaa^1"]
)
def test_a_head_is_digits(bench: Bench, head: str) -> None:
    assert "key `components.0.heads.0.head`: String should match" in refusal(bench.stack(bench.head(1, head)))
