"""What one launch is started with: the profile, its mode and warm-up, and the arm's stack, laid together."""

from __future__ import annotations

import hashlib
from pathlib import Path

from filelock import FileLock

from harness.config.flags import FlagValue, to_argv
from harness.config.model import Forge, Profile, Stack
from harness.errors import ConfigError, SetupFailure
from harness.forge.recipe import Recipe
from harness.paths import PROJECT
from harness.records import Plan, PlannedLaunch
from harness.words import Warmup


def server_flags(profile: Profile, stack: Stack, launch: PlannedLaunch) -> dict[str, FlagValue]:
    """Flags of a launch. Later layers win: profile, mode, warm-up switches, stack.

    Tables merge: a stack that names a backend in kernel-config must not switch the warm-ups on again.
    """
    off = profile.warmup_off.flags if launch.warmup is Warmup.NONE else {}
    flags: dict[str, FlagValue] = dict(profile.serve.flags)
    for layer in (profile.modes[launch.mode].flags, off, stack.serve.flags):
        for name, value in layer.items():
            below = flags.get(name)
            flags[name] = below | value if isinstance(below, dict) and isinstance(value, dict) else value
    return flags


def environment_layers(profile: Profile, stack: Stack, launch: PlannedLaunch) -> tuple[dict[str, str], ...]:
    """Environment of a launch, in the same order."""
    off = profile.warmup_off.env if launch.warmup is Warmup.NONE else {}
    return (profile.serve.env, profile.modes[launch.mode].env, off, stack.serve.env)


def server_argv(plan: Plan, launch: PlannedLaunch, model: str, port: int, host: str = "127.0.0.1") -> list[str]:
    """The command of a launch, as a list; no shell ever sees it."""
    profile = plan.profile
    return [
        *engine_command(profile),
        "serve",
        model,
        "--served-model-name",
        profile.model.served_name,
        "--host",
        host,
        "--port",
        str(port),
        *to_argv(server_flags(profile, plan.stack(launch.arm), launch)),
    ]


def engine_command(profile: Profile) -> list[str]:
    """The engine's command; a relative first item that holds a slash lies below the project, but not in an image."""
    first, *rest = profile.engine.command
    if profile.launcher == "docker":
        return [first, *rest]
    return [str(PROJECT / first) if "/" in first else first, *rest]


def model_of(profile: Profile, stack: Stack, forged_root: Path) -> str:
    """Folder or hub name of the arm's model; a forged one is made where it is missing.

    Raises:
        ConfigError: the stack changes arguments of a model that is not forged, or wrongly.
        SetupFailure: a named folder does not exist.
    """
    if stack.forge and profile.model.forge is None:
        raise ConfigError(f"stack {stack.name}: [forge] changes a forged model, but the profile serves another")
    forge_arguments = None if stack.model_path else profile.model.forge
    if forge_arguments is None:
        return _existing(stack.model_path or profile.model.path)

    from harness.forge.checkpoint import forge  # noqa: PLC0415  # numpy, only where a model is made

    arguments = forge_arguments.model_dump() | stack.forge
    try:
        recipe = Recipe(**Forge.model_validate(arguments).model_dump())
    except ValueError as e:
        raise ConfigError(f"stack {stack.name}: [forge]: {e}") from None
    name = hashlib.sha256(repr(sorted(recipe.arguments().items())).encode()).hexdigest()[:12]
    forged_root.mkdir(parents=True, exist_ok=True)
    with FileLock(forged_root / f".{name}.lock"):  # two sessions that begin at once want the same model
        return str(forge(forged_root / name, recipe))


def _existing(path: str) -> str:
    for folder in (Path(path), PROJECT / path):
        if folder.is_dir():
            return str(folder.resolve())
    if path.startswith(("/", ".")):
        raise SetupFailure(f"model folder {path} does not exist; name yours with --set model.path=...")
    return path  # a hub name: the engine resolves it from its own (offline) cache
