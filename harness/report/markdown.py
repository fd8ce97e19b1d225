"""The report as a comment on a pull request, its rows in the order that reviewers of this field use."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judge.case import Case
from harness.records import Row, Verdict
from harness.report.blocks import Block, fitted
from harness.report.escape import code, fenced, inline
from harness.report.images import head_lines, image_lines, lock_differences
from harness.report.launches import (
    failures,
    harness_text,
    model_text,
    stack_differences,
)
from harness.report.ledgers import arm_ledgers
from harness.report.model import NOTEWORTHY, counted, flags, noteworthy, untested, why
from harness.report.sealing import seal_lines
from harness.report.summary import cell_text
from harness.report.text import plural
from harness.words import Arm, Word

ORDER: tuple[tuple[str, ...], ...] = (
    ("late", "specialisation mismatch", "claim late_jit_removed"),
    ("KV",),
    ("memory", "residency", "lowest free", "free", "GPU memory", "host PSS", "host RSS"),
    ("accepted",),
    ("identity", "known answers"),
    ("start-up", "cold start", "warm start"),
    ("first prompt",),
    ("prefill",),
    ("decode", "tokens per step"),
)
"""Beginnings of rows' names, in the order in which they are shown (DESIGN 8); all others follow."""

BY_CONTEXT = ("first prompt", "prefill", "decode", "tokens per step")
"""Rows whose short context stands before the long one."""

TABLE_HEAD = "| row | cell | control | candidate | unit | word | reason |\n|:--|:--|--:|--:|:--|:--|:--|\n"
LEDGER_HEAD = "| arm | mode | kernel | phase | source | specialisation |\n|:--|:--|:--|:--|:--|:--|\n"
LOG_TAIL_CHARACTERS = 4_000


def comment(case: Case, verdict: Verdict) -> str:
    """The whole comment, within GitHub's limit."""
    shown = [r for r in verdict.rows if r.word is not Word.NOT_TESTED or _has_figures(r)]
    silent = [r for r in verdict.rows if r.word is Word.NOT_TESTED and not _has_figures(r)]
    return fitted(
        [
            Block("summary", (_summary(case, verdict),)),
            Block("what stands out", tuple(map(_note, noteworthy(verdict))), head="\n"),
            Block("rows", tuple(map(_table_row, ordered(shown))), head=f"\n{TABLE_HEAD}"),
            Block(
                "rows without figures",
                tuple(map(_table_row, ordered(silent))),
                head=f"\n<details><summary>{plural(len(silent), 'row')} not tested, without figures</summary>\n\n"
                + TABLE_HEAD,
                foot="\n</details>\n",
            ),
            Block(
                "late kernels",
                tuple(_late_kernels(case)),
                head=f"\n<details><summary>Late kernels, each source by itself</summary>\n\n{LEDGER_HEAD}",
                foot="\n</details>\n",
            ),
            Block("exact identities", tuple(_identities(case, verdict)), head="\n### What ran\n\n"),
            Block(
                "launches that failed",
                tuple(_failures(case)),
                head="\n### Launches that failed or were interrupted\n\n",
            ),
        ],
        closing=Block("what is not claimed", tuple(_not_claimed(verdict)), head="\n### What is not claimed\n\n"),
    )


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Rows in the reviewers' order; equal ones stay in the verdict's."""
    return sorted(rows, key=_place)


def _place(row: Row) -> tuple[int, bool, int]:
    for number, beginnings in enumerate(ORDER):
        if row.name.startswith(beginnings):
            is_warm_start = row.name.startswith("start-up") and not (row.cache or "").startswith("cold")
            context = row.context_tokens or 0 if row.name.startswith(BY_CONTEXT) else 0
            return number, is_warm_start, context
    return len(ORDER), False, 0


def _summary(case: Case, verdict: Verdict) -> str:
    """What must be read, first; the evidence's hash too, since the end may be cut."""
    plan = case.plan
    title = f"{plan.profile.name}, {plan.control.name} vs {plan.candidate.name}"
    lines = [
        f"## {verdict.verdict.upper()}: {inline(title)}{' (smoke)' if plan.smoke else ''}",
        "",
        f"{inline(why(case, verdict))}. {counted(verdict.rows) or 'No rows'}.",
        "",
        *(f"- ⚠ {inline(flag)}" for flag in flags(case)),
        f"- session {code(case.run.session)}, evidence root {code(verdict.evidence_root_sha256)}",
    ]
    return "\n".join(lines) + "\n"


def _note(row: Row) -> str:
    cell = cell_text(row)
    return f"- **{row.word}** {inline(row.name)}{f' ({inline(cell)})' if cell else ''}: {inline(row.reason)}\n"


def _table_row(row: Row) -> str:
    figures = (row.name, cell_text(row), row.control or "-", row.candidate or "-", row.unit)
    word = f"**{row.word}**" if row.word in NOTEWORTHY else str(row.word)
    return f"| {' | '.join(map(inline, figures))} | {word} | {inline(row.reason)} |\n"


def _identities(case: Case, verdict: Verdict) -> Iterable[str]:
    run, plan = case.run, case.plan
    for arm in Arm:
        lock, differences = case.locks[arm], stack_differences(case, arm)
        yield (
            f"- {arm}: stack {inline(lock.stack)}, vLLM {inline(lock.engine_version)}, {inline(model_text(lock))}; "
            + (f"against the profile: {inline(', '.join(differences))}\n" if differences else "the profile as it is\n")
        )
        # As code: what is there to be copied must hold no escapes.
        yield from (f"  - {code(line)}\n" for line in (*image_lines(case, arm), *head_lines(case, arm)))
    yield from (f"- candidate against control: {code(line)}\n" for line in lock_differences(case))
    host = run.host
    facts = (host.processor, plural(host.cores, "core"), f"{host.memory_mib:,} MiB", *(host.gpus or ("no GPU",)))
    yield f"- host: {inline(', '.join(facts))}\n"
    identity, fault = harness_text(case)
    yield f"- harness: {inline(identity)}{f' (**{inline(fault)}**)' if fault else ''}\n"
    when = f"{run.started_wall} to {run.ended_wall or 'no recorded end'}"
    yield f"- session: {inline(run.session)}, {inline(when)}, seed {plan.seed}\n"
    yield f"- evidence root: {code(verdict.evidence_root_sha256)}\n"
    yield from (f"- {code(line)}\n" for line in seal_lines(case, verdict))  # as code: a challenge is to be copied


def _late_kernels(case: Case) -> Iterable[str]:
    """Lines that name a kernel; those that do not are in the page."""
    for ledger in arm_ledgers(case):
        for late in ledger.lines:
            line = late.line
            if line.kernel is not None:
                source = f"{line.source}: {line.what}"
                cells = [ledger.arm, late.mode, line.kernel, line.phase, source, line.specialisation or "-"]
                yield f"| {' | '.join(map(inline, cells))} |\n"


def _failures(case: Case) -> Iterable[str]:
    for failure in failures(case):
        how = f"{inline(failure.status)} at {inline(failure.stage)}: {inline(failure.reason)}"
        where = f"{inline(failure.exit)}; {inline(failure.source)}"
        tail = failure.log_tail[-LOG_TAIL_CHARACTERS:]
        shown = f"Last lines of its log:\n\n{fenced(tail)}" if tail.strip() else "No line of its log was kept.\n"
        yield f"**{inline(failure.launch)}**: {how} ({where})\n\n{shown}\n"


def _not_claimed(verdict: Verdict) -> Iterable[str]:
    """Only what the verdict itself calls not tested."""
    for group in untested(verdict):
        yield f"- {inline(', '.join(group.names))} ({plural(group.rows, 'row')}): {inline(group.reason)}\n"
    yield "- Anything beyond the rows above: other models, prompts, lengths, hosts, engine versions or settings.\n"


def _has_figures(row: Row) -> bool:
    return row.control is not None or row.candidate is not None
