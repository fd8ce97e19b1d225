"""Two bundles of one host class and profile, side by side. Shown and not judged: an A/B is one session.

What may be read across sessions is the ratio of candidate to control, since each session's control was
measured beside its candidate. Bare figures of two days are not comparable, and none is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from harness.errors import ConfigError
from harness.judge.case import Case, Cell
from harness.judge.cell_identity import HOST, difference_text, different, identity, identity_sha256
from harness.judge.verdict import judge_case
from harness.records import Row
from harness.records.statistics import Tested

CellKey = tuple[str, str, str]
RowKey = tuple[object, ...]


def compare_lines(one: Case, other: Case, *, across_hosts: bool = False) -> list[str]:
    """What moved between two sessions, as lines for a terminal.

    Raises:
        ConfigError: no cell is in both, or one is and is not the same thing in both; names what differs.
    """
    ours, theirs = _cells(one), _cells(other)
    shared = [key for key in ours if key in theirs]
    if not shared:
        raise ConfigError(
            f"{one.plan.session} and {other.plan.session} have no cell in common (mode, warm-up, cache); "
            "compare sessions of the same profile"
        )
    foreign = _check(one, other, [(ours[key], theirs[key]) for key in shared], across_hosts=across_hosts)
    lines = [f"{name}  {case.plan.session}" for name, case in (("A", one), ("B", other))]
    if foreign:
        lines.append(f"ACROSS HOSTS, as asked; no figure here is evidence: {foreign}")
    for key in shared:
        fields = identity(one, ours[key], None)
        lines.append(f"{' '.join(key)}  identity {identity_sha256(fields)[:12]}")
    alone = [k for k in (*ours, *theirs) if k not in shared]
    lines += [f"{' '.join(key)}  only in {'A' if key in ours else 'B'}" for key in alone]
    return lines + list(_rows(judge_case(one).rows, judge_case(other).rows))


def _check(one: Case, other: Case, cells: list[tuple[Cell, Cell]], *, across_hosts: bool) -> str | None:
    """Refuse identities that differ; the text of the hosts' difference where that was asked for."""
    hosts = _hosts(one, other)
    refused: dict[str, None] = {} if hosts is None or across_hosts else {hosts: None}
    for ours, theirs in cells:
        a, b = identity(one, ours, None), identity(other, theirs, None)
        for name in different(a, b):
            text = difference_text(a, b, name)
            if name == HOST and across_hosts:
                hosts = text  # says more than two random ids
            else:
                refused[text] = None
    if refused:
        mend = " (--across-hosts shows it all the same, marked)" if all(t.startswith(HOST) for t in refused) else ""
        raise ConfigError(
            f"{one.plan.session} and {other.plan.session} did not measure the same thing: {'; '.join(refused)}{mend}"
        )
    return hosts


def _hosts(one: Case, other: Case) -> str | None:
    """Two machines of one class are two hosts, where both sessions say which one they ran on."""
    ours, theirs = one.run.host.id, other.run.host.id
    if ours is None or theirs is None or ours == theirs:
        return None
    return f"{HOST}: two machines, {ours[:8]} vs {theirs[:8]}"


def _cells(case: Case) -> Mapping[CellKey, Cell]:
    return {(c.mode, str(c.warmup), str(c.cache)): c for c in case.cells}


def _rows(ours: tuple[Row, ...], theirs: tuple[Row, ...]) -> Iterator[str]:
    """Metrics that pairs of launches tested in both, then every row whose word is another one."""
    a, b = ({_key(row): row for row in rows} for rows in (ours, theirs))
    for key, row in a.items():
        if row.tested and key in b and (tested := b[key].tested):
            yield f"{_name(row)}: A {_change(row.tested)}; B {_change(tested)}; B to A {_moved(row.tested, tested)}"
    for key, row in a.items():
        if key in b and b[key].word is not row.word:
            yield f"{_name(row)}: A {row.word}, B {b[key].word}"


def _key(row: Row) -> RowKey:
    return row.name, row.mode, row.warmup, row.cache, row.context_tokens


def _name(row: Row) -> str:
    return " ".join(str(x) for x in (row.mode, row.warmup, row.cache, row.context_tokens, row.name) if x is not None)


def _change(t: Tested) -> str:
    return f"{t.change_pct:+.1f} % ({t.low_pct:+.1f} to {t.high_pct:+.1f}, {t.pairs} pairs)"


def _moved(a: Tested, b: Tested) -> str:
    """Difference of the two mean log ratios with Welch's interval: each session's control is its own."""
    from harness.judge.stats.interval import welch  # noqa: PLC0415

    means = [math.log1p(t.change_pct / 100) for t in (a, b)]
    half = welch((a.sd, a.df, a.pairs), (b.sd, b.df, b.pairs))
    mean = means[1] - means[0]
    low, high = (100 * math.expm1(x) for x in (mean - half, mean + half))
    return f"{100 * math.expm1(mean):+.1f} % (90 % interval {low:+.1f} to {high:+.1f})"
