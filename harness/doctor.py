"""Look at this machine: what it can run, what is missing, and what mends it."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from typing import Literal

import psutil

from harness.config.load import load_profile
from harness.config.model import Profile
from harness.errors import QualifyError
from harness.paths import PROJECT, results_root
from harness.session.compose import engine_command
from harness.session.host import profile_of_this_host
from harness.session.opening import engine_version

FREE_GIB_NEEDED = 5
MEMORY_GIB_NEEDED = 6


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    state: Literal["ok", "note", "FAIL"]
    subject: str
    text: str


def examine(profile: str | None = None) -> list[Finding]:
    """Everything that decides whether a session of the profile can run here; nothing is changed.

    Args:
        profile: name or path; None for the one that `qualify run` would choose on this host.
    """
    chosen, found = _profile(profile)
    return [
        Finding("ok", "Python", sys.version.split()[0]),
        Finding("ok", "project", str(PROJECT)),
        found,
        _engine(needed=chosen is None or chosen.launcher == "process"),
        _compiler(),
        _memory(),
        _disk(),
        _docker(),
    ]


def _profile(name: str | None) -> tuple[Profile | None, Finding]:
    try:
        if name is not None:
            return load_profile(name).model, Finding("ok", "profile", name)
        choice = profile_of_this_host()
        text = f"{choice.profile} ({choice.why})"
        return load_profile(choice.profile).model, Finding("ok", "profile for this host", text)
    except QualifyError as e:
        return None, Finding("FAIL", "GPUs" if name is None else "profile", str(e))


def _engine(*, needed: bool) -> Finding:
    """The engine of the embedded profile; a remark where the profile starts its own from an image."""
    bad: Literal["note", "FAIL"] = "FAIL" if needed else "note"
    profile = load_profile("cpu-forged").model
    executable = engine_command(profile)[0]
    if shutil.which(executable) is None:
        return Finding(bad, "embedded engine", f"{executable} is missing; run `make setup`")
    version = engine_version([executable])
    if version.partition("+")[0] != profile.engine.version:
        return Finding(bad, "embedded engine", f"vLLM {version}, expected {profile.engine.version}; run `make setup`")
    return Finding("ok", "embedded engine", f"vLLM {version}")


def _compiler() -> Finding:
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        return Finding("FAIL", "C++ compiler", "none; Inductor needs one: install g++ or clang++")
    return Finding("ok", "C++ compiler", found)


def _memory() -> Finding:
    gib = psutil.virtual_memory().available / (1 << 30)
    state: Literal["ok", "FAIL"] = "ok" if gib >= MEMORY_GIB_NEEDED else "FAIL"
    text = f"{gib:.1f} GiB available, {len(os.sched_getaffinity(0))} cores"
    return Finding(
        state, "memory", text if state == "ok" else f"{text}; the embedded profile needs {MEMORY_GIB_NEEDED}"
    )


def _disk() -> Finding:
    folder = results_root()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free / (1 << 30)
    state: Literal["ok", "FAIL"] = "ok" if free >= FREE_GIB_NEEDED else "FAIL"
    return Finding(state, "disk", f"{free:.1f} GiB free for {folder}" + ("" if state == "ok" else "; make room"))


def _docker() -> Finding:
    from harness.launch.docker.engine import client_version, connect  # noqa: PLC0415  # the SDK, only where it is needed

    try:
        engine = connect()
    except QualifyError as e:
        return Finding("note", "Docker", f'{e} (only profiles with launcher = "docker" need it)')
    text = f"engine {engine.version} answers (API {engine.api_version}), client {client_version()}"
    engine.close()
    return Finding("ok", "Docker", text)
