"""The container's own start on the launcher's clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.evidence.bundle import LaunchDir
from harness.judge.read import LaunchEvidence
from harness.judge.rows.startup import container_start_ns, start_phases
from harness.observe.phases import FIRST_LINE, PROCESS, SERVED, LogClock
from harness.records import ContainerFacts, LaunchRecord, Mark

ASKED = "2026-11-29T16:00:00.000+00:00"
SECOND = 1_000_000_000


def launch(started_wall: str | None, *, container: bool = True, asked: str = ASKED) -> LaunchEvidence:
    known: dict[str, Any] = {"started_wall": started_wall}
    told: dict[str, Any] = {"container": ContainerFacts.model_construct(**known) if container else None}
    times = ((PROCESS, 10), (FIRST_LINE, 15), (SERVED, 60))
    return LaunchEvidence(
        folder=LaunchDir(Path("001")),
        record=LaunchRecord.model_construct(**told),
        marks=tuple(Mark(mark=n, mono_ns=t * SECOND, wall=asked, source="launcher") for n, t in times),
        windows=(),
        outputs={},
        checks=(),
        log=(),
        clock=LogClock([], []),
        first_scrape=None,
    )


@pytest.mark.parametrize(
    ("started_wall", "seconds"),
    [
        ("2026-11-29T16:00:02.500000000Z", 12.5),
        ("2026-11-29T17:00:02.5+01:00", 12.5),
        ("2026-11-29T15:59:59.000000000Z", None),  # before it was asked for: the clock was set
        ("2026-11-29T18:00:00.000000000Z", None),  # after the first request: likewise
        ("some time", None),
        (None, None),
    ],
)
def test_the_engines_wall_time_is_told_on_the_launchers_clock(started_wall: str | None, seconds: float | None) -> None:
    found = container_start_ns(launch(started_wall))
    assert found == (None if seconds is None else seconds * SECOND)


def test_a_process_has_no_containers_start() -> None:
    assert container_start_ns(launch(None, container=False)) is None
    assert container_start_ns(launch("2026-11-29T16:00:02Z", asked="")) is None


def test_the_containers_start_divides_what_comes_before_the_first_line() -> None:
    found = {p.name: p.seconds for p in start_phases(launch("2026-11-29T16:00:02Z"))}
    assert found["image and container, to its start"] == 2
    assert found["interpreter and imports, to the first log line"] == 3
