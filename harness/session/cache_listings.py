"""What lies in a launch's compile caches, listed at the moments that tell cold, warm and late apart."""

from __future__ import annotations

from pathlib import Path

from harness.launch.caches import listing
from harness.observe.jit.files import Entry, Listing, changes


class CacheListings:
    """Listings by the name of their moment: whole ones, and what was new since those before."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.taken: dict[str, Listing] = {}
        """What caches.json gets."""

    def take(self, moment: str) -> None:
        """List everything."""
        self.taken[moment] = listing(self._root)

    def take_changes(self, moment: str) -> None:
        """List what is new since everything that was listed: a file may be gone again by the end."""
        known: dict[str, Entry] = {}
        for listed in self.taken.values():
            known |= listed
        now = listing(self._root)
        self.taken[moment] = {c.path: now[c.path] for c in changes(known, now)}
