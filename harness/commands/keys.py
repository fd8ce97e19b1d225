"""The host's signing key: make it, show its public half."""

from __future__ import annotations

import argparse

from harness.commands.base import Commands


def add(commands: Commands) -> None:
    """Add these commands to the parser."""
    keys = commands.add_parser("keys", help="the key that signs this host's evidence: init makes it, show shows it")
    keys.add_argument("action", choices=("init", "show"), help="make one, never over another; or show the public half")
    keys.set_defaults(command=_keys)


def _keys(arguments: argparse.Namespace) -> int:
    from harness.errors import ConfigError  # noqa: PLC0415
    from harness.evidence.keys import key_path, load_key, make_key  # noqa: PLC0415

    key = make_key() if arguments.action == "init" else load_key()
    if key is None:
        raise ConfigError(f"this host has no key at {key_path()}, and signs nothing; `qualify keys init` makes one")
    print(f"{key.path}: ed25519 key {key.id}")
    print(key.public, end="")
    return 0
