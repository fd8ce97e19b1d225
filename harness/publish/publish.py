"""Publish a bundle, or look whether what was published is still about the pull request's head."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import ConfigError, QualifyError
from harness.publish.answers import Comment
from harness.publish.body import compose, parse, with_head
from harness.publish.conversation import Call, Conversation, Found, same_text
from harness.publish.evidence import Publication, Target
from harness.publish.github import GitHub
from harness.publish.status import status


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    target: Target
    send: bool = False
    """False: nothing is written, and what would be is told."""
    evidence_url: str | None = None
    with_status: bool = True
    login: str | None = None


@dataclass(frozen=True)
class Done:
    """What was written, or would be."""

    calls: tuple[Call, ...]
    notes: tuple[str, ...]
    stale: bool


def publish(github: GitHub, publication: Publication, options: Options) -> Done:
    """One comment in place, then the status of the measured commit.

    Without a token a dry run asks GitHub nothing: it shows a first comment, and says so.

    Raises:
        ConfigError: not allowed, not there, or the comment changes meanwhile.
        SetupFailure: GitHub cannot be reached.
    """
    _refuse_without_token(github, options)
    talk, notes = Conversation(github, options.target, options.login), []
    found: Found | None = None
    head: str | None = None
    if github.has_token:
        head, found = talk.head(), talk.find(publication.profile)
    else:
        notes.append("no token: whether a comment is there, and whether the head moved, was not looked up")

    def body(comment: Comment | None) -> str:
        before = parse(comment.body or "") if comment else None
        return compose(publication.profile, publication.entry, publication.text, before, head)

    entry, url = publication.entry, options.evidence_url or ""
    text = body(found.comment if found else None)
    calls = []
    if found is not None and same_text(found.comment.body, text):
        notes.append(f"comment {found.comment.html_url or found.comment.id} says so already")
        url = url or found.comment.html_url
    else:
        calls.append(talk.call(found, text))
    if options.send and calls:
        written = talk.change(found, body) if found else talk.create(publication.profile, body(None))
        notes.append(f"comment {written.html_url or written.id} {'changed in place' if found else 'created'}")
        url = url or written.html_url
    stale = head is not None and head != entry.head
    if stale:
        notes.append(f"STALE: measured at {entry.head}, the head is {head}")
    if options.with_status:
        path = f"/repos/{options.target.repository}/statuses/{entry.head}"
        payload = status(publication, url)
        calls.append(Call("POST", f"{github.url}{path}", payload))
        if options.send:
            _set_status(github, path, payload)
            notes.append(f"status {payload['state']} set on {entry.head}")
    return Done(tuple(calls), tuple(notes), stale)


def check(github: GitHub, profile: str, options: Options) -> Done:
    """Whether the published evidence is still about the head; marked stale where it is not.

    Raises:
        ConfigError: there is no such comment, or it does not say what was measured.
        SetupFailure: GitHub cannot be reached.
    """
    if not github.has_token:
        raise ConfigError("--check reads the comment of the token's own account: give a token")
    talk = Conversation(github, options.target, options.login)
    head, found = talk.head(), talk.find(profile)
    if found is None:
        raise ConfigError(f"{options.target} has no comment of this account about profile {profile}; publish one")
    published = parse(found.comment.body or "").current
    if published is None:
        raise ConfigError(
            f"comment {found.comment.id} of {options.target} no longer says which head was measured: somebody edited "
            "its first line; publish again"
        )
    stale = published.head != head
    told = f"STALE: measured at {published.head}, the head is {head}" if stale else f"fresh: the head is still {head}"

    def body(comment: Comment | None) -> str:
        return with_head((comment.body if comment else None) or "", head)

    if same_text(found.comment.body, body(found.comment)):
        return Done((), (told, "the comment says so already"), stale)
    notes = [told]
    if options.send:
        notes.append(f"comment {talk.change(found, body).html_url or found.comment.id} changed in place")
    return Done((talk.call(found, body(found.comment)),), tuple(notes), stale)


def _refuse_without_token(github: GitHub, options: Options) -> None:
    if options.send and not github.has_token:
        raise ConfigError("--send needs a token: set QUALIFY_GITHUB_TOKEN or GITHUB_TOKEN, or give --token-file")


def _set_status(github: GitHub, path: str, payload: dict[str, str]) -> None:
    """A second status of one context takes the first one's place, so it may be sent twice."""
    try:
        github.send("POST", path, payload)
    except QualifyError as e:
        told = f"{e}\nThe comment is published; only the status is missing. --no-status leaves it out"
        raise type(e)(told) from None
