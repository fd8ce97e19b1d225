"""The closed vocabularies of the harness: what a mode, a warm-up, a row's word may be.

Every enumeration is a `StrEnum`, so a member is its own text in JSON, TOML and reports.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Arm(StrEnum):
    """The two sides of a comparison."""

    CONTROL = "control"
    CANDIDATE = "candidate"


class Warmup(StrEnum):
    """What ran in the engine before the first measured request."""

    NONE = "none"
    ENGINE = "engine"
    PRIMED = "primed"


class Cache(StrEnum):
    """State of the compile caches that a launch starts with."""

    COLD = "cold"
    WARM = "warm"


class CacheProof(StrEnum):
    """What log and folders show about the compile caches, whatever was claimed."""

    COLD = "cold"
    WARM = "warm"
    RECOMPILED = "recompiled"
    UNPROVEN = "unproven"


class Step(StrEnum):
    """The course of a launch, in the only order in which its steps may run."""

    READINESS = "readiness"
    LADDER = "ladder"
    FIRST_PROMPT = "first-prompt"
    PREFILL = "prefill"
    DECODE = "decode"
    IDENTITY = "identity"
    FOLLOW_UP = "follow-up"
    NEEDLE = "needle"
    REQUEST_KINDS = "request-kinds"
    SETTLING = "settling"
    """Load until the GPUs' temperature no longer rises; in a lane's last burn-in launch only."""
    PROBES = "probes"
    """Checks that users add: they may ask anything, and cannot disturb what was measured before."""


class LaunchStatus(StrEnum):
    """How a launch ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    NOT_STARTED = "not started"


class Word(StrEnum):
    """Outcome of one row, and, for some of them, of the whole session."""

    PASS = "pass"
    IMPROVED = "improved"
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTED = "not tested"
    VOID = "void"
    SETUP_FAILURE = "setup failure"
    REFUSED = "refused"


class Claimed(StrEnum):
    """What a claim came to."""

    HELD = "HELD"
    REFUTED = "REFUTED"
    NOT_SHOWN = "NOT SHOWN"

    @property
    def word(self) -> Word:
        """The word of the claim's row: a claim that nothing shows is neither a pass nor a fail."""
        return {Claimed.HELD: Word.PASS, Claimed.REFUTED: Word.FAIL, Claimed.NOT_SHOWN: Word.INCONCLUSIVE}[self]


class Identity(StrEnum):
    """How the outputs of two runs of the same prompts compare."""

    IDENTICAL = "identical"
    NEAR_TIE = "diverged at a near tie"
    DIVERGED = "diverged"
    NOT_COMPARABLE = "not comparable"


class ExitCode(IntEnum):
    """Exit codes of every command."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    SETUP_FAILURE = 3
    VOID = 4
    NOT_VERIFIED = 5
    """A bundle is not what it says, or is one that no session leaves; of `qualify verify` alone."""
    INCONCLUSIVE = 10


VERDICT_ORDER: tuple[Word, ...] = (
    Word.FAIL,
    Word.SETUP_FAILURE,
    Word.VOID,
    Word.INCONCLUSIVE,
    Word.PASS,
)
"""Words of a whole verdict; the first one that any row carries decides."""

GRAVE: tuple[Word, ...] = (
    Word.FAIL,
    Word.SETUP_FAILURE,
    Word.VOID,
    Word.REFUSED,
    Word.INCONCLUSIVE,
    Word.WARN,
)
"""Words that a reader must know of, gravest first. How the others follow depends on what is asked."""

VERDICT_EXIT: dict[Word, ExitCode] = {
    Word.FAIL: ExitCode.FAIL,
    Word.SETUP_FAILURE: ExitCode.SETUP_FAILURE,
    Word.VOID: ExitCode.VOID,
    Word.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    Word.PASS: ExitCode.PASS,
}
