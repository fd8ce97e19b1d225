"""The report as Markdown, in the row order that reviewers of this field use."""

from __future__ import annotations

from harness.judge.case import Case
from harness.records import Row, Verdict
from harness.report.summary import cell_text
from harness.words import Arm, Word

LIMIT_LOG_TAIL = 3000


def comment(case: Case, verdict: Verdict) -> str:
    """The whole report; log text is fenced and cannot leave its fence."""
    plan = case.plan
    lines = [
        f"# {str(verdict.verdict).upper()}: {plan.profile.name}, {plan.control.name} vs {plan.candidate.name}",
        "",
        plan.profile.description,
        "",
    ]
    deciding = [r for r in verdict.rows if r.word is verdict.verdict and r.word not in (Word.PASS, Word.INCONCLUSIVE)]
    if deciding:
        lines += [f"- **{r.word}** {r.name} ({cell_text(r)}): {_inline(r.reason)}" for r in deciding] + [""]
    lines += _tables(verdict)
    lines += _failures(case)
    lines += _identity(case, verdict)
    return "\n".join(lines) + "\n"


def _tables(verdict: Verdict) -> list[str]:
    lines = [
        "| row | cell | control | candidate | unit | word | reason |",
        "|:--|:--|--:|--:|:--|:--|:--|",
    ]
    lines += [_table_row(r) for r in verdict.rows if r.word is not Word.NOT_TESTED]
    untested = [r for r in verdict.rows if r.word is Word.NOT_TESTED]
    if untested:
        lines += ["", "<details><summary>Not tested, or shown without a judgement</summary>", ""]
        lines += lines[:0] + [
            "| row | cell | control | candidate | unit | word | reason |",
            "|:--|:--|--:|--:|:--|:--|:--|",
        ]
        lines += [_table_row(r) for r in untested] + ["", "</details>"]
    return [*lines, ""]


def _table_row(row: Row) -> str:
    cells = (row.name, cell_text(row), row.control or "-", row.candidate or "-", row.unit, row.word, row.reason)
    return "| " + " | ".join(_inline(str(c)) for c in cells) + " |"


def _failures(case: Case) -> list[str]:
    lines = []
    for launch in case.launches.values():
        record = launch.record
        if record is not None and record.log_tail:
            lines += [f"## {record.launch.id} failed at {record.stage}", "", _inline(record.reason or ""), ""]
            lines += ["Last lines of its log:", "", *_fenced(record.log_tail[-LIMIT_LOG_TAIL:]), ""]
    return lines


def _identity(case: Case, verdict: Verdict) -> list[str]:
    run = case.run
    commit = f"{run.harness.commit or 'no checkout'}{' (dirty)' if run.harness.dirty else ''}"
    lines = ["## What ran", ""]
    for arm in Arm:
        lock = case.locks[arm]
        digest = lock.model_sha256.get("model.safetensors", "")[:12]
        model = f"forged model {digest}" if lock.known_answers else _inline(lock.model.rpartition("/")[2])
        lines.append(f"- {arm}: stack `{lock.stack}`, vLLM {lock.engine_version}, {model}")
    lines += [
        f"- host: {_inline(run.host.processor)}, {run.host.cores} cores, {run.host.memory_mib:,} MiB,"
        f" GPUs: {', '.join(run.host.gpus) or 'none'}",
        f"- harness: {run.harness.version}, commit {commit}",
        f"- session: {run.session}, {run.started_wall} to {run.ended_wall}, seed {case.plan.seed}",
        f"- evidence root: `{verdict.evidence_root_sha256}`",
    ]
    return lines


def _inline(text: str) -> str:
    """Text that a table cell or a list item can hold, without mentions, markup or line breaks."""
    flat = " ".join(text.split())
    return flat.replace("|", "\\|").replace("<", "&lt;").replace("@", "@\u200b").replace("`", "'")


def _fenced(text: str) -> list[str]:
    """A code block whose fence is longer than any run of backticks inside it."""
    longest = max((len(run) for run in "".join(c if c == "`" else " " for c in text).split()), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *text.splitlines(), fence]
