"""A rank that is gone while the others live is named by its process; of ends without an order nobody is blamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

import pytest

from harness.observe.sampler import HostSampler, Usage
from harness.observe.vanished import vanished_worker

S = 1_000_000_000
PERIOD = 0.25
API, ENGINE, TP0, TP1, TP2 = "vllm:1", "VLLM::EngineCore:2", *(f"VLLM::Worker_TP{n}:1{n}" for n in range(3))
ALL = (API, ENGINE, TP0, TP1, TP2)


def rows(ends: Mapping[str, float], *, until: float = 10.0, zombies: bool = False) -> Iterator[list[object]]:
    """Samples four times a second of processes that end when told; a zombie has lost its memory and its name's end."""
    for n in range(round(until / PERIOD) + 1):
        for process in ALL:
            alive = n * PERIOD < ends.get(process, 99)
            name, _, pid = process.rpartition(":")
            if alive or zombies:
                yield [round(n * PERIOD * S), process if alive else f"{name[:15]}:{pid}", 5 if alive else 0, None, 7]


@pytest.mark.parametrize("zombies", [False, True], ids=["gone", "a zombie"])
def test_the_rank_whose_process_is_gone_while_the_others_live_is_named(zombies: bool) -> None:
    told = "worker TP1 vanished (pid 11, seen last 3.2 s before the others)"
    assert vanished_worker(rows({TP1: 7.0}, zombies=zombies)) == told


@pytest.mark.parametrize(
    "ends",
    [
        {},
        dict.fromkeys(ALL, 5.0),
        dict.fromkeys((ENGINE, TP0, TP1, TP2), 5.0),
        {API: 5.0},
        {ENGINE: 5.0, TP1: 5.5, TP0: 8.0},
        {ENGINE: 5.1, TP1: 5.0},
        {TP1: 5.0, TP0: 5.2, TP2: 5.2},
        {TP0: 5.0, TP1: 5.0, TP2: 5.0},
        {TP1: 10.0},
    ],
    ids=[
        "none ends",
        "all at once",
        "all but the front end",
        "the front end alone",
        "workers follow their engine",
        "engine and worker at once",
        "the others a reading later",
        "every rank at once",
        "seen last just before the stop",
    ],
)
def test_of_ends_that_have_no_order_nobody_is_blamed(ends: Mapping[str, float]) -> None:
    assert vanished_worker(rows(ends)) is None


def test_what_the_others_do_after_it_does_not_clear_it() -> None:
    assert vanished_worker(rows({TP2: 5.0, ENGINE: 7.0, TP0: 7.0, TP1: 8.0})) == (
        "worker TP2 vanished (pid 12, seen last 2.0 s before the others)"
    )


def test_a_child_that_has_still_the_ranks_title_ends_without_a_word() -> None:
    every = list(rows({}))
    assert vanished_worker([*every[:10], [every[9][0], "VLLM::Worker_TP1:77", 5, None, 1], *every[10:]]) is None


def test_a_child_that_keeps_the_ranks_title_does_not_stand_for_it() -> None:
    """As in a container, where nobody takes it out of the server's family once its parent has gone."""
    child = "VLLM::Worker_TP1:9"
    with_child: list[list[object]] = []
    for time_ns, sampled in groupby(rows({TP1: 7.0}), key=lambda row: int(str(row[0]))):
        with_child += [*sampled, *([[time_ns, child, 5, None, 7]] if time_ns > 2 * S else [])]
    assert vanished_worker(with_child) == "worker TP1 vanished (pid 11, seen last 3.2 s before the others)"


def test_a_rank_is_known_by_the_time_before_it_had_its_title() -> None:
    early: list[list[object]] = [[n * S, "python3:11", 5, None, 1] for n in (-2, -1)]
    child_first: list[list[object]] = [[0, "VLLM::Worker_TP1:9", 5, None, 1], *rows({TP1: 7.0})]
    assert (vanished_worker([*early, *child_first]) or "").startswith("worker TP1 vanished (pid 11, seen last 3.2 s")


def test_a_server_without_ranks_and_no_samples_at_all_tell_nothing() -> None:
    assert vanished_worker([]) is None
    assert vanished_worker([[n * S, "vllm:1", 5, None] for n in range(9)]) is None


def test_a_sampler_tells_it_while_it_runs(tmp_path: Path) -> None:
    readings = [dict.fromkeys(ALL, Usage(5, 7))]
    sampler = HostSampler(lambda: readings[-1], tmp_path / "host.parquet", period_s=60)
    assert sampler.vanished_worker() is None
    sampler.start()
    sampler.read_now()
    readings.append({process: used for process, used in readings[0].items() if process != TP0})
    for _ in range(3):
        sampler.read_now()
    assert (sampler.vanished_worker() or "").startswith("worker TP0 vanished (pid 10, seen last 0.0 s")
    sampler.finish()
