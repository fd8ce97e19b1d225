"""The part of a stack that becomes an image: a pinned base, and per component the heads that go onto it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_serializer, model_validator

from harness.config.image import DIGEST_REFERENCE
from harness.config.strict import Strict

ObjectId = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
ExpectedHead = Annotated[str, Field(pattern=r"^[0-9a-f]{7,40}$")]
PullRequest = Annotated[int, Field(ge=1, le=2**31 - 1)]

URL = re.compile(r"^(?:file:///|(?:https?|git|ssh)://(?:[^/\s@]+@)?[A-Za-z0-9\[][^/\s@]*/)\S*$")
SCP_LIKE = re.compile(r"^(?:[A-Za-z0-9._][A-Za-z0-9._\-]*@)?[A-Za-z0-9][A-Za-z0-9.\-]*:[^:\s]\S*$")


def is_local(repository: str) -> bool:
    """True for a path on this machine, relative to the stack file or absolute."""
    return "://" not in repository and not SCP_LIKE.match(repository)


def public_url(repository: str) -> str:
    """The address without credentials: no user, no password, no query that could carry a token.

    The user name of an ssh address stays, because it is the same for everybody and the address is
    none without it.
    """
    scheme, separator, rest = repository.partition("://")
    if not separator:
        return repository
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    shown = f"{user.partition(':')[0]}@" if at and scheme == "ssh" else ""
    return f"{scheme}://{shown}{host}{slash}{re.split('[?#]', path)[0]}"


def untagged(reference: str) -> str:
    """The name of an image without tag and digest."""
    name = reference.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name  # a colon before the last slash belongs to a port


def _plain(text: str) -> str:
    if not text.isprintable():
        raise ValueError("control characters have no place here")
    return text


def _pinned(text: str) -> str:
    if not DIGEST_REFERENCE.fullmatch(text):
        raise ValueError(f"`{text}` is no pinned image; write name@sha256:<64 hex digits>, without a tag")
    return text


def _repository(text: str) -> str:
    # Nothing of this may reach git as an option, or as a transport that runs a program (`ext::sh -c ...`).
    if text.startswith("-") or "::" in text or ("://" in text and not URL.match(text)):
        raise ValueError("write a URL (https://, ssh://, git://, file://), host:path, or a path")
    return _plain(text)


def _relative(text: str) -> str:
    path = PurePosixPath(text)
    if path.is_absolute() or text.startswith("-") or path.as_posix() != text:
        # An absolute path would differ between machines, and name its user in evidence.
        raise ValueError("write a relative path, without `./` in front and `/` at the end")
    return _plain(text)


def _inside(text: str) -> str:
    if ".." in PurePosixPath(_relative(text)).parts:
        raise ValueError("the path leaves the repository")
    return text


def _absolute(text: str) -> str:
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or path.as_posix() != text or text.startswith("//"):
        raise ValueError("write an absolute path inside the image, without `..` and without `/` at the end")
    return _plain(text)


Text = Annotated[str, AfterValidator(_plain), Field(max_length=500)]


class Base(Strict):
    """The image that every overlay goes onto. Its manifest digest pins it; a tag would move."""

    reference: Annotated[str, AfterValidator(_pinned)] = Field(..., description="name@sha256:digest")
    release: Text = Field("", description="what its makers call it")

    @property
    def digest(self) -> str:
        """Digest of the manifest, as a registry names it."""
        return self.reference.partition("@")[2]


class PatchFile(Strict):
    """A patch in a file. The path is relative to the stack file that names it."""

    path: Annotated[str, AfterValidator(_relative), Field(min_length=1)]
    sha256: Sha256


class Integration(PatchFile):
    """The release's own patch: base commit and patch together are what the image holds."""

    tree: ObjectId = Field(..., description="git tree that base commit and patch must give")
    source: Text = Field("", description="where the file can be had")


class Head(Strict):
    """A pull request, and the head that is expected of it."""

    pr: PullRequest
    head: ExpectedHead = Field(..., description="commit; at least 7 of its 40 digits, the lock completes them")
    title: Text = ""
    replaces: PullRequest | None = Field(None, description="earlier pull request of this list that it supersedes")
    strategy: Literal["merge", "cherry-pick"] = "merge"


class Component(Strict):
    """A source tree that is installed in the image, and what goes onto it."""

    name: str = Field(..., pattern=r"^[a-z0-9][a-z0-9\-]*$")
    repository: Annotated[str, AfterValidator(_repository), Field(min_length=1)]
    base_commit: ObjectId
    base_tree: ObjectId | None = None
    integration: Integration | None = None
    packages: tuple[Annotated[str, AfterValidator(_inside), Field(min_length=1)], ...] = Field(
        ..., min_length=1, description="folders of the repository that are installed"
    )
    install: tuple[Annotated[str, AfterValidator(_absolute)], ...] = Field(
        ..., min_length=1, description="folders of the image that hold the packages; every copy is patched"
    )
    heads: tuple[Head, ...] = ()
    patches: tuple[PatchFile, ...] = ()
    source: Annotated[str, AfterValidator(_absolute)] | None = Field(
        None, description="folder of the image that holds the repository as it was built from"
    )
    build_command: Annotated[str, AfterValidator(_plain), Field(max_length=2000)] = Field(
        "", description='what `sh` runs in `source` where build.mode = "source"; it installs into every copy'
    )

    @field_serializer("repository")
    def _without_credentials(self, repository: str) -> str:
        return public_url(repository)  # plans and locks are evidence, and evidence is published

    @property
    def superseded(self) -> dict[int, int]:
        """Pull requests that another one replaces, with the number of that one."""
        return {head.replaces: head.pr for head in self.heads if head.replaces is not None}

    @model_validator(mode="after")
    def _heads_agree(self) -> Component:
        earlier: set[int] = set()
        replaced: dict[int, int] = {}
        for head in self.heads:
            if head.pr in earlier:
                raise ValueError(f"#{head.pr} stands twice in heads")
            if head.replaces is not None:
                if head.replaces not in earlier:
                    raise ValueError(f"#{head.pr} replaces #{head.replaces}, which no earlier head of the list is")
                if head.replaces in replaced:
                    both = f"#{replaced[head.replaces]} and #{head.pr}"
                    raise ValueError(f"#{head.replaces} is replaced twice, by {both}")
                replaced[head.replaces] = head.pr
            earlier.add(head.pr)
        if bool(self.build_command) != (self.source is not None):
            raise ValueError("source and build_command belong together: where to build, and how")
        for field, values in (("packages", self.packages), ("install", self.install)):
            if len(set(values)) != len(values):
                raise ValueError(f"{field} names something twice: {', '.join(values)}")
        return self


class Build(Strict):
    """How the composed files get into the image."""

    mode: Literal["overlay", "source"] = Field(
        "overlay", description="overlay lays files over every installed copy; source runs components' build_command"
    )
    network: Literal["none", "default"] = Field(
        "none", description="what build commands may reach; default: whatever the engine's containers may"
    )
    installs: tuple[Annotated[str, AfterValidator(_absolute)], ...] = Field(
        (), description="more folders of the image that build commands install into, e.g. /opt/venv/bin"
    )
