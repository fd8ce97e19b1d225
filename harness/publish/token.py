"""The token for GitHub: from the environment or a file that nobody else can read, and never shown."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from requests import PreparedRequest
from requests.auth import AuthBase

from harness.errors import ConfigError

VARIABLES = ("QUALIFY_GITHUB_TOKEN", "GITHUB_TOKEN")
"""The first one that is set counts."""

_PLAIN = re.compile(r"[!-~]{1,1000}")


class Token(AuthBase):
    """Puts itself into the header of a request; its text is in no message, `repr` or traceback."""

    def __init__(self, value: str, origin: str) -> None:
        """Keep a token.

        Raises:
            ConfigError: it could not stand in a header; the libraries' own error would print it.
        """
        if not _PLAIN.fullmatch(value):
            raise ConfigError(f"{origin} holds no token: it is empty, or has spaces or line breaks inside")
        self.__value = value
        self.origin = origin

    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        """As requests asks for it."""
        r.headers["Authorization"] = f"Bearer {self.__value}"
        return r

    def __repr__(self) -> str:
        """Where it is from."""
        return f"Token(from {self.origin})"

    def hidden(self, text: str) -> str:
        """A text of the server's, which may repeat what it was sent."""
        return text.replace(self.__value, "[token]")


def find_token(file: Path | None, environment: Mapping[str, str]) -> Token | None:
    """The token of the file that is named, else of the environment; None without one.

    Raises:
        ConfigError: the file cannot be read, others can read it too, or there is no token in it.
    """
    if file is not None:
        return Token(_read(file).strip(), str(file))
    name = next((n for n in VARIABLES if environment.get(n)), None)
    return None if name is None else Token(environment[name].strip(), name)


def _read(file: Path) -> str:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as e:
        raise ConfigError(f"--token-file {file}: cannot be read ({e.strerror})") from None
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"--token-file {file}: no regular file")
        if status.st_mode & 0o077:
            mode = stat.filemode(status.st_mode)
            raise ConfigError(f"--token-file {file}: others may read it ({mode}); `chmod 600 {file}`")
        return stream.read(4096).decode("ascii", "replace")
