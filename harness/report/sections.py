"""What the page's sections are made of, by the names that the templates use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.judge.case import Case
from harness.records import Verdict
from harness.report import effect_plots, memory_plots, rate_plots, start_plots
from harness.report.axes import STEP_BANDS
from harness.report.configuration import settings
from harness.report.decomposition import splits
from harness.report.effects import effects
from harness.report.facts import session_facts
from harness.report.identities import identity_rows, partings
from harness.report.images import head_lines, image_lines, lock_differences
from harness.report.integrity import answers
from harness.report.kinds import kind_lines, memory_of
from harness.report.launches import failures, harness_text, launch_lines, stack_differences
from harness.report.ledgers import arm_ledgers, launch_ledgers
from harness.report.lines import lines
from harness.report.memories import gpu_tracks, tracks
from harness.report.model import flags, grouped, noteworthy, untested, why
from harness.report.rank_figures import rank_figures
from harness.report.rank_tables import rank_lines
from harness.report.speeds import panels
from harness.report.starts import phase_names, starts
from harness.report.summary import cell_text
from harness.report.untried import untried
from harness.words import Arm, Word

CONTENTS = (
    ("summary", "Summary"),
    ("noteworthy", "What stands out"),
    ("failures", "Failures"),
    ("effects", "Primary metrics"),
    ("decomposition", "tok/s taken apart"),
    ("jit", "Late kernels"),
    ("identity", "Identity"),
    ("memory", "Memory"),
    ("ranks", "Rank by rank"),
    ("start-up", "Start-up"),
    ("throughput", "Every pass"),
    ("kinds", "Request kinds"),
    ("integrity", "Did the measurement work?"),
    ("configuration", "Configuration"),
    ("launches", "Launches"),
    ("rows", "Every row"),
    ("not-claimed", "What is not claimed"),
)
"""Sections of the page by their id."""


def sections(case: Case, verdict: Verdict) -> dict[str, Any]:
    """Everything that the templates ask for."""
    return _verdict(case, verdict) | _figures(case, verdict) | _evidence(case) | _memory(case)


def contents(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The page's own sections: that of failures only where there is one, that of ranks where there are several."""
    shown = {"failures": found["failures"], "ranks": found["rank_lines"]}
    return [(i, text) for i, text in CONTENTS if shown.get(i, True)]


def _verdict(case: Case, verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "why": why(case, verdict),
        "counts": [(w, n) for w in Word if (n := sum(r.word is w for r in verdict.rows))],
        "plan": case.plan,
        "run": case.run,
        "flags": flags(case),
        "facts": session_facts(case, verdict),
        "lines": lines(verdict),
        "noteworthy": noteworthy(verdict),
        "cell_text": cell_text,
        "groups": (groups := grouped(verdict.rows)),
        "anchors": {group.name: f"row-{n}" for n, group in enumerate(groups)},
        "untested": untested(verdict.rows),
        "untried": untried(case),
    }


def _figures(case: Case, verdict: Verdict) -> dict[str, Any]:
    found_effects, found_splits = effects(case, verdict), splits(case)
    found_settings = settings(case)
    harness, harness_fault = harness_text(case)
    return {
        "effects": found_effects,
        "forest": effect_plots.forest(found_effects) if found_effects else None,
        "splits": found_splits,
        "split_plot": effect_plots.decomposition(found_splits) if found_splits else None,
        "identity_rows": identity_rows(verdict),
        "partings": partings(case),
        "answers": answers(case, verdict),
        "different": [s for s in found_settings if s.differs],
        "shared": [s for s in found_settings if not s.differs],
        "lock_differences": lock_differences(case),
        "gates_near_tie": f"{case.plan.profile.gates.near_tie_nat:g}",
        "harness": harness,
        "harness_fault": harness_fault,
        "arms": [
            {
                "arm": arm,
                "stack": case.plan.stack(arm),
                "differences": stack_differences(case, arm),
                "image": image_lines(case, arm),
                "heads": head_lines(case, arm),
            }
            for arm in Arm
        ],
    }


def _evidence(case: Case) -> dict[str, Any]:
    found_starts, found_panels = starts(case), panels(case)
    return {
        "starts": found_starts,
        "phases": phase_names(found_starts),
        "start_plot": start_plots.start_up(found_starts) if found_starts else None,
        "panels": [(p, rate_plots.throughput(p, f"rate-{n}")) for n, p in enumerate(found_panels)],
        "many_fold": rate_plots.MANY_FOLD,
        "kinds": kind_lines(case),
        "kinds_memory": memory_of(case),
        "launches": launch_lines(case),
        "arm_ledgers": arm_ledgers(case),
        "launch_ledgers": launch_ledgers(case),
        "failures": failures(case),
    }


def _memory(case: Case) -> dict[str, Any]:
    gates, gpus = case.plan.profile.gates, gpu_tracks(case)
    host = [] if gpus else tracks(case)  # where there are GPUs, the rows of the host say enough
    asked = {b.step for t in (*host, *gpus) for b in t.course}
    return {
        "tracks": [(t, memory_plots.memory(t, f"memory-{n}", host)) for n, t in enumerate(host)],
        "gpu_tracks": [(t, memory_plots.memory(t, f"gpu-{n}", gpus, gates)) for n, t in enumerate(gpus)],
        "gates": gates,
        "steps": [(s, n) for n, s in enumerate(STEP_BANDS) if s in asked],
        "rank_figures": rank_figures(case),
        "rank_lines": rank_lines(case),
    }
