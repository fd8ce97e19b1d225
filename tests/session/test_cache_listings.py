"""Compile caches at their moments: whole, and what is new."""

from __future__ import annotations

from pathlib import Path

from harness.session.cache_listings import CacheListings


def test_what_is_new_is_new_against_everything_listed_before(tmp_path: Path) -> None:
    listings = CacheListings(tmp_path)
    listings.take("start")
    (tmp_path / "a").write_text("1", "ascii")
    listings.take("ready")
    (tmp_path / "b").write_text("22", "ascii")
    listings.take_changes("after one")
    (tmp_path / "b").unlink()
    (tmp_path / "c").write_text("333", "ascii")
    listings.take_changes("after two")
    sizes = {moment: {path: size for path, (size, _) in found.items()} for moment, found in listings.taken.items()}
    assert sizes == {"start": {}, "ready": {"a": 1}, "after one": {"b": 2}, "after two": {"c": 3}}
