"""Did the measurement work? What has to be right before any figure means something, with its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.judge.case import Case
from harness.judge.ledger import ARMED
from harness.judge.read import LaunchEvidence
from harness.judge.voids import strangers
from harness.records import Row, Verdict
from harness.report.launches import harness_text
from harness.report.model import counted
from harness.report.text import plural
from harness.words import GRAVE, Word

SHORT = 60
"""Longer figures are left to the row."""

GRAVEST = (*GRAVE, Word.NOT_TESTED, Word.NOTE, Word.IMPROVED, Word.PASS)
"""A question that nothing answers weighs more than one whose answer is a remark."""

QUESTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Is every planned launch there?", ("session complete",)),
    ("Did they run in the planned order?", ("launch order",)),
    ("Are the files as they were written?", ("evidence whole",)),
    ("Do client and server count the same?", ("counts agree", "draft arithmetic")),
    ("Did the client keep up?", ("client self-test", "client kept up")),
    ("Did the clocks keep pace?", ("clocks kept pace",)),
    ("Is the caches' state proven?", ("cache state",)),
    ("Was GPU memory watched closely enough?", ("GPU sampling",)),
    ("Was anybody else on the GPUs?", ("foreign GPU processes",)),
    ("Did the GPUs run freely and alike?", ("GPU throttling", "GPU power limits")),
    ("Did both arms run on the same backends?", ("resolved by the engine",)),
    ("Were both arms asked the same prompts?", ("prompts",)),
)
"""What a reader asks, and the rows that answer it."""


@dataclass(frozen=True)
class Answer:
    """One line of the panel."""

    question: str
    word: Word
    says: str
    sources: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    """Names of the rows behind it."""


def answers(case: Case, verdict: Verdict) -> list[Answer]:
    """The panel: questions that no row of this session answers are left out."""
    found = [_answer(question, names, verdict) for question, names in QUESTIONS]
    return [a for a in (*found, *_counted(case)) if a is not None]


def gravest(words: Sequence[Word]) -> Word:
    """The word that a reader must know of first."""
    return min(words, key=GRAVEST.index)


def _answer(question: str, names: tuple[str, ...], verdict: Verdict) -> Answer | None:
    rows = [r for name in names for r in verdict.rows if r.name.startswith(name)]
    if not rows:
        return None
    word = gravest([r.word for r in rows])
    worst = next(r for r in rows if r.word is word)
    says = f"{counted(rows)}: {worst.reason}{_figures(worst)}"
    return Answer(question, word, says, worst.sources, tuple(dict.fromkeys(r.name for r in rows)))


def _figures(row: Row) -> str:
    values = [v for v in (row.control, row.candidate) if v]
    if not values or max(map(len, values)) > SHORT:
        return ""
    unit = f" {row.unit}" if row.unit else ""
    return f" ({values[0]}{unit})" if len(set(values)) == 1 else f" (control {row.control}, candidate {row.candidate})"


def blind_spots(launches: Sequence[LaunchEvidence]) -> list[str]:
    """Periods of the samplers of memory: what is shorter may not have been seen."""
    found = []
    gpus = [x.gpu.watch.sampling for x in launches if x.gpu.watch and x.gpu.watch.sampling]
    periods = [s.achieved_period_ms for s in gpus if s.achieved_period_ms is not None]
    gaps = [s.worst_gap_ms for s in gpus if s.worst_gap_ms is not None]
    if periods and gaps:
        found.append(f"GPU memory was read every {max(periods):.0f} ms, at worst {max(gaps):.0f} ms apart")
    host = [p for x in launches if (p := x.host_memory.best[1].period_s()) is not None]
    if host:
        found.append(f"the host's every {max(host) * 1000:.0f} ms (median of the slowest launch)")
    return found


def _counted(case: Case) -> Iterator[Answer]:
    """What the evidence says beyond the rows, in figures."""
    began = [x for x in case.launches.values() if x.record is not None]
    windows = [w for x in began for w in x.windows]
    if windows:
        strange = [found for x in began if (found := strangers(x))]
        sent = sum(w.sequences for w in windows)
        unknown = sum(w.delta is None for w in windows)
        says = f"0 beside the {sent:,} that we sent" if not strange else strange[0]
        says += f"; {plural(unknown, 'window')} of {len(windows)} without a scrape" if unknown else ""
        word = Word.VOID if strange else Word.WARN if unknown else Word.PASS
        yield Answer("Did foreign requests run?", word, says)
        hits = [w for w in windows if (w.miscounted or "").startswith("prefix_hits")]
        none = f"0 hits that were not asked for, in {plural(len(windows), 'window')}"
        says = hits[0].miscounted or "" if hits else none
        yield Answer("Did a prefix cache answer for the model?", Word.VOID if hits else Word.PASS, says)
    armed = sum(ledger.monitor == ARMED for ledger in case.ledgers.values())
    if case.ledgers:
        says = f"armed in {armed} of {plural(len(case.ledgers), 'launch', 'launches')}"
        yield Answer(
            "Would a late kernel have been seen?", Word.PASS if armed == len(case.ledgers) else Word.WARN, says
        )
    if blind := blind_spots(began):
        yield Answer("How short a dip goes unseen?", Word.NOTE, "; ".join(blind))
    identity, fault = harness_text(case)
    yield Answer(
        "Is the harness's own code known?", Word.WARN if fault else Word.PASS, fault or identity, ("run.json",)
    )
