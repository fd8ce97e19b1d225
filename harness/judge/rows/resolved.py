"""What the engines chose for themselves, as they printed it: arms on different runners are not comparable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.judge.case import Case, Cell
from harness.judge.read import LaunchEvidence
from harness.observe.log.fact import Fact
from harness.observe.log.facts import facts
from harness.records import Row
from harness.words import Word

NAME = "resolved by the engine"

RUNNER = "runner"
SHOWN = (RUNNER, "attention", "moe", "all_reduce", "cudagraph_mode")
COMPARED = (
    *SHOWN, "encoder_attention", "cudagraph_sizes", "compilation_mode", "max_num_batched_tokens",
    "max_num_scheduled_tokens", "async_scheduling", "chunked_prefill", "kv_cache_dtype", "quantization", "dtype",
)  # fmt: skip
"""Facts that change what a figure means; sizes of a warm-up or a cache's state do not."""


def rows(case: Case) -> Iterator[Row]:
    """One row per cell."""
    for cell in case.cells:
        yield _row(cell)


def _row(cell: Cell) -> Row:
    sides = [[found for x in side if (found := _resolved(x))] for _, side in cell.arms()]
    sources = tuple(dict.fromkeys(s for _, side in cell.arms() for x in side for s in _sources(x)))
    if not all(sides):
        return cell.row(NAME, Word.NOT_TESTED, "an arm's log names no choice of the engine", sources=sources)
    values = [{name: _values(side, name) for name in COMPARED} for side in sides]
    different = [name for name in COMPARED if values[0][name] != values[1][name]]
    texts = [", ".join(f"{n} {v[n]}" for n in different or SHOWN if v[n]) or None for v in values]
    if RUNNER in different:
        word, reason = Word.VOID, "the arms ran on different model runners, which are not comparable"
    elif different:
        word, reason = Word.NOTE, f"the arms differ in {', '.join(different)}: figures compare that too"
    else:
        word, reason = Word.PASS, "both arms print the same choices"
    return cell.row(NAME, word, reason, control=texts[0], candidate=texts[1], sources=sources)


def chosen(side: Sequence[LaunchEvidence]) -> dict[str, str]:
    """What an arm's engines say of runner, backends and graphs: a part of the identity of every figure."""
    seen = [_resolved(x) for x in side]
    return {name: text for name in SHOWN if (text := _values(seen, name))}


def _resolved(launch: LaunchEvidence) -> dict[str, Fact]:
    found = facts(e for e in launch.log if launch.before_ready(e)).resolved
    return {name: fact for name in COMPARED if (fact := found[name])}


def _values(side: list[dict[str, Fact]], name: str) -> str:
    """Values of an arm's launches; one that no line tells is left out, and '' is an arm that tells none."""
    return " or ".join(sorted({str(found[name].value) for found in side if name in found}))


def _sources(launch: LaunchEvidence) -> Iterator[str]:
    for fact in _resolved(launch).values():
        yield f"launches/{launch.folder.id}/server.log:{fact.line}"
