"""What a session takes from those before it, put into its plan before the first launch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from harness.errors import SetupFailure
from harness.history.calibration import calibration_of
from harness.history.entry import host_values, software_sha256
from harness.history.importing import host_row, opened
from harness.history.index import Index
from harness.judge.cell_identity import Place, identity_of, identity_sha256
from harness.records import HostFacts, Lock, Plan, PlannedLaunch
from harness.records.history import Night, Point, Series
from harness.records.statistics import Past
from harness.words import Arm, Cache, Warmup

MOST_PAIRS = 60
"""Pairs that noise is pooled from, the last ones (notes/anchors.md 2.5)."""
MOST_DF = 30
"""Degrees of freedom that history may bring; the judge counts no more either."""
MOST_NIGHTS = 119
"""Nights of a series that are frozen, besides tonight."""
SOUND = "s.verdict NOT IN ('void', 'setup failure')"
"""Sessions whose measurement was not broken."""

CellKey = tuple[str, Warmup, Cache]


def freeze(
    plan: Plan, host: HostFacts, locks: Mapping[Arm, Lock], *, night: Night | None = None
) -> tuple[Plan, list[str]]:
    """The plan with this host's noise, its calibration and, for a night, the nights before; and what to say of it.

    An index that cannot be opened costs a session its history and nothing else.

    Raises:
        ConfigError: the index is of a newer harness.
    """
    notes: list[str] = []
    try:
        with opened(notes) as index:
            ask = _Asking(index, plan, host, locks)
            series = tuple(ask.series(night.date)) if night else ()
            past = tuple(ask.past())
            calibration = calibration_of(index, host_values(host))
    except SetupFailure as e:
        return plan.model_copy(update={"night": night}), [*notes, f"history: none is used: {e}"]
    if host.id is None:
        notes.append("history: the state folder cannot be written, so this host has no id and its noise is not pooled")
    if calibration is not None and not calibration.trusted:
        notes.append(
            f"history: this host lost the right to judge speed in {calibration.lost_in} ({calibration.lost_at}): speed "
            f"is measured and not judged; since then {calibration.counted}"
        )
    frozen = {
        "history": past,
        "calibration": calibration,
        "night": night.model_copy(update={"series": series}) if night else None,
    }
    return plan.model_copy(update=frozen), notes


class _Asking:
    """Questions of one plan to the index."""

    def __init__(self, index: Index, plan: Plan, host: HostFacts, locks: Mapping[Arm, Lock]) -> None:
        self._index = index
        self._plan = plan
        self._host = host
        self._locks = locks
        self._row = host_row(index, host_values(host)) if host.id is not None else None

    def past(self) -> Iterator[Past]:
        """Pooled noise of every metric that the index knows in a cell of the plan."""
        for key in self._cells():
            for context in (None, *self._contexts()):
                known: dict[str, list[tuple[int, float, str]]] = {}
                identity = None
                for identity in self._identities(key, context):
                    for row in self._rows(identity):
                        known.setdefault(row[0], []).append(row[1:])
                    if known:  # of the state that the caches were last found in, and of no other
                        break
                for name, sessions in sorted(known.items()):
                    yield self._pooled(key, name, context, sessions, identity)

    def series(self, tonight: str) -> Iterator[Series]:
        """The nights before of every primary metric, against the same control and in the same cell."""
        for key in self._cells():
            for name, context in self._primary(key):
                identities = list(self._identities(key, context))
                points: tuple[Point, ...] = ()
                for identity in identities:
                    if points := tuple(self._points(identity, name, tonight)):
                        break
                else:
                    identity = identities[-1]
                mode, warmup, cache = key
                yield Series(
                    mode=mode,
                    warmup=warmup,
                    cache=cache,
                    name=name,
                    context_tokens=context,
                    cell_sha256=identity,
                    points=points,
                )

    def _cells(self) -> list[CellKey]:
        measured: list[PlannedLaunch] = [x for x in self._plan.launches if x.measured]
        return list(dict.fromkeys((x.mode, x.warmup, x.cache) for x in measured))

    def _contexts(self) -> list[int]:
        return [c.prompt_tokens for c in self._plan.profile.course.contexts]

    def _primary(self, key: CellKey) -> Iterator[tuple[str, int | None]]:
        """Name and context of what plan.json names as primary, in a warm cell."""
        mode, _, cache = key
        if cache is not Cache.WARM:
            return
        contexts = {str(c): c for c in self._contexts()}
        for primary in self._plan.primary_metrics:
            of, _, rest = primary.partition(" ")
            name, _, last = rest.rpartition(" ")
            if of == mode:
                yield (name, contexts[last]) if name and last in contexts else (rest, None)

    def _identities(self, key: CellKey, context: int | None) -> Iterator[str]:
        """Identities that the cell had here, by the state its caches were proven in, last the one that is planned."""
        mode, warmup, cache = key
        found = self._index.sql.execute(
            "SELECT m.proven, max(s.started_wall) AS last FROM metrics m JOIN sessions s USING (root_sha256) "  # noqa: S608  # no value in it
            f"WHERE s.host = ? AND s.profile = ? AND m.mode = ? AND m.warmup = ? AND m.cache = ? AND {SOUND} "
            "GROUP BY m.proven ORDER BY last DESC, m.proven",
            (self._row, self._plan.profile.name, mode, warmup, cache),
        ).fetchall()
        for proven in dict.fromkeys([*(r["proven"] for r in found), str(cache)]):
            place = Place(mode, warmup, proven, context)
            yield identity_sha256(identity_of(self._plan, self._host, self._locks, place))

    def _rows(self, identity: str) -> list[tuple[str, int, float, str]]:
        found = self._index.sql.execute(
            "SELECT m.name, m.pairs, m.own_sd, m.root_sha256 FROM metrics m JOIN sessions s USING (root_sha256) "  # noqa: S608
            f"WHERE s.host = ? AND m.cell_sha256 = ? AND m.own_sd IS NOT NULL AND {SOUND} "
            "ORDER BY s.started_wall DESC, s.session DESC",
            (self._row, identity),
        ).fetchall()
        return [tuple(r) for r in found]

    def _pooled(
        self, key: CellKey, name: str, context: int | None, sessions: list[tuple[int, float, str]], identity: str | None
    ) -> Past:
        mode, warmup, cache = key
        taken: list[tuple[int, float, str]] = []
        for session in sessions:
            if taken and sum(s[0] for s in taken) + session[0] > MOST_PAIRS:
                break
            taken.append(session)
        df = sum(pairs - 1 for pairs, _, _ in taken)
        variance = sum((pairs - 1) * sd**2 for pairs, sd, _ in taken) / df
        return Past(
            mode=mode,
            warmup=warmup,
            cache=cache,
            name=name,
            context_tokens=context,
            sd=float(f"{math.sqrt(variance):.9g}"),
            df=float(min(df, MOST_DF)),
            sources=tuple(root for _, _, root in taken),
            cell_sha256=identity,
        )

    def _points(self, identity: str, name: str, tonight: str) -> Iterator[Point]:
        """One per night, of several sessions the last; oldest first."""
        control = software_sha256(self._locks[Arm.CONTROL], self._plan.control)
        found = self._index.sql.execute(
            "SELECT s.night, s.session, s.root_sha256, m.mean, m.pairs, m.own_sd "  # noqa: S608  # no value in it
            "FROM metrics m JOIN sessions s USING (root_sha256) JOIN arms a USING (root_sha256) "
            f"WHERE s.host = ? AND m.cell_sha256 = ? AND m.name = ? AND s.night < ? AND {SOUND} "
            "AND a.arm = 'control' AND a.software_sha256 = ? ORDER BY s.night, s.started_wall, s.session",
            (self._row, identity, name, tonight, control),
        ).fetchall()
        by_night = {r["night"]: r for r in found}
        for row in list(by_night.values())[-MOST_NIGHTS:]:
            yield Point(
                night=row["night"],
                session=row["session"],
                root_sha256=row["root_sha256"],
                mean=float(f"{row['mean']:.9g}"),
                pairs=row["pairs"],
                own_sd=row["own_sd"],
            )
