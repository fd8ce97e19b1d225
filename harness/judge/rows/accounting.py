"""The k=1 identity of speculative decoding, spelled out: the counters must explain every token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.judge.case import Case, Cell
from harness.judge.window import WindowEvidence
from harness.records import Row
from harness.words import Word

NAME = "draft arithmetic"


@dataclass(frozen=True)
class Account:
    """Counts summed over windows."""

    generated: int
    requests: int
    drafts: int
    accepted: int

    @property
    def trimmed(self) -> int:
        """Accepted tokens beyond what was asked for: counted as accepted, never delivered."""
        return self.requests + self.drafts + self.accepted - self.generated

    def text(self) -> str:
        """`1,234 = 40 requests + 700 drafts + 500 accepted - 6 trimmed`."""
        return (
            f"{self.generated:,} = {self.requests:,} requests + {self.drafts:,} drafts + {self.accepted:,} accepted"
            f" - {self.trimmed:,} trimmed"
        )


def rows(case: Case) -> Iterator[Row]:
    """One self-check row per cell whose mode drafts exactly one token."""
    for cell in case.cells:
        if case.draft_tokens(cell.mode) == 1:
            yield _row(cell)


def account(windows: list[WindowEvidence]) -> Account | None:
    """The sums over the windows whose requests were served and whose counts are known; None where none is."""
    counted = [w for w in windows if w.unserved is None and w.delta is not None and not w.delta.reset]
    names = ("generation_tokens", "requests", "drafts", "accepted")
    values = [[w.counted(name) for name in names] for w in counted]
    known = [[v for v in row if v is not None] for row in values]
    known = [row for row in known if len(row) == len(names)]
    if not known:
        return None
    generated, requests, drafts, accepted = (sum(column) for column in zip(*known, strict=True))
    return Account(generated, requests, drafts, accepted)


def _row(cell: Cell) -> Row:
    """Each request delivers one token of its prefill; each draft one, and one more where it was accepted."""
    sides = [[w for x in side for w in x.windows] for _, side in cell.arms()]
    broken = [
        f"{x.folder.id} {w.window.window}: {found.text()}"
        for _, side in cell.arms()
        for x in side
        for w in x.windows
        if (found := account([w])) is not None and not 0 <= found.trimmed <= found.requests
    ]
    accounts = [account(side) for side in sides]
    if broken:
        word, reason = Word.VOID, f"the counters do not explain the tokens: {broken[0]}"
    elif None in accounts:
        word, reason = Word.NOT_TESTED, "an arm has no window whose counts are known"
    else:
        word, reason = Word.PASS, "generated = requests + drafts + accepted - trimmed, 0 <= trimmed <= requests"
    texts = [None if a is None else a.text() for a in accounts]
    sources = tuple(f"launches/{x.folder.id}/windows.jsonl" for _, side in cell.arms() for x in side)
    return cell.row(NAME, word, reason, control=texts[0], candidate=texts[1], unit="tokens", sources=sources)
