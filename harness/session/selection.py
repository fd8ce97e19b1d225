"""What the user asked to run: profile, stacks and settings, each with where it came from."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.config.load import Loaded, load_profile, load_stack
from harness.config.model import Profile, Stack
from harness.config.options import from_arguments, from_environment
from harness.session.host import profile_of_this_host
from harness.words import Arm


@dataclass(frozen=True)
class Selection:
    """A profile and two stacks, ready to be planned."""

    profile: Loaded[Profile]
    control: Loaded[Stack]
    candidate: Loaded[Stack]
    smoke: bool
    why: str
    """Why this profile."""
    control_lock: Path | None = None
    """Lock to use instead of the stack's own: a leave-one-out lock, or one that somebody else made."""
    candidate_lock: Path | None = None

    def stack(self, arm: Arm) -> Loaded[Stack]:
        """The stack of an arm."""
        return self.control if arm is Arm.CONTROL else self.candidate

    def lock_folder(self, arm: Arm) -> Path | None:
        """The lock that was named for an arm, or None."""
        return self.control_lock if arm is Arm.CONTROL else self.candidate_lock


Override = tuple[str, object, str]
"""Dotted key, value, and where it came from."""


def select(arguments: argparse.Namespace, *, below: Iterable[Override] = ()) -> Selection:
    """Resolve the command line. Values of `below` lie over the profile, and under what the user gives.

    Raises:
        ConfigError: a name, file or value cannot be used.
        SetupFailure: the host cannot say what it is.
    """
    name, why = profile_name(arguments.profile)
    overrides = [*below, *from_environment(os.environ), *from_arguments(vars(arguments), arguments.set)]
    profile = load_profile(name, smoke=arguments.smoke, overrides=overrides)
    return Selection(
        profile=profile,
        control=load_stack(arguments.control or profile.model.control),
        candidate=load_stack(arguments.candidate or profile.model.candidate),
        smoke=arguments.smoke,
        why=why,
        control_lock=_folder(arguments.control_lock),
        candidate_lock=_folder(arguments.candidate_lock),
    )


def _folder(text: str | None) -> Path | None:
    return Path(text) if text else None


def profile_name(asked: str | None) -> tuple[str, str]:
    """Name of the profile that was asked for, or that fits this host, and why."""
    if asked:
        return asked, "option --profile"
    if named := os.environ.get("QUALIFY_PROFILE"):
        return named, "environment QUALIFY_PROFILE"
    choice = profile_of_this_host()
    return choice.profile, choice.why
