"""One self-contained HTML page: no script, nothing loaded, everything a stranger wrote escaped."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.judge.case import Case
from harness.records import Verdict
from harness.report import gpu_plots, plots
from harness.report.gpu_memories import gpu_tracks
from harness.report.images import head_lines, image_lines, lock_differences
from harness.report.kinds import kind_lines
from harness.report.launches import (
    failures,
    harness_text,
    launch_lines,
    model_text,
    stack_differences,
)
from harness.report.ledgers import arm_ledgers, launch_ledgers
from harness.report.memories import tracks
from harness.report.model import flags, grouped, noteworthy, untested, why
from harness.report.sealing import seal_lines
from harness.report.speeds import panels
from harness.report.starts import phase_names, starts
from harness.report.summary import cell_text
from harness.report.text import plural, public, tokens_text
from harness.words import Arm, Word

_EVIDENCE_FILE = re.compile(r"^(?!/)(?:[\w.+=-]+/)*?[\w.+=-]+?\.(?:jsonl?|log|prom|parquet|xml)(?=$|:|,| |\.\.)")
"""A file at the beginning of a source; a line, a field, or the second file of a range may follow."""
SHORT = 15
"""Longer figures are sentences, and read better from the left."""

CONTENTS = (
    ("compared", "What was compared"),
    ("noteworthy", "What stands out"),
    ("rows", "Every row"),
    ("jit", "Late kernels"),
    ("start-up", "Start-up"),
    ("throughput", "Throughput"),
    ("memory", "Memory"),
    ("kinds", "Request kinds"),
    ("failures", "Failures"),
    ("launches", "Launches"),
    ("not-claimed", "What is not claimed"),
)
"""Sections of the page by their id."""


def page(case: Case, verdict: Verdict) -> str:
    """The page."""
    environment = Environment(
        loader=PackageLoader("harness.report"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        {"tokens": tokens_text, "source": _source, "is_short": _is_short, "slug": _slug, "plural": plural, "mib": _mib}
    )
    return environment.get_template("page.html.j2").render(_verdict(case, verdict) | _evidence(case))


def _verdict(case: Case, verdict: Verdict) -> dict[str, Any]:
    harness, harness_fault = harness_text(case)
    return {
        "verdict": verdict,
        "sealing": seal_lines(case, verdict),
        "why": why(case, verdict),
        "counts": [(w, n) for w in Word if (n := sum(r.word is w for r in verdict.rows))],
        "plan": case.plan,
        "run": case.run,
        "flags": flags(case),
        "harness": harness,
        "harness_fault": harness_fault,
        "arms": [
            {
                "arm": arm,
                "stack": case.plan.stack(arm),
                "lock": case.locks[arm],
                "model": model_text(case.locks[arm]),
                "differences": stack_differences(case, arm),
                "image": image_lines(case, arm),
                "heads": head_lines(case, arm),
            }
            for arm in Arm
        ],
        "lock_differences": lock_differences(case),
        "noteworthy": noteworthy(verdict),
        "cell_text": cell_text,
        "groups": grouped(verdict.rows),
        "untested": untested(verdict.rows),
    }


def _evidence(case: Case) -> dict[str, Any]:
    found_starts, found_panels, found_tracks = starts(case), panels(case), tracks(case)
    found_gpus, gates = gpu_tracks(case), case.plan.profile.gates
    asked = {b.step for t in found_tracks for b in t.course} | {b.step for t in found_gpus for b in t.course}
    return {
        "starts": found_starts,
        "phases": phase_names(found_starts),
        "start_plot": plots.start_up(found_starts) if found_starts else None,
        "panels": [(p, plots.throughput(p, f"rate-{n}")) for n, p in enumerate(found_panels)],
        "tracks": [(t, plots.memory(t, f"memory-{n}", found_tracks)) for n, t in enumerate(found_tracks)],
        "gpu_tracks": [(t, gpu_plots.gpu_memory(t, f"gpu-{n}", found_gpus, gates)) for n, t in enumerate(found_gpus)],
        "gates": gates,
        "line_styles": gpu_plots.STYLES[: max((len(t.lines) for t in found_gpus), default=0)],
        "steps": [(s, n) for n, s in enumerate(plots.STEP_BANDS) if s in asked],
        "kinds": kind_lines(case),
        "many_fold": plots.MANY_FOLD,
        "launches": launch_lines(case),
        "arm_ledgers": arm_ledgers(case),
        "launch_ledgers": launch_ledgers(case),
        "failures": failures(case),
        "contents": [(i, text) for i, text in CONTENTS if i != "failures" or failures(case)],
    }


def _shown(value: object) -> object:
    """What every expression of the templates passes through, before it is escaped."""
    if value is None:
        return "-"
    return public(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _source(source: str) -> Markup:
    """A source, linked to its file where the page lies in its bundle (report/report.html)."""
    match = _EVIDENCE_FILE.match(source)
    if match is None or ".." in match[0].split("/"):
        return Markup("{}").format(public(source))  # format escapes its arguments
    return Markup('<a href="../{}">{}</a>{}').format(match[0], match[0], public(source[match.end() :]))


def _is_short(text: str | None) -> bool:
    """True for a figure that stands right-aligned under others."""
    return text is None or len(text) <= SHORT


def _mib(value: float | None) -> str | None:
    """A change of memory, signed and in whole MiB."""
    return None if value is None else f"{round(value):+,}"


def _slug(word: str) -> str:
    """A word as the name of a CSS class."""
    return word.replace(" ", "-")
