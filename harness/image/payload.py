"""Everything that a builder is given beside the base image, as one archive. Pure: same lock, same bytes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from harness.errors import ConfigError
from harness.paths import PROJECT
from harness.stack.changes import SYMLINK, is_built_from, is_compiled
from harness.stack.record import LockedComponent, LockedFile, StackLock

DOCKERFILE = PROJECT / "Dockerfile"
PROGRAM = Path(__file__).parent / "program"
PACKAGES = ("harness", "harness/image")
"""Folders above the program's own: in the image they hold nothing else."""

Json = dict[str, Any]
Links = dict[tuple[str, str], str]
"""Component and path of a symbolic link, and where it points to."""


def is_built(lock: StackLock) -> bool:
    """True where an image is built from a lock; False where it changes nothing in the base, which then runs itself."""
    return any(_from_source(component) or component.installed for component in lock.components)


def write_context(lock: StackLock, folder: Path, target: io.BufferedIOBase) -> str:
    """Write the build context of a lock, whose files lie in `folder`, and return its SHA-256.

    Raises:
        ConfigError: the project's Dockerfile is gone.
    """
    with tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT) as archive:
        _add(archive, "Dockerfile", _dockerfile())
        for name, content in program_files():
            _add(archive, f"payload/program/{name}", content)
        links: Links = {}
        done: set[str] = set()
        for component in lock.components:
            links |= _add_files(archive, component, folder / component.composed_file, done)
        text = json.dumps(manifest(lock, links), indent=1, sort_keys=True) + "\n"
        _add(archive, "payload/manifest.json", text.encode("ascii"))
    target.seek(0)
    return hashlib.file_digest(target, "sha256").hexdigest()


def manifest(lock: StackLock, links: Links) -> Json:
    """What is to be done in the image; `links` says where the lock's symbolic links point to."""
    overlaid = [c for c in lock.components if not _from_source(c)]
    return {
        "schema": 1,
        "stack": lock.stack,
        "lock_sha256": lock.sha256,
        "files": [_change(c, file, file.copies, links) for c in overlaid for file in c.installed],
        "builds": [_build(lock, c, links) for c in lock.components if _from_source(c)],
    }


def program_files() -> Iterator[tuple[str, bytes]]:
    """The program that runs inside, as it is laid out there: it must find itself without being installed."""
    yield "__main__.py", (PROGRAM / "__main__.py").read_bytes()
    for package in PACKAGES:
        yield f"{package}/__init__.py", b""
    for path in sorted(PROGRAM.glob("*.py")):
        if path.name != "__main__.py":
            yield f"harness/image/program/{path.name}", path.read_bytes()


def watched(lock: StackLock, component: LockedComponent) -> tuple[str, ...]:
    """Folders from which a built image gets what its build command left.

    Where the source folder is a copy itself, a build leaves its objects there, too: only packages count.
    """
    assert component.source is not None
    source = PurePosixPath(component.source)
    folders: list[str] = []
    for install in component.install:
        place = PurePosixPath(install)
        if place.is_relative_to(source) or source.is_relative_to(place):
            folders += [str(place / PurePosixPath(package).name) for package in component.packages]
        else:
            folders.append(install)
    return tuple(dict.fromkeys((*folders, *lock.build_installs)))


def _build(lock: StackLock, component: LockedComponent, links: Links) -> Json:
    assert component.source is not None
    source = PurePosixPath(component.source)
    carried = [file for file in component.files if _is_carried(component, file)]
    return {
        "component": component.name,
        "source": component.source,
        "command": component.build_command,
        "watched": list(watched(lock, component)),
        "sources": [_change(component, file, (str(source / file.path),), links) for file in carried],
        "installed": [
            _change(component, file, file.copies, links) | {"optional": is_compiled(file.path)}
            for file in component.installed
        ],
    }


def _from_source(component: LockedComponent) -> bool:
    """True where a build command is to run: there is one, and something for it to read has changed."""
    return bool(component.build_command) and any(is_built_from(file.path) for file in component.files)


def _is_carried(component: LockedComponent, file: LockedFile) -> bool:
    """Tests are for the source checks: neither a copy nor a build has a use for them."""
    return is_built_from(file.path) if _from_source(component) else bool(file.copies)


def _change(component: LockedComponent, file: LockedFile, places: tuple[str, ...], links: Links) -> Json:
    before = {"mode": file.mode_before, "sha256": file.sha256_before}
    after = {"mode": file.mode_after, "sha256": file.sha256_after, "link": links.get((component.name, file.path), "")}
    return {
        "component": component.name,
        "path": file.path,
        "before": before if file.mode_before else None,
        "after": after if file.mode_after else None,
        "places": list(places),
    }


def _dockerfile() -> bytes:
    try:
        return DOCKERFILE.read_bytes()
    except OSError as e:
        raise ConfigError(f"{DOCKERFILE}: cannot be read ({e.strerror}); QUALIFY_PROJECT names the checkout") from None


def _add_files(archive: tarfile.TarFile, component: LockedComponent, composed_file: Path, done: set[str]) -> Links:
    """Add the contents that are needed and not `done` yet; a link has none, and is returned."""
    links: Links = {}
    with tarfile.open(composed_file) as composed:
        for file in component.files:
            if file.sha256_after is None or not _is_carried(component, file):
                continue
            member = composed.getmember(file.path)
            if file.mode_after == SYMLINK:
                links[component.name, file.path] = member.linkname
            elif file.sha256_after not in done:
                done.add(file.sha256_after)
                stream = composed.extractfile(member)
                assert stream is not None, "the lock says that it is a regular file"
                _add(archive, f"payload/files/{file.sha256_after}", stream, member.size)
    return links


def _add(archive: tarfile.TarFile, name: str, content: bytes | IO[bytes], size: int = 0) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode = 0o644
    entry.size = len(content) if isinstance(content, bytes) else size
    archive.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else content)
