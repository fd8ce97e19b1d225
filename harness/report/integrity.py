"""Did the measurement work? What has to be right before any figure means something, with its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.judge.case import Case
from harness.judge.ledger import ARMED
from harness.judge.voids import strangers
from harness.records import Row, Verdict
from harness.report.launches import harness_text
from harness.report.model import counted
from harness.report.text import plural
from harness.words import VERDICT_ORDER, Word

GRAVEST = (*VERDICT_ORDER[:-1], Word.REFUSED, Word.WARN, Word.NOT_TESTED, Word.NOTE, Word.IMPROVED, Word.PASS)

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
    figures = _figures(worst) if word is not Word.PASS or len(rows) == 1 else ""
    says = f"{counted(rows)}: {worst.reason}{figures}"
    return Answer(question, word, says, worst.sources, tuple(dict.fromkeys(r.name for r in rows)))


def _figures(row: Row) -> str:
    shown = [f"{arm} {value}" for arm, value in (("control", row.control), ("candidate", row.candidate)) if value]
    return f" ({', '.join(shown)})" if shown else ""


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
        says = (
            f"0 hits that were not asked for, in {plural(len(windows), 'window')}" if not hits else hits[0].miscounted
        )
        yield Answer("Did a prefix cache answer for the model?", Word.VOID if hits else Word.PASS, says)
    armed = sum(ledger.monitor == ARMED for ledger in case.ledgers.values())
    if case.ledgers:
        says = f"armed in {armed} of {plural(len(case.ledgers), 'launch', 'launches')}"
        yield Answer(
            "Would a late kernel have been seen?", Word.PASS if armed == len(case.ledgers) else Word.WARN, says
        )
    periods = [p for x in began if (p := x.host_memory.best[1].period_s()) is not None]
    if periods:
        says = f"host memory every {max(periods) * 1000:.0f} ms (median, slowest launch): a shorter peak may be missed"
        yield Answer("What may have been missed between samples?", Word.NOTE, says)
    identity, fault = harness_text(case)
    yield Answer(
        "Is the harness's own code known?", Word.WARN if fault else Word.PASS, fault or identity, ("run.json",)
    )
