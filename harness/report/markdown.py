"""The report as a comment on a pull request: what a reviewer must see first, and everything else folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harness.judge.case import Case
from harness.judge.judgement import ONE_PAIR
from harness.records import Row, Verdict
from harness.report.about import About
from harness.report.blocks import Block, block, fitted
from harness.report.details import details, has_figures
from harness.report.escape import breakable, code, inline
from harness.report.heads import main_heads
from harness.report.launches import harness_text
from harness.report.lines import Line, lines
from harness.report.model import counted, flags, noteworthy, untested, why
from harness.report.sealing import is_sealed
from harness.report.summary import cell_text
from harness.report.text import plural, shortened
from harness.report.untried import untried
from harness.words import Arm, Word

TABLE_HEAD = "| | verdict | control | candidate | change | state |\n|:--|:--|:--|:--|:--|:--|\n"
"""The verdict stands where a narrow window does not cut it off."""
CELLS = (180, 60, 12)
"""Characters of one cell, one name, or one entry of a list; the next where what must stay is too long. The folded
rows hold the whole text."""
SHOWN = 8
"""Rows that are told before the table, and as many after it."""
LINK = re.compile(r"https?://[\w.~:/?#@!$&'()*+,;=%-]+", re.ASCII)
LINES = 60
NARROW, WORD = 16, 24
"""Characters of a cell that is not broken into lines, and of a word that may be."""
GROUPS = 12
DECIDING = (Word.FAIL, Word.SETUP_FAILURE, Word.VOID, Word.REFUSED, Word.INCONCLUSIVE)
PLAIN = (Word.PASS, Word.IMPROVED, Word.NOT_TESTED)


def comment(case: Case, verdict: Verdict, about: About | None = None) -> str:
    """The whole comment, below GitHub's limit in whichever way it counts."""
    for cell in CELLS[:-1]:
        try:
            return fitted(_blocks(case, verdict, about or About(), cell))
        except ValueError:  # a stranger's text of unheard-of length in every row
            continue
    return fitted(_blocks(case, verdict, about or About(), CELLS[-1]))


def _blocks(case: Case, verdict: Verdict, about: About, cell: int) -> list[Block]:
    return [
        Block("summary", _summary(case, verdict, cell)),
        Block("table", _table(verdict, cell)),
        block("notes", list(_told(verdict, (Word.WARN, Word.NOTE, Word.IMPROVED), cell)), foot="\n", rank=2),
        Block("not tested", _not_tested(verdict, cell)),
        Block("exact heads", main_heads(case)),
        Block("root hash", _root(case, verdict)),
        *details(case, verdict),
        block("what is not claimed", list(_not_claimed(case, verdict, cell)), "#### What is not claimed\n\n", "\n"),
        block("this evidence", list(_evidence(case, about, cell)), "#### This evidence\n\n"),
    ]


def _root(case: Case, verdict: Verdict) -> str:
    of = "(SHA-256 of `SHA256SUMS`)" if is_sealed(case) else "of the files as they lie here, **not sealed**"
    return f"**Manifest root** {code(verdict.evidence_root_sha256)} {of}\n\n"


def _summary(case: Case, verdict: Verdict, cell: int) -> str:
    plan, run = case.plan, case.run
    gpus = ", ".join(dict.fromkeys(run.host.gpus)) or "no GPU"
    if len(run.host.gpus) > 1:
        gpus = f"{len(run.host.gpus)} GPUs: {gpus}"
    reason, warmups = _why(case, verdict), ", ".join(plan.profile.plan.warmups)
    smoke = " (smoke)" if plan.smoke else ""
    title = f"{plan.candidate.name} against {plan.control.name}, profile {plan.profile.name}{smoke}"
    text = [
        f"### {verdict.verdict.upper()}: {inline(title, cell)}\n\n",
        f"{inline(f'{reason[:1].upper()}{reason[1:]}', 2 * cell)}: {counted(verdict.rows) or 'no rows'}. ",
        f"Host: {inline(gpus, cell)}. Warm-up: {inline(warmups)}.\n\n",
        *(f"- ⚠ {inline(flag, 2 * cell)}\n" for flag in flags(case)),
        *_told(verdict, DECIDING, cell),
    ]
    return "".join(text).rstrip("\n") + "\n\n"


def _why(case: Case, verdict: Verdict) -> str:
    """The rows that decided are listed with their reasons below it, so it names none."""
    deciding = [r for r in verdict.rows if r.word is verdict.verdict]
    listed = verdict.verdict in DECIDING and deciding
    return f"decided by {plural(len(deciding), 'row')}" if listed else why(case, verdict)


def _told(verdict: Verdict, words: Sequence[Word], cell: int) -> Iterable[str]:
    """Rows of these words, those with one name and reason together."""
    groups: dict[tuple[Word, str, str], list[Row]] = {}
    for row in noteworthy(verdict):
        if row.word in words:
            groups.setdefault((row.word, row.name, row.reason), []).append(row)
    for (word, name, reason), rows in list(groups.items())[:SHOWN]:
        cells = shortened([c for c in dict.fromkeys(map(cell_text, rows)) if c])
        where = f" ({inline(cells, cell)})" if cells else ""
        yield f"- **{word}** {inline(name, cell)}{where}: {inline(reason, 2 * cell)}\n"
    if len(groups) > SHOWN:
        yield f"- {len(groups) - SHOWN} more such findings in the folded rows\n"


def _table(verdict: Verdict, cell: int) -> str:
    every = lines(verdict)
    beyond = f"\n{plural(len(every) - LINES, 'line')} more in the folded rows.\n" if len(every) > LINES else ""
    return (
        f"{TABLE_HEAD}{''.join(_line(x, cell) for x in every[:LINES])}{beyond}\n"
        if every
        else "No row of the table was judged.\n\n"
    )


def _line(line: Line, cell: int) -> str:
    same = line.candidate == line.control and len(line.control) > WORD
    word = str(line.word) if line.word in PLAIN else f"**{line.word}**"
    texts = (line.control, "the same" if same else line.candidate, line.delta, line.state)
    cells = [inline(line.subject, cell), word, *(inline(text, cell) for text in texts)]
    return f"| {' | '.join(map(_fitting, cells))} |\n"


def _fitting(cell: str) -> str:
    """A short cell stays on one line, so that a row is one line high where it can be."""
    if len(cell) <= NARROW:
        return cell.replace(" ", "\u00a0")
    return breakable(cell, WORD).replace(" %", "\u00a0%")


def _not_tested(verdict: Verdict, cell: int) -> str:
    silent = dict.fromkeys(r.name for r in verdict.rows if r.word is Word.NOT_TESTED and not has_figures(r))
    shown = dict.fromkeys(r.name for r in verdict.rows if r.word is Word.NOT_TESTED and has_figures(r))
    names = inline("; ".join(silent), 6 * cell) or "no row without figures"
    beside = f"; figures without a verdict: {inline('; '.join(shown), 2 * cell)}" if shown else ""
    return f"**Not tested**: {names}{beside}\n\n"


def _not_claimed(case: Case, verdict: Verdict, cell: int) -> Iterable[str]:
    """Only what the verdict itself calls not tested, and what no session can say."""
    groups = untested([r for r in verdict.rows if not has_figures(r)])
    for group in groups[:GROUPS]:
        names = shortened(list(group.names), 6)
        yield f"- {inline(names, cell)} ({plural(group.rows, 'row')}): {inline(group.reason, cell)}\n"
    if len(groups) > GROUPS:
        yield f"- {len(groups) - GROUPS} more reasons in the folded rows\n"
    if not any(row.tested for row in verdict.rows):
        one = any(ONE_PAIR in row.reason for row in verdict.rows)
        why_not = ONE_PAIR if one else "no pairs of launches were tested against each other"
        yield f"- Speed, faster or slower: {why_not}\n"
    if all(arm not in case.stack_locks for arm in Arm):
        yield "- Any pull request's head: no arm has a lock, so what ran is known by version and model only\n"
    if new := untried(case):
        yield f"- {', '.join(new)}: seen here, and never tried by the makers of this harness (docs/gpu.md)\n"
    yield "- Anything beyond the rows above: other models, prompts, lengths, hosts, engine versions or settings\n"


def _evidence(case: Case, about: About, cell: int) -> Iterable[str]:
    run = case.run
    identity, fault = harness_text(case)
    yield f"- {inline(about.sessions or 'no session ledger', 2 * cell)}\n"
    if about.challenge is not None:
        yield f"- challenge {code(about.challenge[:cell])} seeded the prompts\n"
    yield f"- statements: {code((about.signature or 'unsigned')[:cell])}\n"  # as code: a key's id is no commit
    yield f"- evidence: {_link(about.evidence_url, cell)}\n"
    when = f"{run.started_wall} to {run.ended_wall or 'no recorded end'}"
    yield f"- session {code(run.session)}, {code(when)}\n"
    yield f"- harness {inline(identity)}{f' (**{inline(fault)}**)' if fault else ''}, seed {case.plan.seed}\n"


def _link(url: str | None, cell: int) -> str:
    if url is None:
        return "no link given"
    return f"<{url}>" if LINK.fullmatch(url) else inline(url, 2 * cell)
