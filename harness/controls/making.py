"""From a control to the command of a session: `qualify run` as a user would type it, and the files that it names."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import harness
from harness.config.model import Profile
from harness.controls.control import Arms, Control, Engine
from harness.evidence.bundle import write_atomically
from harness.fakes import faults, nvml
from harness.fakes.nvml import Gpu, Host, write_host

PACKAGE = Path(harness.__file__).resolve().parents[1]
"""Where the built-in server is imported from, by whichever Python runs it."""

SMALL = (
    "course.kinds=[]",
    "course.contexts=[{prompt_tokens=2048, prefill_passes=1, decode_passes=1}]",
    "course.decode_output_tokens=128",
    'plan.caches=["cold"]',
    "serve.flags.enforce-eager=true",
    "client.selftest_s=0",
)
"""Of a forged profile, no more than the controls need: a start without compilation takes half as long."""

SERVED = ("course.kinds=[]", 'plan.caches=["cold"]', "client.selftest_s=0")
"""Of any other profile, beside its [smoke] table."""


@dataclass(frozen=True)
class Made:
    """A session that is ready to be started."""

    engine: Engine
    arguments: tuple[str, ...]
    """Of `qualify run`."""
    environment: Mapping[str, str]


def make(control: Control, folder: Path, profile: Profile | None, given: tuple[str, ...] = ()) -> Made:
    """Write the control's files below `folder`.

    Args:
        control: what is made.
        folder: of the whole self-test.
        profile: whose engine shows it, where it can; None = the built-in server shows all.
        given: options that choose and change that profile.
    """
    arms, engine = control.on(profile)
    place = folder / "inputs" / control.name
    settings = list(arms.settings)
    environment: dict[str, str] = {}
    if engine is Engine.PROFILE and profile is not None:
        base = [*given, "--smoke"]
        settings = [*(SMALL if profile.model.forge is not None else SERVED), *settings]
    else:
        base = ["--profile", str(_fake_profile(place))]
        settings.append(_env("PYTHONPATH", str(PACKAGE)))
    settings += [_env(name, value) for name, value in arms.both.items()]
    if arms.gpu:
        uuid = f"GPU-{folder.name}-{control.name}"  # sessions lock their GPUs by these, over the whole host
        write_host(place / "nvml", Host(gpus=(Gpu(uuid),)))
        environment[nvml.VARIABLE] = str(place / "nvml")
        settings += ["host.gpus=1", _env(nvml.VARIABLE, str(place / "nvml"))]
    stack = arms.stack or _stack(control, arms, place, profile)
    candidate = ["--candidate", stack] if stack else []
    sets = [part for setting in settings for part in ("--set", setting)]
    return Made(engine, (*base, *candidate, *sets), environment)


def _env(name: str, value: str) -> str:
    return f"serve.env.{name}={json.dumps(value)}"


def _fake_profile(place: Path) -> Path:
    text = Path(__file__).with_name("fake.toml").read_text("utf-8")
    command = json.dumps([sys.executable, "-m", "harness.fakes"])
    file = place / "profile.toml"
    write_atomically(file, f"{text}\n[engine]\ncommand = {command}\n".encode())
    return file


def _stack(control: Control, arms: Arms, place: Path, profile: Profile | None) -> str:
    """A stack file of a candidate that none of stacks/ is; '' where it differs in nothing."""
    flags = arms.flags(profile) if callable(arms.flags) and profile is not None else arms.flags
    environment = dict(arms.environment)
    if arms.faults:
        environment[faults.VARIABLE] = arms.faults
    if not flags and not environment:
        return ""
    assert not callable(flags), "flags that follow from a profile are for its engine"
    lines = ["schema_version = 1", f'name = "{control.name}"', f"description = {json.dumps(control.worse)}"]
    for table, values in (("flags", flags), ("env", environment)):
        if values:
            lines += [f"\n[serve.{table}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    file = place / "candidate.toml"
    write_atomically(file, ("\n".join(lines) + "\n").encode())
    return str(file)


def quick(control: Control) -> Control:
    """The control on the built-in server, whatever the profile."""
    return replace(control, forged=None, served=None)
