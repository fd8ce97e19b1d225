"""The connection: what is made again and how long is waited, where the token goes, and what an error says."""

from __future__ import annotations

import pytest

from harness.errors import ConfigError, SetupFailure
from harness.publish.github import GitHub, checked_url
from harness.publish.token import Token
from tests.publish.conftest import Clock
from tests.publish.github import REPOSITORY, TOKEN, Fault, GitHubState, serving

PULL = f"/repos/{REPOSITORY}/pulls/271"


# --- limits -----------------------------------------------------------------------------------------


def test_a_limit_that_names_a_time_is_waited_for(github: GitHub, state: GitHubState, clock: Clock) -> None:
    state.faults.append(Fault("GET", "/pulls/", 429, {"Retry-After": "17"}))
    assert github.get(PULL).status == 200
    assert clock.slept == [17.0]


def test_the_primary_limit_is_waited_for_until_its_reset(github: GitHub, state: GitHubState, clock: Clock) -> None:
    reset = str(int(clock.time) + 40)
    state.faults.append(Fault("GET", "/pulls/", 403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}))
    github.get(PULL)
    assert clock.slept == [41.0]


def test_the_secondary_limit_is_waited_for_a_minute_and_longer_each_time(
    github: GitHub, state: GitHubState, clock: Clock
) -> None:
    state.faults.append(Fault("GET", "/pulls/", 403, message="You have exceeded a secondary rate limit", times=2))
    github.get(PULL)
    assert clock.slept == [60.0, 120.0]


def test_a_limit_that_is_further_away_than_the_bound_is_not_waited_for(
    github: GitHub, state: GitHubState, clock: Clock
) -> None:
    state.faults.append(Fault("GET", "/pulls/", 429, {"Retry-After": "3600"}))
    with pytest.raises(SetupFailure, match=r"rate limit: to go on takes 3,600 s more.*--max-wait allows 300 s"):
        github.get(PULL)
    assert clock.slept == []


def test_all_waiting_together_is_bounded(state: GitHubState, clock: Clock) -> None:
    github = GitHub(state.url, Token(TOKEN, "a test"), clock.patience(bound_s=90))
    state.faults.append(Fault("GET", "/pulls/", 429, {"Retry-After": "40"}, times=9))
    with pytest.raises(SetupFailure, match="80 s are spent"):
        github.get(PULL)
    assert clock.slept == [40.0, 40.0]


def test_a_limit_that_never_ends_is_given_up_on(github: GitHub, state: GitHubState, clock: Clock) -> None:
    state.faults.append(Fault("GET", "/pulls/", 429, {"Retry-After": "0"}, times=99))
    with pytest.raises(SetupFailure, match="the rate limit holds after 6 attempts"):
        github.get(PULL)
    assert sum(clock.slept) == 0


def test_a_post_that_a_limit_refused_is_made_again(github: GitHub, state: GitHubState) -> None:
    state.faults.append(Fault("POST", "/comments$", 403, {"Retry-After": "1"}))
    github.create(f"/repos/{REPOSITORY}/issues/271/comments", {"body": "x"})
    assert [c["body"] for c in state.comments] == ["x"]


# --- connections ------------------------------------------------------------------------------------


def test_a_connection_that_breaks_is_made_again(github: GitHub, state: GitHubState, clock: Clock) -> None:
    state.faults.append(Fault("GET", "/pulls/", lose=True, times=2))
    assert github.get(PULL).status == 200
    assert clock.slept == [1.0, 2.0]


def test_nobody_there_is_told_after_the_last_attempt(clock: Clock) -> None:
    with serving(GitHubState(head="")) as state:
        url = state.url
    with pytest.raises(SetupFailure, match=r"GET http://127.0.0.1:\d+/user: ConnectionError, 6 times in a row"):
        GitHub(url, Token(TOKEN, "a test"), clock.patience()).get("/user")


def test_what_is_no_api_is_told(github: GitHub, state: GitHubState) -> None:
    state.faults.append(Fault("GET", "/comments$", 200))
    with pytest.raises(SetupFailure, match="no list came back; is http"):
        list(github.every(f"/repos/{REPOSITORY}/issues/271/comments"))


# --- where the token goes ---------------------------------------------------------------------------


def test_the_token_goes_into_the_header_of_the_host_that_was_named(github: GitHub, state: GitHubState) -> None:
    github.get(PULL)
    assert [s.authorization for s in state.seen] == [f"Bearer {TOKEN}"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(github: GitHub, state: GitHubState, status: int) -> None:
    with serving(GitHubState(head="")) as elsewhere:
        state.faults.append(Fault("GET", "/pulls/", status, {"Location": f"{elsewhere.url}/x"}))
        with pytest.raises(ConfigError, match=r"moved to 127.0.0.1:\d+, where the token is not sent"):
            github.get(PULL)
        assert elsewhere.seen == []


def test_a_next_page_on_another_host_is_not_fetched(github: GitHub, state: GitHubState) -> None:
    state.page = 1
    state.say("a")
    state.say("b")
    with serving(GitHubState(head="")) as elsewhere:
        state.url = elsewhere.url
        with pytest.raises(ConfigError, match="the next page is said to lie elsewhere"):
            list(github.every(f"/repos/{REPOSITORY}/issues/271/comments"))
        assert elsewhere.seen == []


def test_nothing_of_a_netrc_is_sent_without_a_token(
    state: GitHubState, clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("machine 127.0.0.1 login a password b\n", "ascii")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    GitHub(state.url, None, clock.patience()).get(PULL)
    assert [s.authorization for s in state.seen] == [None]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://api.github.com", "in the clear"),
        ("https://user:secret@api.github.com", "user's name or password"),
        ("ftp://api.github.com", "no address of an API"),
        ("https://", "no address of an API"),
        ("https://api.github.com?token=x", "no address of an API"),
        ("https://[::1", "no address of an API"),
        ("http://127.0.0.1.evil.example", "in the clear"),
    ],
)
def test_an_address_that_would_give_the_token_away_is_refused(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        checked_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["https://github.example/api/v3", "http://127.0.0.1:8080", "http://[::1]:1", "http://localhost:1"]
)
def test_an_enterprise_server_and_this_host_are_fine(url: str) -> None:
    assert checked_url(f"{url}/") == url


# --- the token is in no message ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422])
def test_a_server_that_repeats_the_token_does_not_get_it_printed(
    github: GitHub, state: GitHubState, status: int
) -> None:
    state.faults.append(Fault("GET", "/pulls/", status, message=f"\x1b[31mno {TOKEN}\nhere"))
    with pytest.raises((ConfigError, SetupFailure)) as caught:
        github.get(PULL)
    assert TOKEN not in str(caught.value)
    assert f"{status} (no [token] here)" in str(caught.value)
