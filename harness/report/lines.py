"""The comment's table: one line per subject and mode, in the reviewers' order, made of the verdict's rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.records import Row, Verdict
from harness.report.figures import Pick, accepted, chain, difference, reading
from harness.report.sides import change, identity, kernels, kv, mal, outputs, share, side_of, texts, titled, what
from harness.report.text import shortened, tokens_text
from harness.words import GRAVE, Warmup, Word

GRAVITY = (*GRAVE, Word.NOTE, Word.PASS, Word.IMPROVED, Word.NOT_TESTED)
"""Which of several states of one subject is shown: the gravest that was judged."""

_DECODE = re.compile(r"decode(?: steps)?(?:, \d+ streams)?")
FIRST_PROMPT = "lowest free in first prompt"
KEPT = "memory kept by first prompt"
LATE = (
    ("late JIT (engine's monitor)", "late JIT, engine's monitor"),
    ("late compiles (caches)", "late JIT, compile caches"),
    ("late JIT (tracer)", "late JIT, tracer"),
    ("specialisation mismatch", "specialisation mismatch"),
)
"""Sources of late JIT, never added up."""
LATE_BY_RANK = (
    ("late JIT by rank (engine's monitor)", "late kernels/rank, engine's monitor"),
    ("late JIT by rank (tracer)", "late kernels/rank, tracer"),
    ("compile misses by rank", "compile misses/rank"),
    ("late compiles by rank", "late compiles/rank"),
)
"""The same rank by rank, where there are several: the worst one and the range."""


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    subject: str
    state: str
    """`mtp1 cold + warm`; with the warm-up where there are several."""
    control: str
    candidate: str
    delta: str
    word: Word
    context: int | None = None
    """Prompt tokens."""


@dataclass(frozen=True)
class _Found:
    """The state of a subject that is shown, and what it stands for."""

    row: Row
    state: str


def lines(verdict: Verdict) -> list[Line]:
    """Lines in the order of DESIGN 8; subjects of which the verdict has no row have none."""
    found = _Table(verdict.rows)
    every = [
        *(line for name, title in LATE for line in found.plain(name, title, kernels)),
        *(line for name, title in LATE_BY_RANK for line in found.numbers(name, title, "most")),
        *found.claims("late_jit"),
        *found.plain("KV tokens", "KV tokens", kv),
        *found.numbers("KV memory by rank", "KV memory, GiB/rank", "least"),
        *found.claims("kv_"),
        *found.numbers("residency", "residency, MiB/rank", "most"),
        *found.free(),
        *found.numbers("host memory by rank", "host memory, MiB/rank", "most"),
        *found.claims("free_"),
        *found.acceptance(),
        *found.plain("identity, candidate vs control", "identity", identity),
        *found.outputs(),
        *found.starts(),
        *found.claims("cold_start"),
        *found.numbers("prefill", "PP, tok/s", "middle"),
        *found.decode(),
        *found.numbers("CPU time by rank", "CPU time, s/rank", "least"),
        *found.claims("throughput"),
    ]
    return _merged(every)


def _merged(every: Sequence[Line]) -> list[Line]:
    """Modes that came to the same stand in one line: `mtp0 + mtp1 cold + warm`."""
    groups: dict[tuple[object, ...], list[Line]] = {}
    for x in every:
        key = (x.subject, x.control, x.candidate, x.delta, x.word, x.state.partition(" ")[2])
        groups.setdefault(key, []).append(x)
    return [
        replace(
            same[0], state=" ".join(filter(None, (" + ".join(x.state.partition(" ")[0] for x in same), str(key[-1]))))
        )
        for key, same in groups.items()
    ]


class _Table:
    """The rows by name."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = [r for r in rows if r.word is not Word.NOT_TESTED or {r.control, r.candidate} - {None, "-"}]
        """Those without a figure or a judgement are named as not tested."""
        self._one_warmup = len({r.warmup for r in rows if r.warmup is not None}) < 2

    def plain(self, name: str, title: str, sides: Callable[[Row], tuple[str, str, str]]) -> Iterator[Line]:
        """Lines whose control, candidate and change a function says."""
        for found in self._shown(name):
            control, candidate, delta = sides(found.row)
            yield Line(titled(title, found.row), found.state, control, candidate, delta, found.row.word)

    def claims(self, begins: str) -> Iterator[Line]:
        """What the declared claims of a kind came to."""
        for row in self._rows:
            if row.name.startswith(f"claim {begins}"):
                outcome = row.reason.partition(":")[0]
                yield Line(row.name, "session", row.control or "-", row.candidate or "-", outcome, row.word)

    def numbers(self, name: str, title: str, pick: Pick) -> Iterator[Line]:
        """Lines of one number per launch."""
        for found in self._shown(name, timed=pick == "middle"):
            row = found.row
            sides = [reading(text, pick) for text in (row.control, row.candidate)]
            delta = change(row, *sides) if pick == "middle" else difference(*sides)
            yield Line(titled(title, row), found.state, *texts(row, sides), delta, row.word, row.context_tokens)

    def decode(self) -> Iterator[Line]:
        """Per context and number of streams, tokens and steps."""
        named = {
            r.name: r.name.replace("decode steps", "decode").replace("decode", "TG") + f", {r.unit.partition(',')[0]}"
            for r in self._rows
            if _DECODE.fullmatch(r.name)
        }
        streams = sorted(named, key=lambda n: (int("".join(filter(str.isdigit, n)) or 1), "steps" in n))
        found = [(line.context or 0, line) for n in streams for line in self.numbers(n, named[n], "middle")]
        yield from (line for _, line in sorted(found, key=lambda pair: pair[0]))

    def outputs(self) -> Iterator[Line]:
        """What the timed requests gave, of every context in one line."""
        for founds in self._by_mode("identity, measured outputs"):
            parts = [outputs(f.row) for f in founds]
            told = dict.fromkeys(f"{what(f.row)}: {part}" for f, part in zip(founds, parts, strict=True))
            told = dict.fromkeys(["all equal"]) if all(f.row.word is Word.PASS for f in founds) else told
            sides = ["; ".join(f"{what(f.row)}: {side_of(f.row, n) or '-'}" for f in founds) for n in (0, 1)]
            yield Line(
                "identity, timed requests", _longest(founds), sides[0], sides[1], "; ".join(told), _gravest(founds)
            )

    def starts(self) -> Iterator[Line]:
        """Cold starts, then warm ones, by what the caches were proven to be."""
        rows = [r for r in self._rows if r.name == "start-up"]
        names = {"cold": "cold start, s", "warm": "warm start, s"}
        for cache in sorted({r.cache or "" for r in rows}, key=lambda c: (c != "cold", c != "warm", c)):
            for found in self._per_mode([r for r in rows if (r.cache or "") == cache]):
                row = found.row
                sides = [reading(text, "middle") for text in (row.control, row.candidate)]
                delta = f"{difference(*sides)} s; {change(row, *sides, lower_is_better=True)}"
                title = names.get(cache, f"start, caches {cache or 'unknown'}, s")
                yield Line(title, found.state, *texts(row, sides), delta if all(sides) else "?", row.word)

    def free(self) -> Iterator[Line]:
        """Free memory at idle, lowest in the first long prompt, at the end.

        The word is the gravest one of the lowest of all, and of what the first prompts kept for good.
        """
        for found in self._shown("lowest free"):
            place = found.row
            longest = max((r.context_tokens or 0 for r in self._rows if r.name == FIRST_PROMPT), default=0)
            moments = [
                self._beside(place, "free at idle"),
                self._beside(place, FIRST_PROMPT, longest),
                self._beside(place, "free at the end"),
            ]
            sides = [[reading(side_of(row, arm), "least") for row in moments] for arm in (0, 1)]
            lowest = [reading(text, "least") for text in (place.control, place.candidate)]
            chains = [
                "-" if low is None else f"{chain(side)}; lowest {low}" for side, low in zip(sides, lowest, strict=True)
            ]
            delta = " → ".join(difference(a, b) for a, b in zip(*sides, strict=True))
            first = f"first {tokens_text(longest)} prompt" if longest else "first prompt"
            title = f"free MiB/rank: idle → {first} → end"
            here = (KEPT, place.mode, place.warmup, place.cache)
            kept = [r for r in self._rows if (r.name, r.mode, r.warmup, r.cache) == here]
            word = min((row.word for row in (place, *kept)), key=GRAVITY.index)
            yield Line(title, found.state, chains[0], chains[1], delta if all(lowest) else "?", word)

    def acceptance(self) -> Iterator[Line]:
        """Accepted and drafted tokens of each step as counted, then the mean acceptance length."""
        for founds in self._by_mode("accepted / drafted"):
            for title, shown in (("accepted / drafted", share), ("MAL", mal)):
                sides = [
                    "; ".join(
                        f"{what(f.row)}: {shown(counts)}" for f in founds if (counts := accepted(side_of(f.row, n)))
                    )
                    for n in (0, 1)
                ]
                delta = ("equal" if sides[0] == sides[1] else "differs") if all(sides) else "?"
                yield Line(title, _longest(founds), sides[0] or "-", sides[1] or "-", delta, _gravest(founds))

    def _by_mode(self, begins: str) -> Iterator[list[_Found]]:
        """Per mode, what is shown of every row whose name begins so, by name and context."""
        rows = [r for r in self._rows if r.name.startswith(begins)]
        for mode in dict.fromkeys(r.mode for r in rows):
            parts: dict[tuple[str, int | None], list[Row]] = {}
            for row in rows:
                if row.mode == mode:
                    parts.setdefault((row.name, row.context_tokens), []).append(row)
            yield [found for part in parts.values() for found in self._per_mode(part)]

    def _shown(self, name: str, *, timed: bool = False) -> Iterator[_Found]:
        rows = [r for r in self._rows if r.name == name]
        for context in dict.fromkeys(sorted((r.context_tokens or 0) for r in rows)):
            yield from self._per_mode([r for r in rows if (r.context_tokens or 0) == context], timed=timed)

    def _per_mode(self, rows: Sequence[Row], *, timed: bool = False) -> Iterator[_Found]:
        """The gravest state of each mode; of equals one that users meet, and not one whose warm-ups are switched off.

        Speed is judged with warm caches, so a cold cell is shown only by itself.
        """
        warmup = not self._one_warmup
        for mode in dict.fromkeys(r.mode for r in rows):
            states = [r for r in rows if r.mode == mode]
            if timed:
                states = [r for r in states if r.cache != "cold"] or states
            worst = min(states, key=lambda r: (GRAVITY.index(r.word), r.warmup is Warmup.NONE))
            alike = [r for r in states if _outcome(r) == _outcome(worst)]
            apart = [r for r in states if _outcome(r) != _outcome(worst)]
            others = shortened([f"{_state([r], mode=False, warmup=warmup)}: {r.word}" for r in apart])
            yield _Found(worst, _state(alike, warmup=warmup) + (f" ({others})" if others else ""))

    def _beside(self, place: Row, name: str, context: int | None = None) -> Row | None:
        wanted = (name, place.mode, place.warmup, place.cache, context)
        return next(
            (r for r in self._rows if (r.name, r.mode, r.warmup, r.cache, r.context_tokens) == wanted),
            None,
        )


def _state(rows: Sequence[Row], *, mode: bool = True, warmup: bool = True) -> str:
    """`mtp1 engine cold + warm, none warm`: warm-ups together only where their cache states are the same ones."""
    modes = " + ".join(dict.fromkeys(r.mode for r in rows if mode and r.mode is not None))
    caches: dict[str, dict[str, None]] = {}
    for row in rows:
        of = caches.setdefault(str(row.warmup) if warmup and row.warmup is not None else "", {})
        of.update(dict.fromkeys([row.cache] if row.cache is not None else []))
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, states in caches.items():
        alike.setdefault(tuple(sorted(states)), []).append(name)
    cells = ", ".join(
        " ".join(filter(None, (" + ".join(filter(None, names)), " + ".join(caches[names[0]]))))
        for names in alike.values()
    )
    return " ".join(filter(None, (modes, cells))) or "session"


def _gravest(founds: Sequence[_Found]) -> Word:
    return min((f.row.word for f in founds), key=GRAVITY.index)


def _longest(founds: Sequence[_Found]) -> str:
    """The state that says most: those of one line differ where one of them has a gravest state."""
    return max((f.state for f in founds), key=len)


def _outcome(row: Row) -> tuple[object, ...]:
    return row.word, row.control, row.candidate


def _has_figures(row: Row) -> bool:
    return row.control is not None or row.candidate is not None
