"""`qualify publish` as a user runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.cli import main
from harness.commands.publish import mismatches
from harness.evidence.bundle import Bundle
from harness.history.published import published
from harness.publish.body import marker
from harness.publish.conversation import Conversation
from harness.publish.evidence import sealed
from harness.words import ExitCode
from tests.publish.github import REPOSITORY, TOKEN, Fault, GitHubState
from tests.report.locks import PREWARM


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    monkeypatch.setenv("QUALIFY_GITHUB_TOKEN", TOKEN)


@pytest.fixture(autouse=True)
def _patches_of_the_lock_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The locks are by hand, without the patches that they name, so whole verification has its own test."""
    monkeypatch.setattr("harness.commands.publish.mismatches", sealed)


def run(bundle: Bundle, state: GitHubState, *arguments: str) -> int:
    return main(["publish", str(bundle.root), "--repo", REPOSITORY, "--pr", "271", "--api-url", state.url, *arguments])


def test_without_send_it_prints_method_address_and_body_and_writes_nothing(
    bundle: Bundle, state: GitHubState, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(bundle, state) == ExitCode.PASS
    out = capsys.readouterr().out
    assert state.writes() == []
    assert re.match(
        rf"POST {state.url}/repos/{REPOSITORY}/issues/271/comments\nJSON of one field, `body`, [\d,]+ characters:\n"
        rf"{re.escape(marker('cpu-forged'))}",
        out,
    )
    assert f"POST {state.url}/repos/{REPOSITORY}/statuses/{PREWARM.head}\n" in out
    assert '"context": "qualify/cpu-forged"' in out
    assert out.endswith("dry run: nothing was sent; --send sends it\n")
    assert TOKEN not in out


def test_with_send_it_is_there_and_it_says_where(
    bundle: Bundle, state: GitHubState, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(bundle, state, "--send", "--evidence-url", "https://evidence.example/b.zip") == ExitCode.PASS
    assert "- evidence: <https://evidence.example/b.zip>\n" in state.comments[0]["body"]
    assert capsys.readouterr().out.splitlines() == [
        f"comment {state.comments[0]['html_url']} created",
        f"status success set on {PREWARM.head}",
    ]


def test_what_was_published_is_kept_by_retention_and_a_dry_run_is_not(bundle: Bundle, state: GitHubState) -> None:
    run(bundle, state)
    assert published() == {}
    run(bundle, state, "--send")
    assert published() == {bundle.verdict().evidence_root_sha256: f"{REPOSITORY}#271"}


def test_what_does_not_verify_is_not_published(
    monkeypatch: pytest.MonkeyPatch, bundle: Bundle, state: GitHubState, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("harness.commands.publish.mismatches", mismatches)
    assert run(bundle, state, "--send") == ExitCode.USAGE
    assert "locks/candidate/lock.json: content: says the lock of the arm's image" in capsys.readouterr().err
    assert state.writes() == []


def test_check_tells_by_its_exit_code_that_the_head_moved(
    bundle: Bundle, state: GitHubState, capsys: pytest.CaptureFixture[str]
) -> None:
    run(bundle, state, "--send")
    assert run(bundle, state, "--check") == ExitCode.PASS
    state.head = "f" * 40
    assert run(bundle, state, "--check", "--send") == ExitCode.INCONCLUSIVE
    assert f"STALE: measured at {PREWARM.head}, the head is {'f' * 40}" in capsys.readouterr().out
    assert "**STALE**" in state.comments[0]["body"]


def test_the_token_can_come_from_a_file(
    bundle: Bundle, state: GitHubState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUALIFY_GITHUB_TOKEN")
    file = tmp_path / "token"
    file.write_text(TOKEN, "ascii")
    file.chmod(0o600)
    assert run(bundle, state, "--send", "--no-status", "--token-file", str(file)) == ExitCode.PASS
    assert state.comments
    assert not state.statuses


@pytest.mark.parametrize("status", [401, 403, 404, 422, 500, 503])
def test_no_failure_prints_the_token(
    bundle: Bundle, state: GitHubState, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    state.faults.append(Fault("POST", "/comments$", status, message=f"refused: {TOKEN}", times=99))
    assert run(bundle, state, "--send", "--max-wait", "0") in (ExitCode.USAGE, ExitCode.SETUP_FAILURE)
    told = capsys.readouterr()
    assert told.err.startswith("qualify: POST ")
    assert TOKEN not in told.out + told.err


def test_no_traceback_prints_the_token(
    bundle: Bundle, state: GitHubState, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Conversation) -> str:
        raise RuntimeError(vars(vars(self)["_github"]))

    monkeypatch.setattr(Conversation, "head", broken)
    assert run(bundle, state, "--send") == ExitCode.VOID
    told = capsys.readouterr().err
    assert "RuntimeError" in told
    assert "Token(from QUALIFY_GITHUB_TOKEN)" in told
    assert TOKEN not in told


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--repo", "vllm"), "write OWNER/NAME"),
        (("--repo", "../.."), "write OWNER/NAME"),
        (("--repo", "a/.."), "write OWNER/NAME"),
        (("--repo", "a/b/c"), "write OWNER/NAME"),
        (("--pr", "0"), "no number of a pull request"),
        (("--evidence-url", "javascript:alert(1)"), "--evidence-url is no address"),
        (("--evidence-url", "https://a.b/> @team"), "--evidence-url is no address"),
        (("--api-url", "http://api.github.com"), "in the clear"),
    ],
)
def test_what_is_no_target_is_refused_before_anybody_is_asked(
    bundle: Bundle, state: GitHubState, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], why: str
) -> None:
    assert run(bundle, state, *arguments) == ExitCode.USAGE
    assert why in capsys.readouterr().err
    assert state.seen == []
