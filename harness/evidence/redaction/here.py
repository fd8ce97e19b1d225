"""What is private because it names the account and the machine that this runs on."""

from __future__ import annotations

import contextlib
import getpass
import socket

from harness.evidence.redaction.kinds import Kind, names_somebody

SHORTEST = 4
"""A shorter name is looked for only where a rule finds it: it means too much else."""


def known_here() -> list[tuple[Kind, str]]:
    """Names of the host and of the account; none that every machine has."""
    full = socket.gethostname()
    found = [(Kind.HOST, name) for name in dict.fromkeys((full, full.partition(".")[0]))]
    with contextlib.suppress(KeyError, OSError):  # an account without a name, as in a container
        found.append((Kind.USER, getpass.getuser()))
    return [(kind, name) for kind, name in found if len(name) >= SHORTEST and names_somebody(name)]
