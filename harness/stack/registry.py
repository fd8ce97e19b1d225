"""Which digest a tag stands for now, as far as a registry or this machine's engine can tell.

Only used to say in a message what to write instead of a tag; nothing is ever pulled.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import requests

from harness.config.components import untagged

TIMEOUT_S = 5.0
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
LOOPBACK = ("localhost", "127.0.0.1")
REFERENCE = re.compile(r"[a-z0-9][A-Za-z0-9._:/\-]*")


def digest_now(reference: str) -> str:
    """A sentence that names the digest behind a tag and who says so; '' where nobody could be asked."""
    if not REFERENCE.fullmatch(reference):
        return ""
    if digest := _from_registry(reference):
        return f"its registry says that the tag is {digest} now"
    if digest := _from_engine(reference):
        return f"the copy in this machine's engine is {digest} (the tag may have moved since it was pulled)"
    return ""


def _from_registry(reference: str) -> str | None:
    """Ask a registry that the name spells out; the public ones want a token first, and are left alone."""
    name = untagged(reference)
    host, slash, repository = name.partition("/")
    if not slash or not (host.partition(":")[0] in LOOPBACK or ":" in host or "." in host):
        return None
    tag = reference[len(name) + 1 :] or "latest"
    scheme = "http" if host.partition(":")[0] in LOOPBACK else "https"
    try:
        answer = requests.head(
            f"{scheme}://{host}/v2/{repository}/manifests/{tag}",
            headers={"Accept": ", ".join(MANIFESTS)},
            timeout=TIMEOUT_S,
        )
    except requests.RequestException:
        return None
    digest = answer.headers.get("Docker-Content-Digest", "")
    return digest if answer.status_code == 200 and DIGEST.fullmatch(digest) else None


def _from_engine(reference: str) -> str | None:
    """Ask the engine, if it is there, what it knows of an image that was pulled by this name."""
    command = ["docker", "image", "inspect", "--format", "{{json .RepoDigests}}", reference]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
        digests: Any = json.loads(done.stdout) if done.returncode == 0 else []
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    name = _familiar(untagged(reference))
    for entry in digests or []:
        repository, _, digest = str(entry).partition("@")
        if _familiar(repository) == name and DIGEST.fullmatch(digest):
            return digest
    return None


def _familiar(name: str) -> str:
    """The engine shortens names of Docker Hub."""
    return name.removeprefix("docker.io/").removeprefix("library/")
