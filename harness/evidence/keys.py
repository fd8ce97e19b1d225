"""The host's signing key: ed25519, made once, kept outside of everything that is shown to others.

A key that somebody made for himself says that two bundles come from the same holder, and that nothing was
changed since he signed. It says neither who he is nor when: a reviewer's challenge dates a run, and a
reviewer's own copy of the public key (`qualify keys show`) says whose signature he takes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ConfigError
from harness.paths import PROJECT, locks_root, results_root

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from securesystemslib.signer import CryptoSigner, SSlibKey  # type: ignore[attr-defined]  # it re-exports them

NAME = "host.ed25519.pem"
SHORT = 12
"""Digits of a key's id that people are shown."""


@dataclass(frozen=True)
class HostKey:
    """The key of this host."""

    path: Path
    signer: CryptoSigner

    @property
    def id(self) -> str:
        """Key id, as every signature names it: 64 hex digits."""
        return str(self.signer.public_key.keyid)

    @property
    def public(self) -> str:
        """The public half, as PEM."""
        return public_text(self.signer.public_key)


def key_path() -> Path:
    """Where this host's key lies: QUALIFY_KEY, else below `$XDG_CONFIG_HOME/qualify/keys`."""
    if named := os.environ.get("QUALIFY_KEY"):
        return Path(named).absolute()
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config).absolute() / "qualify" / "keys" / NAME


def make_key(path: Path | None = None) -> HostKey:
    """Make a key, readable for its owner alone.

    Raises:
        ConfigError: there is one already, or the place is one whose files are shown to others.
    """
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # heavy, and rarely needed
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    path = path or key_path()
    _refuse_place(path, (PROJECT, results_root(), locks_root()))
    data = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise ConfigError(
            f"{path} is there already, and evidence is signed with it; `qualify keys show` shows it, "
            "QUALIFY_KEY names another place"
        ) from None
    except OSError as e:
        raise ConfigError(f"{path} cannot be written: {e.strerror}; QUALIFY_KEY names another place") from None
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(descriptor)
    key = load_key(path)
    assert key is not None
    return key


def load_key(path: Path | None = None) -> HostKey | None:
    """This host's key; None where it has none, and so signs nothing.

    Raises:
        ConfigError: it is there and cannot be used: readable for others, no ed25519 key, in a place that is
            shown to others, or named by QUALIFY_KEY and missing.
    """
    named = path is not None or bool(os.environ.get("QUALIFY_KEY"))
    path = path or key_path()
    if not path.exists():
        if named:
            raise ConfigError(f"QUALIFY_KEY: {path} is not there; `qualify keys init` makes it")
        return None
    _refuse_place(path, (PROJECT, results_root(), locks_root()))
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ConfigError(f"{path} may be read by others (mode {mode:04o}); chmod 600 it, or make another one")
    from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]  # noqa: PLC0415

    return HostKey(path, CryptoSigner(_private(path)))


def _private(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as e:
        raise ConfigError(f"{path} is no private key without a password: {type(e).__name__}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path} is no ed25519 key; `qualify keys init` makes one")
    return key


def public_key(text: str) -> SSlibKey:
    """A public key from its PEM.

    Raises:
        ConfigError: it is none, or none of ed25519.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415
    from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]  # noqa: PLC0415

    try:
        key = load_pem_public_key(text.encode())
    except (ValueError, TypeError) as e:
        raise ConfigError(f"no public key in PEM: {type(e).__name__}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError("a public key, but none of ed25519")
    return SSlibKey.from_crypto(key)


def public_text(key: SSlibKey) -> str:
    """A public key as PEM."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415

    raw = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.keyval["public"]))
    return raw.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def read_public_keys(paths: Iterable[Path]) -> tuple[SSlibKey, ...]:
    """The public keys whose signatures somebody takes.

    Raises:
        ConfigError: a file cannot be read or holds none.
    """
    found = []
    for path in paths:
        try:
            found.append(public_key(path.read_text("ascii")))
        except (OSError, ValueError) as e:
            raise ConfigError(f"{path}: cannot be read as a public key: {e}") from None
        except ConfigError as e:
            raise ConfigError(f"{path}: {e}") from None
    return tuple(found)


def short(key_id: str) -> str:
    """A key's id as people are shown it."""
    return key_id[:SHORT]


def _refuse_place(path: Path, places: Iterable[Path]) -> None:
    for place in places:
        if path.resolve().is_relative_to(place.resolve()):
            raise ConfigError(
                f"{path} lies in {place}, whose files are shown to others; QUALIFY_KEY names a place outside"
            )
