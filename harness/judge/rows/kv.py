"""KV-cache tokens, from the server's own metrics and from its log, never mixed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from harness.config.claims import KvTokensMinChange
from harness.judge.case import Case, Cell
from harness.judge.read import LaunchEvidence
from harness.observe.log import Kind
from harness.observe.log.facts import facts
from harness.observe.prometheus import kv_cache_tokens
from harness.records import Row
from harness.words import Word

NAME = "KV tokens"


def from_metrics(launch: LaunchEvidence) -> int | None:
    """`vllm:cache_config_info` of the first scrape, in tokens."""
    return kv_cache_tokens(launch.first_scrape) if launch.first_scrape else None


def from_log(launch: LaunchEvidence) -> int | None:
    """The log's last KV line of each engine, in tokens: the size that it uses is printed last."""
    found = facts(launch.log).columns["kv_cache_tokens"]
    return int(found.value) if found else None


def rows(case: Case) -> Iterator[Row]:
    """One row per cell; only equal cache states and equal limits are compared."""
    declared = next((c for c in case.plan.candidate.claims if isinstance(c, KvTokensMinChange)), None)
    for cell in case.cells:
        yield _row(cell, case.plan.profile.gates.kv_tokens_pct, declared)


def compared(cell: Cell) -> list[tuple[int, int]] | str:
    """Both arms' figures of every pair that may be compared, or why there is none."""
    pairs = [p for a, b in zip(cell.control, cell.candidate, strict=True) if (p := _pair(a, b))]
    if not pairs:
        apart = all(any(_shown(x) is not None for x in side) for _, side in cell.arms())
        return "the arms show no KV-cache size in the same place" if apart else "an arm shows no KV-cache size"
    if not cell.same_cache_state:
        return "the arms started from different cache states, which changes what memory is left"
    limits = {_max_model_len(x) for _, side in cell.arms() for x in side if x.record}
    if len(limits) > 1:
        return "the arms serve different --max-model-len, which changes what the figure means"
    return pairs


def within(claim: KvTokensMinChange, control: int, candidate: int) -> bool:
    """The change of a pair is at least what the claim's bound allows."""
    if claim.change_tokens is not None:
        return candidate - control >= claim.change_tokens
    assert claim.change_pct is not None
    return (candidate - control) / control * 100 >= claim.change_pct


def bound_text(claim: KvTokensMinChange) -> str:
    """The declared bound: `-12,000 tokens` or `-1.5 %`."""
    return f"{claim.change_pct:+g} %" if claim.change_tokens is None else f"{claim.change_tokens:+,} tokens"


def sources(cell: Cell) -> tuple[str, ...]:
    """Where the figures of a cell stand."""
    return tuple(s for _, side in cell.arms() for x in side for s in _sources(x))


def _row(cell: Cell, margin_pct: float, declared: KvTokensMinChange | None) -> Row:
    figures = [[_shown(x) for x in side] for _, side in cell.arms()]
    texts = [" / ".join(dict.fromkeys("-" if v is None else f"{v:,}" for v in side)) for side in figures]

    def row(word: Word, reason: str) -> Row:
        return cell.row(NAME, word, reason, control=texts[0], candidate=texts[1], unit="tokens", sources=sources(cell))

    if fault := next((f for _, side in cell.arms() for x in side if (f := _disagreement(x))), None):
        return row(Word.VOID, fault)
    pairs = compared(cell)
    if isinstance(pairs, str):
        return row(Word.NOT_TESTED, pairs)
    worst, tokens = min(((b - a) / a * 100, b - a) for a, b in pairs)
    equal = all(a == b for a, b in pairs)
    difference = "equal" if equal else f"candidate {tokens:+,} tokens ({worst:+.3f} %)"
    if worst < -margin_pct:
        if declared is not None and all(within(declared, a, b) for a, b in pairs):
            beyond = f"beyond the margin of {margin_pct:g} %, and inside the declared cost of {bound_text(declared)}"
            return row(Word.NOTE, f"{difference}: {beyond}")
        # What a start loses by chance is not the candidate's doing.
        if (own := loss_pct([a for a, _ in pairs])) >= -worst:
            chance = f"the control's own starts differ by {own:.3f} %, as much as that"
            return row(Word.INCONCLUSIVE, f"{difference}: {chance}")
        return row(Word.FAIL, f"{difference}: beyond the margin of {margin_pct:g} %")
    if worst < 0:
        return row(Word.NOTE, f"{difference}: within the margin of {margin_pct:g} %")
    return row(Word.IMPROVED if worst > margin_pct else Word.PASS, difference)


def loss_pct(tokens: Sequence[int]) -> float:
    """The least against the most of several starts, per cent of the most; 0 where there is only one or none."""
    return (max(tokens) - min(tokens)) / max(tokens) * 100 if tokens and max(tokens) else 0.0


def _shown(launch: LaunchEvidence) -> int | None:
    """The figure for the reader; `_pair` says which ones are compared."""
    tokens = from_metrics(launch)
    return from_log(launch) if tokens is None else tokens


def _pair(control: LaunchEvidence, candidate: LaunchEvidence) -> tuple[int, int] | None:
    """Both figures from one source: metrics and log mean different things in some versions."""
    for source in (from_metrics, from_log):
        ours, theirs = source(control), source(candidate)
        if ours and theirs is not None:
            return ours, theirs
    return None


def _disagreement(launch: LaunchEvidence) -> str | None:
    metrics, log = from_metrics(launch), from_log(launch)
    if metrics is None or log is None or metrics == log:
        return None
    return f"{launch.folder.id}: /metrics says {metrics:,} tokens, the log says {log:,}"


def _sources(launch: LaunchEvidence) -> Iterator[str]:
    if from_metrics(launch) is not None:
        yield f"launches/{launch.folder.id}/metrics/001.prom: vllm:cache_config_info kv_cache_size_tokens"
    for event in launch.of_kind(Kind.KV_TOKENS)[-1:]:
        yield launch.place(event)


def _max_model_len(launch: LaunchEvidence) -> str:
    argv = launch.record.argv if launch.record else ()
    return next((value for flag, value in pairwise(argv) if flag == "--max-model-len"), "default")
