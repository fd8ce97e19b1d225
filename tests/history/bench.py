"""Sealed bundles of sessions that never ran, and rows of an index without any bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.evidence.bundle import Bundle, write_record
from harness.evidence.manifest import MANIFEST, seal
from harness.history.importing import host_row
from harness.history.index import Index
from harness.judge.verdict import judge
from harness.records import Plan, Run
from harness.records.history import Night
from tests.judge.bundles import WARM, Session, stack

HERE, THERE = "a" * 32, "b" * 32
"""Two hosts of one class."""
FOUR: dict[str, object] = {"plan.pairs": 4, "plan.caches": ["warm"]}
QUIET = (1.001, 0.999, 1.002, 0.998)
"""Speeds of the candidate in four pairs: no effect, and little noise."""


def session(
    results: Path,
    name: str,
    speeds: Sequence[float] = QUIET,
    *,
    host: str | None = HERE,
    day: int = 1,
    overrides: Mapping[str, object] | None = None,
    flags: Mapping[str, int] | None = None,
    night: Night | None = None,
    interrupted: str | None = None,
    judged: bool = False,
    compiled: str = "as planned",
    **plan_fields: object,
) -> Bundle:
    """A sealed bundle in `results`, an A/A session unless the candidate has `flags`; its verdict only if `judged`."""
    made = Session(
        results / ".made" / name, FOUR | dict(overrides or {}), candidate=stack("candidate", None, **flags or {})
    )
    made.both(compiled=compiled)
    for pair, speed in enumerate(speeds):
        made.candidate(where=WARM | {"pair": pair}, speed=speed)
    bundle = made.build()
    bundle.root.rename(results / name)
    bundle = Bundle(results / name)
    plan: Plan = bundle.plan()
    run: Run = bundle.run()
    write_record(bundle.plan_file, plan.model_copy(update={"session": name, "night": night, **plan_fields}))
    write_record(
        bundle.run_file,
        run.model_copy(
            update={
                "session": name,
                "started_wall": f"2026-11-{day:02d}T01:00:00+00:00",
                "interrupted": interrupted,
                "host": run.host.model_copy(update={"id": host}),
            }
        ),
    )
    seal(bundle.root)
    if judged:
        write_record(bundle.verdict_file, judge(bundle))
    return bundle


def seal_again(root: Path) -> str:
    """Seal a bundle that a test has changed since it was sealed; its new root hash."""
    (root / MANIFEST).unlink()
    return seal(root)


@dataclass(frozen=True)
class Metric:
    """One metric of a session in the index."""

    cell: str = "c" * 64
    name: str = "decode steps"
    word: str = "pass"
    interval_pct: tuple[float, float] = (-1.0, 1.0)
    mean: float = 0.0
    own_sd: float | None = 0.01
    pairs: int = 4
    proven: str = "warm"


def remembered(
    index: Index,
    name: str,
    *metrics: Metric,
    host: str | None = HERE,
    kind: str = "A/A",
    verdict: str = "pass",
    day: int = 1,
    night: str | None = None,
    control: str = "d" * 64,
) -> str:
    """Put a session into the index, and return its root hash."""
    root = hashlib.sha256(name.encode()).hexdigest()
    with index.transaction():
        number = host_row(index, {"host_id": host, "class_sha256": "e" * 64, "class": "{}"}, make=True)
        index.insert(
            "sessions",
            {
                "root_sha256": root,
                "session": name,
                "place": f"/results/{name}",
                "host": number,
                "profile": "cpu-forged",
                "kind": kind,
                "verdict": verdict,
                "exit_code": 0,
                "started_wall": f"2026-01-01T00:00:00+00:00 {day:05d}",
                "measurement": 1,
                "smoke": 0,
                "seed": 1,
                "harness_version": "0",
                "night": night,
            },
        )
        for arm, software in (("control", control), ("candidate", "f" * 64)):
            index.insert(
                "arms",
                {
                    "root_sha256": root,
                    "arm": arm,
                    "stack": arm,
                    "software_sha256": software,
                    "engine_version": "0.32.0",
                    "model_sha256": "0" * 64,
                },
            )
        for m in metrics:
            number = index.insert(
                "metrics",
                {
                    "root_sha256": root,
                    "mode": "mtp1",
                    "warmup": "engine",
                    "cache": "warm",
                    "proven": m.proven,
                    "name": m.name,
                    "context_tokens": 96,
                    "cell_sha256": m.cell,
                    "is_primary": 1,
                    "word": m.word,
                    "pairs": m.pairs,
                    "mean": m.mean,
                    "own_sd": m.own_sd,
                    "low_pct": m.interval_pct[0],
                    "high_pct": m.interval_pct[1],
                    "margin_pct": 3.0,
                },
            )
            index.insert("ratios", {"metric": number, "place": 0, "log_ratio": m.mean})
    return root


def count(index: Index, table: str) -> int:
    """Rows of a table."""
    return int(index.sql.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
