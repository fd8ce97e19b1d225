"""Compile caches of a lane: what cold and warm mean, and a listing that a busy compiler cannot break."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from harness.errors import SetupFailure
from harness.launch.caches import LaneCaches, listing
from harness.words import Cache

KERNEL = b"cubin"


@pytest.fixture
def caches(tmp_path: Path) -> LaneCaches:
    """A lane whose cold launch 001 left one kernel."""
    caches = LaneCaches(tmp_path / "lane-0")
    caches.prepare(Cache.COLD, None)
    put(caches, "triton/aa/kernel.cubin", KERNEL)
    caches.keep("001")
    return caches


def sizes(root: Path) -> dict[str, int]:
    return {path: size for path, (size, _) in listing(root).items()}


def put(caches: LaneCaches, name: str, data: bytes) -> None:
    file = caches.live / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def test_cold_is_empty(tmp_path: Path) -> None:
    caches = LaneCaches(tmp_path / "lane-0")
    caches.prepare(Cache.COLD, None)
    assert caches.live.is_dir()
    assert list(caches.live.iterdir()) == []


def test_cold_is_empty_after_a_launch_that_left_something(caches: LaneCaches) -> None:
    caches.prepare(Cache.WARM, "001")
    put(caches, "deep/er/file", b"x")
    caches.prepare(Cache.COLD, None)
    assert list(caches.live.iterdir()) == []


def test_warm_is_what_the_cold_launch_left_at_the_same_path(caches: LaneCaches) -> None:
    place = caches.live
    caches.prepare(Cache.WARM, "001")
    assert caches.live == place
    assert sizes(caches.live) == {"triton/aa/kernel.cubin": len(KERNEL)}


def test_warm_keeps_links_and_times_because_some_caches_look_at_them(tmp_path: Path) -> None:
    caches = LaneCaches(tmp_path / "lane-0")
    caches.prepare(Cache.COLD, None)
    put(caches, "kernel", KERNEL)
    (caches.live / "link").symlink_to("kernel")
    os.utime(caches.live / "kernel", (1_000_000, 1_000_000))
    caches.keep("001")
    caches.prepare(Cache.WARM, "001")
    assert (caches.live / "link").readlink() == Path("kernel")
    assert (caches.live / "kernel").stat().st_mtime == 1_000_000


def test_warm_is_never_written_back(caches: LaneCaches) -> None:
    caches.prepare(Cache.WARM, "001")
    put(caches, "triton/aa/kernel.cubin", b"changed in place")
    put(caches, "triton/bb/late.cubin", b"compiled late")
    caches.prepare(Cache.WARM, "001")
    assert sizes(caches.live) == {"triton/aa/kernel.cubin": len(KERNEL)}
    assert (caches.live / "triton/aa/kernel.cubin").read_bytes() == KERNEL


@pytest.mark.parametrize("warm_from", ["002", None])
def test_warm_without_its_cold_launch_is_a_setup_failure_that_names_it(
    caches: LaneCaches, warm_from: str | None
) -> None:
    with pytest.raises(SetupFailure, match=f"no warm cache: the cold launch {warm_from} did not complete"):
        caches.prepare(Cache.WARM, warm_from)


def test_a_live_folder_that_cannot_be_emptied_is_a_setup_failure(tmp_path: Path) -> None:
    # A cold launch on leftovers would be measured as cold.
    caches = LaneCaches(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    caches.live.symlink_to(tmp_path / "elsewhere")  # rmtree refuses links
    with pytest.raises(SetupFailure, match=r"cannot make .*live cold: .*remove it by hand"):
        caches.prepare(Cache.COLD, None)


def test_a_cache_that_cannot_be_copied_is_a_setup_failure(tmp_path: Path) -> None:
    caches = LaneCaches(tmp_path)
    caches.prepare(Cache.COLD, None)
    os.mkfifo(caches.live / "pipe")
    caches.keep("001")
    with pytest.raises(SetupFailure, match=r"cannot make .*live warm: .*named pipe"):
        caches.prepare(Cache.WARM, "001")


def test_removing_leaves_nothing(caches: LaneCaches) -> None:
    caches.prepare(Cache.WARM, "001")
    caches.remove()
    assert not caches.live.parent.exists()


# --- listing --------------------------------------------------------------------------------------------


def test_a_listing_names_files_only_with_their_sizes_in_order(tmp_path: Path) -> None:
    for name, size in (("b/2", 2), ("a", 1), ("b/c/3", 3)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert list(sizes(tmp_path).items()) == [("a", 1), ("b/2", 2), ("b/c/3", 3)]


def test_a_listing_holds_the_time_of_the_last_change(tmp_path: Path) -> None:
    (tmp_path / "kernel.cubin").write_bytes(KERNEL)
    os.utime(tmp_path / "kernel.cubin", ns=(0, 1_700_000_000_123_456_789))
    assert listing(tmp_path) == {"kernel.cubin": (len(KERNEL), 1_700_000_000_123_456_789)}


def test_a_missing_folder_has_no_files(tmp_path: Path) -> None:
    assert listing(tmp_path / "missing") == {}


def test_a_listing_survives_folders_that_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "stays").write_bytes(KERNEL)
    done = threading.Event()

    def compile_() -> None:
        for number in range(1_000_000):
            if done.is_set():
                return
            place = tmp_path / f"tmp.{number % 5}"
            (place / "inner").mkdir(parents=True)
            (place / "inner" / "file").write_bytes(b"x")
            (place / "inner" / "file").unlink()
            (place / "inner").rmdir()
            place.rmdir()

    compiler = threading.Thread(target=compile_)
    compiler.start()
    try:
        for _ in range(500):
            assert sizes(tmp_path)["stays"] == len(KERNEL)
    finally:
        done.set()
        compiler.join()
