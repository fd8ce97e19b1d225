"""Names of a bundle's files, when the bundle is a stranger's: none may lead out of it, nor mean two files."""

from __future__ import annotations

import unicodedata

from harness.errors import RefusedBundle

NAME_BYTES = 255
DEPTH = 16
"""Folders within folders; a launch's scrapes lie three deep."""

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that are not to be seen, or turn the reading direction."""


def name_fault(name: str) -> str | None:
    """Why a file of a bundle may not have this path, or None. Paths are relative, with slashes."""
    if any(unicodedata.category(c) in HIDDEN for c in name):
        return "holds characters that are not to be seen"
    if "\\" in name:
        return "holds a backslash, which is a folder on some systems"
    if name.startswith("/") or (name[1:2] == ":" and name[0].isalpha()):
        return "is absolute"
    parts = name.split("/")
    if ".." in parts or "." in parts or "" in parts:
        return "leads elsewhere (`..`, `.`, or nothing between slashes)"
    if len(parts) > DEPTH:
        return f"lies more than {DEPTH} folders deep"
    if any(len(p.encode()) > NAME_BYTES for p in parts):
        return f"is longer than {NAME_BYTES} bytes"
    if any(p.endswith((" ", ".")) for p in parts):
        return "ends in a space or a dot, which some systems leave out"
    return None


class Names:
    """The names of one bundle, each once: a name that some file system takes for another one is refused."""

    def __init__(self, most: int) -> None:
        self.files: set[str] = set()
        self._most = most
        self._known: dict[str, tuple[str, bool]] = {}
        """Folded path -> the path as it was first written, and whether it is a folder."""

    def add(self, name: str, *, folder: bool = False) -> None:
        """Take a name.

        Raises:
            RefusedBundle: it is unsafe, there already, there in another spelling, or one too many.
        """
        if fault := name_fault(name):
            raise RefusedBundle(f"{printable(name)}: the name {fault}; pack the bundle again without it")
        parts = name.split("/")
        for depth in range(1, len(parts)):
            self._take("/".join(parts[:depth]), folder=True)
        if not folder and name in self.files:
            raise RefusedBundle(f"{name}: is there twice; pack the bundle again")
        self._take(name, folder=folder)
        if not folder:
            self.files.add(name)

    def _take(self, path: str, *, folder: bool) -> None:
        folded = unicodedata.normalize("NFD", unicodedata.normalize("NFKD", path).casefold())
        if folded not in self._known and len(self._known) >= self._most:
            raise RefusedBundle(f"{path}: the bundle has more than {self._most:,} files and folders")
        known, is_folder = self._known.setdefault(folded, (path, folder))
        if known != path:
            raise RefusedBundle(
                f"{path}: differs from {known} only in case or Unicode form, so that some file systems hold one of "
                "the two; pack the bundle again"
            )
        if is_folder != folder:
            raise RefusedBundle(f"{path}: is both a file and a folder; pack the bundle again")


def printable(text: str) -> str:
    """A stranger's name, so that a terminal shows it and does nothing else."""
    shown = "".join(
        c if unicodedata.category(c) not in HIDDEN else c.encode("unicode_escape", "replace").decode()
        for c in text.encode("utf-8", "backslashreplace").decode()
    )
    return shown if len(shown) <= 200 else f"{shown[:199]}…"
