"""What is read of GitHub's answers; all else in them is left alone."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from harness.errors import SetupFailure


class User(BaseModel):
    """An account, also of an app (`github-actions[bot]`)."""

    id: int
    login: str


class Comment(BaseModel):
    """A comment on an issue or a pull request."""

    id: int
    body: str | None = None
    user: User | None = None
    """None where the account is gone."""
    updated_at: str = ""
    html_url: str = ""

    @property
    def state(self) -> tuple[str | None, str]:
        """What changes when somebody edits it."""
        return self.body, self.updated_at


class Head(BaseModel):
    """The tip of a pull request's branch."""

    sha: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class Pull(BaseModel):
    """A pull request."""

    head: Head


A = TypeVar("A", bound=BaseModel)


def read(kind: type[A], tree: Any, what: str) -> A:
    """An answer as a record.

    Raises:
        SetupFailure: it is none, so this is no API of GitHub.
    """
    try:
        return kind.model_validate(tree)
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, fault["loc"]))
        raise SetupFailure(f"{what}: no {kind.__name__.lower()} came back (`{key}`: {fault['msg']})") from None
