"""One comment per profile, changed in place; the status beside it; nothing twice and nothing over somebody's head."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.errors import ConfigError, SetupFailure
from harness.publish.body import compose, parse
from harness.publish.evidence import Publication
from harness.publish.github import GitHub
from harness.publish.publish import Options, check, publish
from harness.publish.token import Token
from tests.publish.conftest import TARGET, Clock, moved
from tests.publish.github import REPOSITORY, THEM, TOKEN, Fault, GitHubState
from tests.report.locks import PREWARM

ROOT = f"/repos/{REPOSITORY}"
COMMENTS = f"{ROOT}/issues/271/comments"
STATUS = f"{ROOT}/statuses/{PREWARM.head}"
OTHER = "f" * 40


def mine(state: GitHubState, what: Publication, **entry: str) -> dict[str, Any]:
    """A comment that was published before, with other evidence."""
    before = moved(what, root="b" * 64, **entry)
    return state.say(compose(what.profile, before.entry, "### FAIL: before\n", None, None))


# --- the comment ------------------------------------------------------------------------------------


def test_the_first_time_a_comment_is_made_and_the_status_set(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    state.say("unrelated")
    done = publish(github, evidence, options)
    assert state.writes() == [("POST", COMMENTS), ("POST", STATUS)]
    written = state.comments[-1]["body"]
    assert written == compose(evidence.profile, evidence.entry, evidence.text, None, PREWARM.head)
    assert not done.stale
    assert state.statuses[PREWARM.head] == [
        {
            "state": "success",
            "context": "qualify/cpu-forged",
            "description": f"pass: every judged row holds; root {evidence.entry.root[:12]}",
            "target_url": state.comments[-1]["html_url"],
        }
    ]


def test_the_next_time_it_is_changed_in_place_and_keeps_what_it_said(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    state.page = 2
    for n in range(5):
        state.say(f"unrelated {n}")
    before = mine(state, evidence, verdict="fail")
    state.say("unrelated")
    publish(github, evidence, options)
    assert state.writes()[0] == ("PATCH", f"{ROOT}/issues/comments/{before['id']}")
    assert len(state.comments) == 7
    found = parse(before["body"])
    assert found.current == evidence.entry
    assert [(e.root, e.verdict) for e in found.history] == [("b" * 64, "fail")]


def test_the_same_evidence_again_changes_no_comment(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    publish(github, evidence, options)
    publish(github, evidence, options)
    assert state.writes() == [("POST", COMMENTS), ("POST", STATUS), ("POST", STATUS)]
    first, second = state.statuses[PREWARM.head]
    assert first == second


def test_another_profile_has_a_comment_of_its_own(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    mine(state, replace(evidence, profile="cpu"))
    mine(state, replace(evidence, profile="cpu-forged-2"))
    publish(github, evidence, options)
    assert len(state.comments) == 3


def test_a_marker_that_somebody_else_wrote_is_ignored(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    body = compose(evidence.profile, moved(evidence, verdict="pass").entry, "### PASS: forged\n", None, None)
    forged = state.say(body, THEM)
    ghost = state.say(body)
    ghost["user"] = None
    quoted = state.say(f"> {body}")
    publish(github, evidence, options)
    assert state.writes()[0] == ("POST", COMMENTS)
    assert [forged["body"], ghost["body"], quoted["body"]] == [body, body, f"> {body}"]
    assert parse(state.comments[-1]["body"]).history == ()


def test_of_several_of_ours_the_oldest_is_kept_up(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    first, second = mine(state, evidence), mine(state, evidence)
    told = second["body"]
    publish(github, evidence, options)
    assert parse(first["body"]).current == evidence.entry
    assert second["body"] == told


# --- dry run ----------------------------------------------------------------------------------------


def test_a_dry_run_writes_nothing_and_tells_what_would_be_sent(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    before = mine(state, evidence)
    told = publish(github, evidence, replace(options, send=False)).calls
    assert state.writes() == []
    publish(github, evidence, options)
    sent = [s for s in state.seen if s.method != "GET"]
    assert [(c.method, c.url.removeprefix(state.url)) for c in told] == [(s.method, s.path) for s in sent]
    assert told[0].payload == sent[0].body
    link = {"target_url": before["html_url"]}
    assert told[1].payload | link == sent[1].body, "what only the answer names cannot be told before"


def test_a_dry_run_without_a_token_asks_nobody(
    state: GitHubState, clock: Clock, evidence: Publication, options: Options
) -> None:
    github = GitHub(state.url, None, clock.patience())
    done = publish(github, evidence, replace(options, send=False))
    assert state.seen == []
    assert done.calls[0].url == f"{state.url}{COMMENTS}"
    assert "no token: whether a comment is there, and whether the head moved, was not looked up" in done.notes
    with pytest.raises(ConfigError, match="--send needs a token"):
        publish(github, evidence, options)


# --- stale ------------------------------------------------------------------------------------------


def test_evidence_of_a_head_that_moved_is_published_as_stale_and_its_status_stays_on_what_was_measured(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    state.head = OTHER
    done = publish(github, evidence, options)
    assert done.stale
    assert f"STALE: measured at {PREWARM.head}, the head is {OTHER}" in done.notes
    assert f"**STALE**: measured at `{PREWARM.head}`" in state.comments[-1]["body"]
    assert list(state.statuses) == [PREWARM.head]


def test_a_published_comment_is_marked_once_the_head_moves_and_unmarked_when_it_is_back(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    publish(github, evidence, options)
    [comment] = state.comments
    fresh, written = comment["body"], len(state.writes())
    assert not check(github, evidence.profile, options).stale
    assert len(state.writes()) == written, "what is so already is not written again"
    state.head = OTHER
    assert check(github, evidence.profile, replace(options, send=False)).calls[0].method == "PATCH"
    assert comment["body"] == fresh
    assert check(github, evidence.profile, options).stale
    assert "> **STALE**" in comment["body"]
    assert check(github, evidence.profile, options).calls == ()
    state.head = PREWARM.head
    assert not check(github, evidence.profile, options).stale
    assert comment["body"] == fresh


def test_there_must_be_a_comment_of_ours_to_check(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    with pytest.raises(ConfigError, match=r"vllm#271 has no comment of this account about profile cpu-forged"):
        check(github, evidence.profile, options)
    state.edit(mine(state, evidence), f"{compose(evidence.profile, evidence.entry, '', None, None)[:40]} -->\n")
    with pytest.raises(ConfigError, match="no longer says which head was measured"):
        check(github, evidence.profile, options)


# --- two who publish --------------------------------------------------------------------------------


def test_an_edit_between_read_and_write_is_read_again_and_its_history_kept(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    before = mine(state, evidence)
    theirs = moved(evidence, root="c" * 64)

    def once(comment: dict[str, Any]) -> None:
        state.on_read = None
        told = compose(evidence.profile, theirs.entry, theirs.text, parse(comment["body"]), None)
        state.edit(comment, told)

    state.on_read = once
    publish(github, evidence, options)
    assert [e.root for e in parse(before["body"]).history] == ["c" * 64, "b" * 64]
    assert [m for m, _ in state.writes()] == ["PATCH", "POST"]


def test_a_comment_that_changes_all_the_time_is_left_alone(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    before = mine(state, evidence)
    state.on_read = lambda comment: state.edit(comment, f"{comment['body']}x")
    with pytest.raises(ConfigError, match="was edited twice while it was to be changed"):
        publish(github, evidence, options)
    assert state.writes() == []
    assert parse(before["body"]).current != evidence.entry


@pytest.mark.parametrize("tags", [True, False])
def test_a_comment_is_asked_for_once_more_before_it_is_changed(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options, tags: bool
) -> None:
    before, state.tags = mine(state, evidence), tags
    publish(github, evidence, options)
    assert parse(before["body"]).current == evidence.entry
    assert state.unchanged == int(tags)
    last = [s.method for s in state.seen if s.path.endswith(f"/comments/{before['id']}")]
    assert last == ["GET", "GET", "PATCH"]


# --- answers that come late or never ----------------------------------------------------------------


def test_a_lost_answer_makes_no_second_comment(
    github: GitHub, state: GitHubState, clock: Clock, evidence: Publication, options: Options
) -> None:
    state.faults.append(Fault("POST", "/comments$", lose=True))
    publish(github, evidence, options)
    assert len(state.comments) == 1
    assert [path for method, path in state.writes() if path == COMMENTS] == [COMMENTS]
    assert clock.slept == [1.0]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_post_that_was_not_carried_out_is_made_again(
    github: GitHub, state: GitHubState, clock: Clock, evidence: Publication, options: Options, status: int
) -> None:
    state.faults.append(Fault("POST", "/comments$", status, times=2))
    publish(github, evidence, options)
    assert len(state.comments) == 1
    assert clock.slept == [1.0, 2.0]


def test_a_changed_comment_and_a_status_may_be_sent_twice(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    before = mine(state, evidence)
    state.faults += [Fault("PATCH", "/comments/", lose=True), Fault("POST", "/statuses/", lose=True)]
    publish(github, evidence, options)
    assert parse(before["body"]).current == evidence.entry
    assert len(parse(before["body"]).history) == 1
    assert len(state.statuses[PREWARM.head]) == 2


def test_a_status_that_may_not_be_set_is_told_beside_the_comment_that_is_there(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    state.faults.append(Fault("POST", "/statuses/", 403, message="Resource not accessible by personal access token"))
    with pytest.raises(ConfigError) as caught:
        publish(github, evidence, options)
    for told in ("403", "Resource not accessible", "Commit statuses: write", "The comment is published", "--no-status"):
        assert told in str(caught.value)
    assert len(state.comments) == 1
    publish(github, evidence, replace(options, with_status=False))
    assert PREWARM.head not in state.statuses


# --- whose comments are ours ------------------------------------------------------------------------


def test_an_apps_token_cannot_say_whose_it_is(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    robot = {"id": 41898282, "login": "github-actions[bot]"}
    state.accounts[TOKEN] = robot
    state.faults.append(Fault("GET", "^/user$", 403, message="Resource not accessible by integration", times=9))
    with pytest.raises(ConfigError, match="--login"):
        publish(github, evidence, options)
    before = state.say(compose(evidence.profile, moved(evidence, root="b" * 64).entry, "x", None, None), robot)
    publish(github, evidence, replace(options, login="github-actions[bot]"))
    assert parse(before["body"]).current == evidence.entry


def test_the_link_to_the_evidence_is_that_of_the_status_too(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    publish(github, evidence, replace(options, evidence_url="https://evidence.example/b.zip"))
    assert state.statuses[PREWARM.head][0]["target_url"] == "https://evidence.example/b.zip"


def test_another_repository_is_not_found(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    with pytest.raises(ConfigError, match=r"404.*check --repo and --pr"):
        publish(github, evidence, replace(options, target=replace(TARGET, number=99)))
    assert state.writes() == []


def test_a_token_that_was_revoked_is_told_by_where_it_is_from(
    state: GitHubState, clock: Clock, evidence: Publication, options: Options
) -> None:
    github = GitHub(state.url, Token("ghp_revoked", "GITHUB_TOKEN"), clock.patience())
    with pytest.raises(ConfigError, match=r"401 \(Bad credentials\): the token is wrong.*\(GITHUB_TOKEN\)"):
        publish(github, evidence, options)


def test_a_commit_that_the_repository_does_not_have_gets_no_status(
    github: GitHub, state: GitHubState, evidence: Publication, options: Options
) -> None:
    state.commits.clear()
    with pytest.raises(ConfigError, match=r"422 \(No commit found for SHA"):
        publish(github, evidence, options)


def test_a_server_that_is_down_is_given_up_on(
    github: GitHub, state: GitHubState, clock: Clock, evidence: Publication, options: Options
) -> None:
    state.faults.append(Fault("GET", "/pulls/", 503, times=99))
    with pytest.raises(SetupFailure, match=r"GET .*/pulls/271: status 503, 6 times in a row"):
        publish(github, evidence, options)
    assert clock.slept == [1.0, 2.0, 4.0, 8.0, 16.0]
