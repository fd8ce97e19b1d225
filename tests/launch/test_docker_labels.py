"""What belongs to a harness that is certainly gone, and what does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.launch.docker.labels import is_abandoned, new_labels


@pytest.fixture
def of_the_dead() -> dict[str, str]:
    """Labels of a harness of this user, of this boot and namespace, that has ended."""
    harness = subprocess.Popen([sys.executable, "-c", "pass"])
    harness.wait()
    return new_labels("s", 0, "001-x", Path("/tmp/qualify-x")) | {"qualify.owner-pid": str(harness.pid)}


def test_what_a_dead_harness_left_is_abandoned(of_the_dead: dict[str, str]) -> None:
    assert is_abandoned(of_the_dead)


def test_what_lives_is_not() -> None:
    assert not is_abandoned(new_labels("s", 0, "001-x", Path("/tmp/qualify-x")))


def test_a_number_that_now_belongs_to_another_process_is_no_owner() -> None:
    labels = new_labels("s", 0, "001-x", Path("/tmp/qualify-x"))
    assert is_abandoned(labels | {"qualify.owner-started": "1"})


def test_no_owner_outlives_its_machine() -> None:
    assert is_abandoned(new_labels("s", 0, "001-x", Path("/tmp/qualify-x")) | {"qualify.owner-boot": "another"})


@pytest.mark.parametrize(
    "change",
    [
        {"qualify.owner-uid": "4711"},
        {"qualify.owner-pid-namespace": "pid:[1]"},
        {"qualify.owner-pid": "unknown"},
    ],
    ids=["another user's", "of another container", "unreadable"],
)
def test_what_cannot_be_known_from_here_is_left_alone(of_the_dead: dict[str, str], change: dict[str, str]) -> None:
    assert not is_abandoned(of_the_dead | change)


def test_what_carries_only_part_of_the_labels_is_left_alone(of_the_dead: dict[str, str]) -> None:
    for name in of_the_dead:
        if "owner" in name:
            assert not is_abandoned({k: v for k, v in of_the_dead.items() if k != name})


def test_every_launch_has_a_marker_of_its_own() -> None:
    first, second = (new_labels("s", 0, "001-x", Path("/tmp/qualify-x"))["qualify.marker"] for _ in range(2))
    assert first != second
