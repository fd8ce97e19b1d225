"""What differs between the base image's tree and the composed one, file by file, and what may not."""

from __future__ import annotations

import hashlib
import posixpath
from pathlib import PurePosixPath

from harness.config.components import Component
from harness.errors import ConfigError
from harness.stack.git import Git
from harness.stack.record import LockedFile

SYMLINK = "120000"
SUBMODULE = "160000"
ABSENT = "000000"

COMPILED_SUFFIXES = frozenset(
    {
        *(".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hip", ".inl"),
        ".pyx",
        ".pxd",
        ".rs",
        ".cmake",
    }
)
COMPILED_NAMES = frozenset({"CMakeLists.txt", "setup.py"})
COMPILED_FOLDERS = frozenset({"csrc", "cmake"})
NEVER_BUILT = frozenset({"tests", "test", "benchmarks", "docs", "examples"})
"""Folders at the top whose sources go into no extension, whatever their language."""


def changed_files(git: Git, component: Component, before: str, after: str) -> tuple[LockedFile, ...]:
    """Every file that differs between two trees, in the order of their paths.

    Raises:
        ConfigError: a name that is unsafe to write anywhere, a submodule, or a link that leads outside.
    """
    fields = git.run("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", before, after).out.split(b"\0")
    files = []
    for meta, raw_path in zip(fields[0::2], fields[1::2], strict=False):
        mode_before, mode_after, blob_before, blob_after, _ = meta.decode("ascii").removeprefix(":").split()
        path = _safe(raw_path, component)
        if SUBMODULE in (mode_before, mode_after):
            raise ConfigError(
                f"component {component.name}: {path} is a submodule, and a lock pins only its own repository's files; "
                "leave that head out, or make the submodule a component of its own"
            )
        if mode_after == SYMLINK:
            _refuse_a_way_out(path, link_target(git, blob_after), component)
        files.append(
            LockedFile(
                path=path,
                mode_before=None if mode_before == ABSENT else mode_before,
                mode_after=None if mode_after == ABSENT else mode_after,
                sha256_before=None if mode_before == ABSENT else blob_sha256(git, blob_before),
                sha256_after=None if mode_after == ABSENT else blob_sha256(git, blob_after),
                copies=copies(component, path),
            )
        )
    return tuple(sorted(files, key=lambda file: file.path))


def changed_paths(git: Git, before: str, after: str) -> set[str]:
    """Names alone of the files that differ between two trees."""
    names = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after).out.split(b"\0")
    return {name.decode("utf-8", "backslashreplace") for name in names if name}


def copies(component: Component, path: str) -> tuple[str, ...]:
    """Where the image holds a file of the repository: one path per copy, none if it is not installed."""
    for package in component.packages:
        if path.startswith(f"{package}/"):
            # What is installed is the package's folder, whatever the repository has above it (src/...).
            inside = path[len(package) - len(PurePosixPath(package).name) :]
            return tuple(posixpath.join(folder, inside) for folder in component.install)
    return ()


def compiled_sources(files: tuple[LockedFile, ...]) -> list[str]:
    """Files that only a build would bring into the image."""
    return [file.path for file in files if is_compiled(file.path)]


def blob_sha256(git: Git, blob: str) -> str:
    """SHA-256 of a file's content, however large it is."""
    with git.stream("cat-file", "blob", blob) as content:
        digest = hashlib.sha256()
        while chunk := content.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def link_target(git: Git, blob: str) -> str:
    """Where a symbolic link of the tree points to."""
    return git.run("cat-file", "blob", blob).out.decode("utf-8", "backslashreplace")


def is_built_from(name: str) -> bool:
    """True where a build may read a file, and so where the image's source folder must have it."""
    return PurePosixPath(name).parts[0] not in NEVER_BUILT


def is_compiled(name: str) -> bool:
    """True where only a build brings a file into the image."""
    path = PurePosixPath(name)
    return is_built_from(name) and (
        path.suffix.lower() in COMPILED_SUFFIXES
        or path.name in COMPILED_NAMES
        or not COMPILED_FOLDERS.isdisjoint(path.parts[:-1])
    )


def _safe(raw: bytes, component: Component) -> str:
    """A path that can be written below a folder without leaving it, on any machine."""
    try:
        path = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"component {component.name}: a file name is not UTF-8: {raw!r}") from None
    parts = path.split("/")
    if not path.isprintable() or "\\" in path or any(p in ("", ".", "..") or p.lower() == ".git" for p in parts):
        raise ConfigError(f"component {component.name}: refusing the file name {path!r}")
    return path


def _refuse_a_way_out(path: str, target: str, component: Component) -> None:
    landing = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if target.startswith("/") or landing.split("/")[0] == "..":
        raise ConfigError(f"component {component.name}: {path} is a symbolic link out of the repository, to {target!r}")
