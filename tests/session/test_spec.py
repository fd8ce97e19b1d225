"""Where a launch's server works."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.session.spec import work_folder


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_launches_of_a_lane_share_one_path_since_paths_enter_cache_keys() -> None:
    assert work_folder("s", 0) == work_folder("s", 0)
    assert len({work_folder("s", 0), work_folder("s", 1), work_folder("t", 0)}) == 3


def test_it_is_empty_and_nobody_elses() -> None:
    (work_folder("s", 0) / "left-behind").touch()
    folder = work_folder("s", 0)
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700


def test_its_name_leaves_room_for_the_sockets_in_it() -> None:
    assert len(work_folder("20261129T223720Z-a-rather-long-profile-name-eb4be4", 3).name) <= 16
