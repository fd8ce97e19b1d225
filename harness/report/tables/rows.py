"""The rows of the verdict."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from harness.records import Row
from harness.report.tables.columns import Column, Kind, Table
from harness.report.text import public

_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


def number_in(text: str | None) -> float | None:
    """A figure that is one number: `12.5`, `10,112`. None for `12.3 / 12.5`, a word, or nothing."""
    return float(text.replace(",", "")) if text is not None and _NUMBER.fullmatch(text) else None


def _figure(side: str) -> Callable[[tuple[int, Row]], float | None]:
    return lambda x: None if "sha" in x[1].unit else number_in(getattr(x[1], side))


def _tested(name: str) -> Callable[[tuple[int, Row]], Any]:
    return lambda x: None if x[1].tested is None else getattr(x[1].tested, name)


ROWS = Table(
    "rows",
    "One row per row of verdict.json, in its order.",
    lambda _, verdict: enumerate(verdict.rows),
    (
        Column("row", Kind.INTEGER, "place in verdict.json, from 0", lambda x: x[0]),
        Column("name", Kind.TEXT, "what is judged", lambda x: x[1].name),
        Column("mode", Kind.TEXT, "decoding mode; missing for what belongs to none", lambda x: x[1].mode),
        Column("warmup", Kind.TEXT, "warm-up state", lambda x: x[1].warmup),
        Column("cache", Kind.TEXT, "state of the compile caches as proven", lambda x: x[1].cache),
        Column("context_tokens", Kind.INTEGER, "length of the prompts", lambda x: x[1].context_tokens, unit="tokens"),
        Column("word", Kind.TEXT, "the judgement: pass, fail, not tested, ...", lambda x: x[1].word),
        Column("control", Kind.TEXT, "the control's figure as the verdict writes it", lambda x: x[1].control),
        Column("candidate", Kind.TEXT, "the candidate's, likewise", lambda x: x[1].candidate),
        Column(
            "control_value",
            Kind.NUMBER,
            "the control's figure where it is one number; missing where it is several, or words",
            _figure("control"),
            unit="see unit",
        ),
        Column("candidate_value", Kind.NUMBER, "the candidate's, likewise", _figure("candidate"), unit="see unit"),
        Column("unit", Kind.TEXT, "unit of both figures", lambda x: x[1].unit),
        Column("reason", Kind.TEXT, "why that word", lambda x: public(x[1].reason)),
        Column(
            "sources",
            Kind.TEXT,
            "files with line or field that the figures come from",
            lambda x: "; ".join(x[1].sources),
        ),
        Column("pairs", Kind.INTEGER, "pairs of launches that were tested; missing without a test", _tested("pairs")),
        Column("primary", Kind.FLAG, "named before the run; only these decide", _tested("primary")),
        Column("change", Kind.NUMBER, "mean change of the pairs, better is +", _tested("change_pct"), unit="%"),
        Column("change_low", Kind.NUMBER, "lower bound of its interval", _tested("low_pct"), unit="%"),
        Column("change_high", Kind.NUMBER, "upper bound of its interval", _tested("high_pct"), unit="%"),
        Column("confidence", Kind.NUMBER, "of that interval", _tested("confidence_pct"), unit="%"),
        Column("margin", Kind.NUMBER, "change that is tolerated", _tested("margin_pct"), unit="%"),
        Column("sd", Kind.NUMBER, "standard deviation of one pair's log ratio, as used", _tested("sd")),
        Column("df", Kind.NUMBER, "degrees of freedom of that", _tested("df")),
        Column(
            "detectable",
            Kind.NUMBER,
            "smallest change that this would show in 80 % of sessions",
            _tested("detectable_pct"),
            unit="%",
        ),
        Column("p", Kind.NUMBER, "p of the test, see docs/judge.md", _tested("p")),
        Column("p_adjusted", Kind.NUMBER, "the same over the session's metrics of its kind", _tested("p_adjusted")),
        Column("p_improved", Kind.NUMBER, "p of an improvement, see docs/judge.md", _tested("p_improved")),
        Column("p_improved_adjusted", Kind.NUMBER, "the same over the primary metrics", _tested("p_improved_adjusted")),
        Column("pairs_needed", Kind.INTEGER, "pairs that would resolve an inconclusive row", _tested("pairs_needed")),
        Column(
            "cell_sha256",
            Kind.TEXT,
            "rows of two sessions may be compared where this is equal",
            lambda x: x[1].cell_sha256,
        ),
    ),
)
