"""The folded parts of the comment, by how much a reviewer would miss them."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import shorten

from harness.judge.case import Case
from harness.records import Row, Verdict
from harness.report.blocks import Block, block, folded
from harness.report.escape import code, fenced, inline
from harness.report.images import head_lines, image_lines, lock_differences
from harness.report.launches import NOT_RECORDED, Failure, failures
from harness.report.ledgers import arm_ledgers
from harness.report.model import NOTEWORTHY
from harness.report.summary import cell_text
from harness.report.text import plural
from harness.words import Arm, Word

ROW_HEAD = "| row | cell | control | candidate | unit | word | reason |\n|:--|:--|:--|:--|:--|:--|:--|\n"
LEDGER_HEAD = "| arm | mode | kernel | phase | source | specialisation |\n|:--|:--|:--|:--|:--|:--|\n"
CONSTANTS = 160
"""Characters of what a kernel is specialised for: one of B12X holds 28 attributes. The page has all of them."""
LOG_TAIL = 4_000
"""Characters of a failed launch's log."""
LOGS = 3
"""Failed launches whose log is shown; all are named."""


def details(case: Case, verdict: Verdict) -> list[Block]:
    """Folded blocks; the higher a block's rank, the earlier it goes where the text is too long."""
    judged = [r for r in verdict.rows if r.word is not Word.NOT_TESTED or has_figures(r)]
    silent = [r for r in verdict.rows if r.word is Word.NOT_TESTED and not has_figures(r)]
    failed = failures(case)
    title = f"Launches that failed or were interrupted ({len(failed)})"
    named = "".join(map(_failure, failed))
    return [
        block("failed launches", [folded(title, named)] if failed else [], rank=2),
        *(Block(f"log of {f.launch}", _log(f), 3 + n) for n, f in enumerate(failed[:LOGS])),
        _rows("rows of the verdict", judged, 6),
        _rows("rows not tested, without figures", silent, 8),
        _kernels(case),
        Block("what ran", folded("What ran: images, trees, hashes", "".join(_identities(case))), 1),
    ]


def _rows(title: str, rows: list[Row], rank: int) -> Block:
    text = folded(f"{title[0].upper()}{title[1:]} ({len(rows)})", ROW_HEAD + "".join(map(_row, rows)))
    return Block(title, text if rows else "", rank)


def _row(row: Row) -> str:
    figures = (row.name, cell_text(row), row.control or "-", row.candidate or "-", row.unit)
    word = f"**{row.word}**" if row.word in NOTEWORTHY else str(row.word)
    return f"| {' | '.join(map(inline, figures))} | {word} | {inline(row.reason)} |\n"


def _kernels(case: Case) -> Block:
    """Ledger lines that name a kernel; those that do not are in the page."""
    named = [
        (ledger.arm, late.mode, late.line)
        for ledger in arm_ledgers(case)
        for late in ledger.lines
        if late.line.kernel is not None
    ]
    rows = [
        f"| {' | '.join(map(inline, cells))} |\n"
        for arm, mode, x in named
        for constants in [shorten(x.specialisation, CONSTANTS, placeholder=" …") or "-"]
        for cells in [(arm, mode, x.kernel or "", x.phase, f"{x.source}: {x.what}", constants)]
    ]
    title = f"Late kernels, each source by itself ({len(rows)})"
    return Block("late kernels", folded(title, LEDGER_HEAD + "".join(rows)) if rows else "", 7)


def _identities(case: Case) -> Iterable[str]:
    # As code: what is there to be copied must hold no escapes.
    for arm in Arm:
        lines = [*image_lines(case, arm), *head_lines(case, arm)]
        yield f"- {arm}: stack {inline(case.locks[arm].stack)}{'' if lines else ', a process of the host'}\n"
        yield from (f"  - {code(line)}\n" for line in lines)
    yield from (f"- candidate against control: {code(line)}\n" for line in lock_differences(case))
    host = case.run.host
    facts = (host.processor, plural(host.cores, "core"), f"{host.memory_mib:,} MiB", *(host.gpus or ("no GPU",)))
    yield f"- host: {inline(', '.join(facts))}\n"


def _failure(failure: Failure) -> str:
    at = "" if failure.stage == NOT_RECORDED else f" at {inline(failure.stage)}"
    ended = "exit not recorded" if failure.exit == NOT_RECORDED else inline(failure.exit)
    how = f"{inline(failure.status)}{at}: {inline(failure.reason, 1_000)}"
    return f"- **{inline(failure.launch)}**: {how} ({ended}; {inline(failure.source)})\n"


def _log(failure: Failure) -> str:
    tail = failure.log_tail[-LOG_TAIL:]
    if not tail.strip():
        return ""
    return folded(f"Last lines of the log of {inline(failure.launch)}", fenced(tail))


def has_figures(row: Row) -> bool:
    """An arm has something to show, judged or not."""
    return row.control is not None or row.candidate is not None
