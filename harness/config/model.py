"""Profiles and stacks as validated models. Units stand in the names: `_s`, `_tokens`, `_mib`, `_pct`.

A profile is a host class and a model; a stack is one arm. Both are TOML files that
`harness.config.load` reads, merges and validates.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from harness.config.checks import NEEDS_DOCKER, Check, each_once, union
from harness.config.claims import Claim, subject
from harness.config.components import Base, Build, Component
from harness.config.course import Course
from harness.config.flags import FlagValue, check_flag_name
from harness.config.image import Image
from harness.config.kinds import LIMIT, RequestKind
from harness.config.limits import (
    Client,
    Estimate,
    Gates,
    Nightly,
    Observe,
    Positive,
    Thermal,
    Timeouts,
    check_pairs,
)
from harness.config.strict import Strict
from harness.errors import ConfigError
from harness.words import Cache, Warmup

SCHEMA_VERSION = 1

FROZEN = "read from a bundle"
"""Validation context of a profile that was used already: its rules were those of its day."""

Share = Annotated[float, Field(ge=0, lt=1)]
Flags = dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9.\-_]*$")], FlagValue]

OWNED_FLAGS = frozenset({"host", "port", "served-model-name", "model", "uds", "api-key"})
"""Flags that the launcher sets itself; a profile that sets them would measure another server."""


class Host(Strict):
    """The class of host that a profile is written for."""

    gpus: int = Field(0, ge=0, description="GPUs that one lane needs; 0 = the CPU")
    gpu_name: str = Field("", description="substring of NVML's device name, '' = any")
    lanes: Positive = Field(1, description="A/Bs side by side, each on its own GPUs")


class Engine(Strict):
    """The vLLM that the process launcher starts."""

    command: tuple[str, ...] = Field((".venv-vllm/bin/vllm",), min_length=1, description="argv before `serve`")
    version: str = Field("", description="version that the engine must print, '' = any")


class Forge(Strict):
    """Arguments of a known-answer model; see `qualify forge --help`."""

    layers: Positive = 1
    hidden: Positive = 128
    head_size: Positive = 64
    kv_heads: Positive = 1
    intermediate: Positive = 128
    vocab: Positive | None = None
    max_context: Positive = 40_960
    seed: int = 0
    wrong_drafts: Share = 0.3
    changed_successor: bool = False
    mla: bool = False
    near_tie: bool = False


class Model(Strict):
    """What is served: a folder or a hub name, or a model that the harness forges."""

    path: str = Field("", description="folder or hub name; relative folders are below the project")
    forge: Forge | None = Field(None, description="forge this model and serve it")
    served_name: str = Field("qualified-model", min_length=1)

    @model_validator(mode="after")
    def _one_source(self) -> Model:
        if bool(self.path) == (self.forge is not None):
            raise ValueError("name either `path` or `forge`, not both and not neither")
        return self


class Serve(Strict):
    """Flags and environment of the server, over all modes."""

    flags: Flags = Field({})
    env: dict[str, str] = Field({})

    @model_validator(mode="after")
    def _flags_are_ours_to_set(self) -> Serve:
        for name in self.flags:
            check_flag_name(name)
            if name in OWNED_FLAGS:
                raise ValueError(f"flag `{name}` is set by the launcher itself; remove it here")
        return self

    def refuse_speculation(self, where: str) -> None:
        """Only a mode may speculate, because only a mode says how many tokens it drafts.

        Raises:
            ValueError: these flags hold a speculative config.
        """
        if any(name.partition(".")[0] == "speculative-config" for name in self.flags):
            raise ValueError(f"speculative-config stands in [{where}]; it belongs to a mode, beside its draft_tokens")


class Mode(Serve):
    """One decoding mode: mtp0 has no speculative config at all, mtp1 drafts one token."""

    draft_tokens: int = Field(0, ge=0, description="draft tokens per step")

    @model_validator(mode="after")
    def _config_agrees(self) -> Mode:
        config = self.flags.get("speculative-config")
        if not isinstance(config, dict | None) or any(name.startswith("speculative-config.") for name in self.flags):
            raise ValueError("write speculative-config as one table, so that draft_tokens can be held against it")
        asked = config.get("num_speculative_tokens") if config is not None else 0
        if asked != self.draft_tokens:
            raise ValueError(
                f"draft_tokens = {self.draft_tokens} contradicts speculative-config, which asks for {asked}"
            )
        return self


CHALLENGE_CHARACTERS = 200
CHALLENGE = re.compile(rf"(?! )[A-Za-z0-9._~:/?#@!$&'()*+,;=% -]{{1,{CHALLENGE_CHARACTERS}}}(?<! )")
"""It is shown in comments and pages, and hashed: what looks the same must be the same."""


class PlanConfig(Strict):
    """Which launches a session makes."""

    modes: tuple[str, ...] = Field(("mtp0", "mtp1"), min_length=1)
    warmups: tuple[Warmup, ...] = Field((Warmup.ENGINE, Warmup.PRIMED), min_length=1)
    caches: tuple[Cache, ...] = Field((Cache.COLD, Cache.WARM), min_length=1)
    pairs: Positive = Field(1, description="pairs of launches per warm cell; 1 or even")
    escalate_by: Literal[0, 2] = Field(0, description="pairs more, once, where a mode is inconclusive")
    rerun_void: bool = Field(True, description="run a pair whose measurement is void once more; both stay")
    burn_in: int = Field(0, ge=0, description="recorded launches per lane before the first measured pair")
    trace: bool = Field(False, description="per arm and mode, a launch of its own with the tracer inside the server")
    trace_caches: tuple[Cache, ...] = Field(
        (Cache.COLD,), min_length=1, description="such launches for each of these states of the caches"
    )
    seed: int = Field(0, ge=0)
    challenge: str = Field("", description="a reviewer's text that the prompts follow from, too")

    @field_validator("challenge")
    @classmethod
    def _one_line_of_an_address(cls, text: str) -> str:
        if text and not CHALLENGE.fullmatch(text):
            raise ValueError(
                f"challenge: write 1 to {CHALLENGE_CHARACTERS} characters that an address or a name has: "
                "letters and digits of ASCII, spaces inside, and any of ._~:/?#@!$&'()*+,;=%-"
            )
        return text

    @property
    def reserve(self) -> int:
        """Pairs of the second look; one pair tests nothing, so it cannot be inconclusive."""
        return self.escalate_by if self.pairs > 1 else 0

    @model_validator(mode="after")
    def _balanced(self) -> PlanConfig:
        check_pairs(self.pairs)
        for name in ("modes", "warmups", "caches"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise ValueError(f"{name} names something twice: {', '.join(values)}")
        return self


class Profile(Strict):
    """A host class and a model: everything about a session except its two arms."""

    schema_version: Literal[1] = 1
    name: str = Field(..., pattern=r"^[a-z0-9][a-z0-9\-]*$")
    description: str = Field(..., min_length=1)
    launcher: Literal["process", "docker"] = "process"
    host: Host = Host()
    engine: Engine = Engine()
    image: Image | None = None
    model: Model
    serve: Serve = Serve()
    modes: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9\-]*$")], Mode]
    warmup_off: Serve = Field(Serve(), description="switches off the engine's optional warm-ups")
    plan: PlanConfig = PlanConfig()
    course: Course = Course()
    timeouts: Timeouts = Timeouts()
    observe: Observe = Observe()
    thermal: Thermal = Thermal()
    client: Client = Client()
    gates: Gates = Gates()
    estimate: Estimate = Estimate()
    nightly: Nightly = Nightly()
    checks: tuple[Check, ...] = Field((), description="source checks, besides those of the stacks")
    control: str = Field("", description="stack of the control, '' = the profile as it is")
    candidate: str = Field("", description="stack of the candidate, '' = the profile as it is")

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Profile:
        if info.context == FROZEN:
            return self  # a rule that came later must not make old evidence unreadable
        for planned in self.plan.modes:
            if planned not in self.modes:
                known = ", ".join(self.modes)
                raise ValueError(f"plan.modes names `{planned}`, which [modes] does not define ({known})")
        if self.launcher == "docker" and self.image is None:
            raise ValueError('launcher = "docker" needs [image] with reference = "name@sha256:..."')
        if self.checks and self.launcher != "docker":
            raise ValueError(NEEDS_DOCKER)
        each_once(self.checks)
        if self.course.prompts == "text" and self.model.forge is not None:
            raise ValueError('course.prompts = "text" needs a tokenizer that knows words, and a forged model has none')
        self.serve.refuse_speculation("serve.flags")
        self.warmup_off.refuse_speculation("warmup_off.flags")
        for mode_name, mode in self.modes.items():
            for flag in mode.flags.keys() & self.serve.flags.keys():
                raise ValueError(f"flag `{flag}` stands in [serve.flags] and in [modes.{mode_name}.flags]; keep one")
        self._refuse_what_cannot_be_served()
        return self

    def kind_tokens(self, kind: RequestKind) -> int:
        """Prompt tokens of a kind of request under these flags."""
        limit = self.serve.flags.get("max-model-len")
        most = limit - self._most_draft_tokens if isinstance(limit, int) else 0
        return kind.prompt_length(self.course.longest_context, most)

    @property
    def _most_draft_tokens(self) -> int:
        """At the very limit vLLM drops the draft of the last step, and counts follow no arithmetic."""
        return max(mode.draft_tokens for mode in self.modes.values())

    def _refuse_what_cannot_be_served(self) -> None:
        """Streams and lengths beyond the engine's own limits."""
        kinds = self.course.kinds
        most, slots = max(max(c.streams) for c in self.course.contexts), self.serve.flags.get("max-num-seqs")
        if isinstance(slots, int) and most > slots:
            raise ValueError(f"course.contexts asks for {most} streams; serve.flags.max-num-seqs = {slots} runs fewer")
        limit = self.serve.flags.get("max-model-len")
        if not isinstance(limit, int) and (kind := next((k for k in kinds if k.prompt_tokens == LIMIT), None)):
            raise ValueError(f'kind `{kind.name}`: prompt_tokens = "limit" needs serve.flags.max-model-len as a number')
        needed = self.course.longest_tokens + self._most_draft_tokens
        if isinstance(limit, int) and needed > limit:
            raise ValueError(
                f"serve.flags.max-model-len = {limit} is below the longest request of the course and its draft "
                f"({needed} tokens); some versions would clip it silently"
            )


class Stack(Strict):
    """One arm: how it differs from the profile, and the patches that its image carries."""

    schema_version: Literal[1] = 1
    name: str = Field(..., pattern=r"^[a-z0-9][a-z0-9\-]*$")
    description: str = Field(..., min_length=1)
    extends: str = Field("", description="stack that this one adds to; its tables are already merged in here")
    model_path: str = Field("", description="serve this folder instead of the profile's model")
    forge: dict[str, int | float | bool] = Field({}, description="changed arguments of a forged model")
    serve: Serve = Serve()
    base: Base | None = None
    build: Build = Build()
    components: tuple[Component, ...] = ()
    claims: tuple[Claim, ...] = ()
    checks: tuple[Check, ...] = Field((), description="source checks; both arms run those of both stacks")

    @model_validator(mode="after")
    def _fits_together(self) -> Stack:
        if self.model_path and self.forge:
            raise ValueError("name either `model_path` or [forge], not both")
        self.serve.refuse_speculation("serve.flags")
        names = [component.name for component in self.components]
        if len(set(names)) != len(names):
            raise ValueError(f"components names something twice: {', '.join(names)}")
        if self.components and self.base is None:
            raise ValueError('[[components]] need the image that they go onto: [base] reference = "name@sha256:..."')
        each_once(self.checks)
        subjects = [subject(claim) for claim in self.claims]
        for about in subjects:
            if subjects.count(about) > 1:
                raise ValueError(f"claims says twice: {' '.join(str(part) for part in about if part is not None)}")
        return self


def planned_checks(profile: Profile, control: Stack, candidate: Stack) -> tuple[Check, ...]:
    """Source checks of a session: those of the profile and of both stacks.

    Raises:
        ConfigError: one name stands for two checks, or there is no image to run them in.
    """
    stacks = ((f"stack {stack.name}", stack.checks) for stack in (control, candidate))
    found = union(((f"profile {profile.name}", profile.checks), *stacks))
    if found and profile.launcher != "docker":
        raise ConfigError(f"check `{found[0].name}`: {NEEDS_DOCKER}")
    return found
