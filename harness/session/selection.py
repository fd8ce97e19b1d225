"""What the user asked to run: profile, stacks and settings, each with where it came from."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass

from harness.config.load import Loaded, load_profile, load_stack
from harness.config.model import Profile, Stack
from harness.config.options import from_arguments, from_environment
from harness.session.host import choose_profile, gpus


@dataclass(frozen=True)
class Selection:
    """A profile and two stacks, ready to be planned."""

    profile: Loaded[Profile]
    control: Loaded[Stack]
    candidate: Loaded[Stack]
    smoke: bool
    why: str
    """Why this profile."""


def select(arguments: argparse.Namespace) -> Selection:
    """Resolve the command line.

    Raises:
        ConfigError: a name, file or value cannot be used.
        SetupFailure: the host cannot say what it is.
    """
    name, why = _profile_name(arguments.profile)
    overrides = [*from_environment(os.environ), *from_arguments(vars(arguments), arguments.set)]
    profile = load_profile(name, smoke=arguments.smoke, overrides=overrides)
    return Selection(
        profile=profile,
        control=load_stack(arguments.control or profile.model.control),
        candidate=load_stack(arguments.candidate or profile.model.candidate),
        smoke=arguments.smoke,
        why=why,
    )


def _profile_name(asked: str | None) -> tuple[str, str]:
    if asked:
        return asked, "option --profile"
    if named := os.environ.get("QUALIFY_PROFILE"):
        return named, "environment QUALIFY_PROFILE"
    choice = choose_profile(gpus())
    return choice.profile, choice.why
