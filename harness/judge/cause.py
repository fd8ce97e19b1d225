"""What a server's log names as the cause of its end: "exit code 1" alone tells nobody what to mend."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judge.read import LaunchEvidence
from harness.observe.log.facts import facts
from harness.observe.log.forms import Failure

CHARACTERS = 300
"""Of the line that is told: as long as vLLM's own sentence about a KV cache that is too small."""

CLASSES = {
    Failure.KV_STARVATION: "KV starvation",
    Failure.FREE_MEMORY: "free memory below target",
    Failure.OOM: "out of memory",
    Failure.MISSING_EXTENSION: "missing module",
    Failure.WEIGHT_SHAPE: "weight shape",
    Failure.UNSUPPORTED: "refused by the engine",
}
"""Classes that say more than the line itself."""


@dataclass(frozen=True)
class Cause:
    """The first line that names what went wrong, and not the last one, which points back to it."""

    failure: Failure
    line: int
    process: str
    text: str

    @property
    def lacks_a_module(self) -> bool:
        """True where something that the server imports is not installed: the image's fault, not the code's.

        An overlay of Python sources carries no compiled extension, and what is missing then says nothing of a patch.
        """
        return self.failure is Failure.MISSING_EXTENSION

    def told(self) -> str:
        """`its log says (KV starvation, line 1,078, EngineCore): ValueError: ...`."""
        where = [CLASSES.get(self.failure, ""), f"line {self.line:,}", self.process]
        cut = self.text if len(self.text) <= CHARACTERS else f"{self.text[:CHARACTERS]}..."
        return f"its log says ({', '.join(filter(None, where))}): {cut}"


def cause(launch: LaunchEvidence) -> Cause | None:
    """The cause of a failed start or of an engine's death; None where the log names none."""
    exit_ = launch.record.exit if launch.record else None
    # What a server says while we end it is not why it was ended; one that ended by itself may be heard late.
    ended_by_us = exit_ is not None and exit_.asked
    failed = facts(e for e in launch.log if not (ended_by_us and launch.after_stop(e))).failed
    if failed is None:
        return None
    return Cause(Failure(failed.failure), failed.line, failed.process, " ".join(failed.text.split()).rstrip("."))
