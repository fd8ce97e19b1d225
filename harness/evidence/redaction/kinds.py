"""What is removed, by kind, and what looks like it and names nobody."""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum


class Kind(StrEnum):
    """What is removed."""

    WORD = "word"
    """One that the user named."""
    KEY = "private key"
    TOKEN = "token"
    SECRET = "secret"
    EMAIL = "e-mail"
    UUID = "GPU UUID"
    SERIAL = "serial number"
    MAC = "MAC address"
    ADDRESS = "address"
    HOST = "host"
    USER = "user"

    @property
    def label(self) -> str:
        """How a placeholder begins; letters only, so that it may stand in a path, a URL and a name."""
        return _LABELS[self]


CREDENTIALS = frozenset({Kind.WORD, Kind.KEY, Kind.TOKEN, Kind.SECRET})
"""What may not be published at all; the other kinds may stand in source code, which is public."""

_LABELS = {
    Kind.WORD: "word",
    Kind.KEY: "key",
    Kind.TOKEN: "token",
    Kind.SECRET: "secret",
    Kind.EMAIL: "email",
    Kind.UUID: "GPU",
    Kind.SERIAL: "serial",
    Kind.MAC: "mac",
    Kind.ADDRESS: "address",
    Kind.HOST: "host",
    Kind.USER: "user",
}

PLACEHOLDER = re.compile(rf"(?:{'|'.join(_LABELS.values())})\d+|(?:GPU|MIG)-\d{{8}}(?:-0000){{3}}-0{{12}}|9{{3,}}\d+")
"""What was put in the place of something; it stays, whatever finds it again."""

_NOBODY = frozenset(
    """
    linux desktop laptop main build node master worker compute qualify root user users ubuntu debian nobody admin
    administrator guest runner app vllm docker container builder nonroot jovyan ec2-user azureuser opc shared public
    all none null true false localhost redacted default host hostname github gitlab git test tests model models data
    cache home work workspace src tmp sha256 server client control candidate engine launch lane mode arm step kind
    name
    """.split()  # noqa: SIM905  # sixty lines otherwise
)


def names_somebody(value: str) -> bool:
    """False for accounts and hosts that every machine has, and for words that evidence is made of."""
    return value.lower().rstrip(".") not in _NOBODY


def is_network_address(value: str) -> bool:
    """True for an address that leads to a machine: not this one itself, not everybody, no netmask."""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or address.is_multicast or value.startswith("255."))


def is_value(value: str) -> bool:
    """False for what says that there is no value, and for one that was removed before."""
    return not re.fullmatch(r"true|false|none|null|\*+|<?redacted>?", value, re.IGNORECASE)


def is_no_constant(value: str) -> bool:
    """False for a small number too: a kernel's `HEAD_KEY=64` is no credential."""
    return is_value(value) and not re.fullmatch(r"-?\d{1,6}(?:\.\d+)?", value)
