"""KV tokens from one start of an arm to the next: what a profiling run saw of the memory decides about the size.

A start with empty caches compiles while the engine profiles its memory, and what the compilers take is no KV cache;
so a first start, or one rank's transient, may leave gigabytes less than the next start of the same command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.judge.case import Case, Cell, launches_of
from harness.judge.read import LaunchEvidence
from harness.judge.rows.kv import from_log, from_metrics, loss_pct, sources
from harness.records import Row
from harness.words import Arm, Cache, Warmup, Word

NAME = "KV tokens between starts"


@dataclass(frozen=True)
class Start:
    """The KV cache of one start, in tokens."""

    launch: str
    cache: Cache
    tokens: int


def rows(case: Case) -> Iterator[Row]:
    """One row per mode and warm-up state with several starts of an arm: they differ in nothing but the caches."""
    for mode, warmup in dict.fromkeys((c.mode, c.warmup) for c in case.cells):
        cells = [c for c in case.cells if (c.mode, c.warmup) == (mode, warmup)]
        if any(len(side) > 1 for side in (launches_of(cells, arm) for arm in Arm)):
            yield _row(mode, warmup, cells, case.plan.profile.gates.kv_tokens_pct)


def _row(mode: str, warmup: Warmup, cells: Sequence[Cell], margin_pct: float) -> Row:
    sides = {arm: _starts(launches_of(cells, arm)) for arm in Arm}
    losses = {arm: loss_pct([s.tokens for s in side]) for arm, side in sides.items()}
    beyond = [arm for arm in Arm if losses[arm] > margin_pct]
    if any(len(side) < 2 for side in sides.values()):
        word, reason = Word.NOT_TESTED, "an arm has no two starts that show a KV-cache size in the same place"
    elif Arm.CANDIDATE in beyond:
        word = Word.WARN
        both = f"; the control's differ by {losses[Arm.CONTROL]:.2f} %" if Arm.CONTROL in beyond else ""
        reason = f"{_told(sides[Arm.CANDIDATE])}: one command, and not one size{both}"
    elif beyond:
        word, reason = Word.NOTE, f"in the control alone: {_told(sides[Arm.CONTROL])}"
    else:
        word, reason = Word.PASS, f"starts of an arm differ by {max(losses.values()):.2f} % at most"
    return Row(
        name=NAME,
        mode=mode,
        warmup=warmup,
        control=_shown(sides[Arm.CONTROL]),
        candidate=_shown(sides[Arm.CANDIDATE]),
        unit="tokens",
        word=word,
        reason=reason,
        sources=tuple(s for cell in cells for s in sources(cell)),
    )


def _starts(launches: Sequence[LaunchEvidence]) -> list[Start]:
    """Figures of one source: metrics and log mean different things in some versions."""
    for source in (from_metrics, from_log):
        found = [
            Start(x.folder.id, x.record.launch.cache, tokens)
            for x in launches
            if x.record is not None and (tokens := source(x)) is not None
        ]
        if len(found) > 1:
            return found
    return []


def _told(starts: Sequence[Start]) -> str:
    """`001-... (cold) had 1,000 tokens, 5.00 % less than 003-... (warm)`."""
    least, most = (pick(starts, key=lambda s: s.tokens) for pick in (min, max))
    less = f"{loss_pct([least.tokens, most.tokens]):.2f} % less than {most.launch} ({most.cache})"
    return f"{least.launch} ({least.cache}) has {least.tokens:,} tokens, {less}"


def _shown(starts: Sequence[Start]) -> str | None:
    """`cold 1,000; warm 1,050 / 1,049`: each size once per state."""
    parts = []
    for cache in dict.fromkeys(s.cache for s in starts):
        sizes = dict.fromkeys(s.tokens for s in starts if s.cache is cache)
        parts.append(f"{cache} {' / '.join(f'{n:,}' for n in sizes)}")
    return "; ".join(parts) or None
