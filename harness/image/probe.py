"""The probe: which files of a package this Python would import, and what is in them. Runs inside the container.

The harness sends this file's text to the interpreter that the server's command uses. So it knows nothing
but the standard library, back to Python 3.9, imports no package that it looks at, and writes nothing. It
reports what it finds and judges nothing: what is expected never enters the container.

It guards against mistakes. An image that was made to deceive could deceive it, too.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.dont_write_bytecode = True
    if sys.path and not sys.path[0]:
        del sys.path[0]  # the folder in which the probe happens to stand, before it can lend a module

import base64
import hashlib
import importlib.machinery
import importlib.util
import json
import marshal
import os
import resource
import signal
import zlib
from pathlib import Path
from typing import Any

Json = dict[str, Any]

MARK = "qualify-probe:"
"""Begins the one line that counts: whatever an image's start-up prints is passed over."""
LIMIT_S = 50
"""Less than a client of the engine waits."""
HASH_BASED, UNCHECKED = 1, 1
"""Flags of a .pyc: the lowest bit says that it names a hash and no time; alone, that Python looks at neither."""


def probe(request: Json) -> Json:
    """Look at packages and files.

    Args:
        request: `first` is what the server has as sys.path[0] (None: nothing), `packages` maps an import
            name to its `roots` (folders that are to hold it) and `files` (paths below such a folder).
    """
    before = sys.path[:]
    if request["first"] is not None and not _safe_path():
        sys.path.insert(0, request["first"])
    try:
        packages = {name: _package(name, **wanted) for name, wanted in request["packages"].items()}
    finally:
        path, sys.path[:] = sys.path[:], before
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "python": str(Path(sys.executable).resolve()),
        "python_version": sys.version.split()[0],
        "path": path,
        "servers": _servers(),
        "packages": packages,
        "cpu_s": round(used.ru_utime + used.ru_stime, 4),
    }


def _package(name: str, roots: list[str], files: list[str]) -> Json:
    """What would be imported under a name, every copy of it, and each file in each copy."""
    spec, error = None, None
    try:
        spec = importlib.util.find_spec(name)
    except Exception as e:  # noqa: BLE001  # a finder of the image's own may fail in any way
        error = f"{type(e).__name__}: {e}"
    # A module in one file has no such folders, and none of the files that are looked for.
    found = [str(Path(folder).absolute().parent) for folder in (spec and spec.submodule_search_locations) or ()]
    regular = spec is None or spec.origin is not None
    others = [str(Path(entry).absolute()) for entry in sys.path if _holds(Path(entry, name), regular=regular)]
    copies = dict.fromkeys([*roots, *found, *others])
    return {
        "origin": spec and spec.origin,
        "error": error,
        "imported": found,
        "on_path": list(dict.fromkeys(others)),
        "real": {root: str(Path(root, name).resolve()) for root in copies},
        "files": {f"{root}/{file}": look_at(Path(root, file)) for root in copies for file in files},
    }


def _holds(folder: Path, *, regular: bool) -> bool:
    """Whether this is a copy. Beside a regular package a folder without __init__ is none: Python passes it over."""
    if not regular:
        return folder.is_dir()
    return any((folder / f"__init__{suffix}").is_file() for suffix in importlib.machinery.all_suffixes())


def look_at(path: Path) -> Json:
    """One file: its content, where a link points, and what Python would run in its place."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        content = None
    link = os.fsencode(path.readlink()) if path.is_symlink() else None
    python = path.suffix == ".py"
    return {
        "sha256": None if content is None else hashlib.sha256(content).hexdigest(),
        "link_sha256": None if link is None else hashlib.sha256(link).hexdigest(),
        "stale": stale(path, content) if python and content is not None else None,
        "shadows": shadows(path, gone=content is None) if python and path.name != "__init__.py" else [],
    }


def stale(path: Path, source: bytes) -> str | None:
    """The .pyc that Python would run although the source says something else, or None.

    Python takes a .pyc whose recorded time and size fit its source, and an unchecked hash-based one
    without any look. A build that gives every file the same time makes the first kind by itself. Code that
    another patch release of Python compiled from the same source may differ, too: of a patched file no .pyc is
    left by the build, so one that this Python did not write has no business there.
    """
    try:
        place = importlib.util.cache_from_source(str(path))
        data = Path(place).read_bytes()
        modified = int(path.stat().st_mtime)
    except (NotImplementedError, OSError):
        return None
    if len(data) < 16 or data[:4] != importlib.util.MAGIC_NUMBER:
        return None  # Python compiles again
    flags = int.from_bytes(data[4:8], "little")
    if flags & HASH_BASED:
        fits = flags == UNCHECKED or data[8:16] == importlib.util.source_hash(source)
    else:
        recorded = int.from_bytes(data[8:12], "little"), int.from_bytes(data[12:16], "little")
        fits = recorded == (modified & 0xFFFFFFFF, len(source) & 0xFFFFFFFF)
    if not fits:
        return None
    try:
        # Not the bytes: what marshal writes depends on who else held the same objects.
        same = marshal.loads(data[16:]) == compile(source, str(path), "exec", dont_inherit=True)  # noqa: S302
    except Exception:  # noqa: BLE001  # one of them is no code at all
        return place
    return None if same else place


def shadows(path: Path, *, gone: bool) -> list[str]:
    """What Python would import instead of this source: an extension, a package; where it is gone, a .pyc beside it."""
    stem = path.with_suffix("")
    suffixes = importlib.machinery.EXTENSION_SUFFIXES + (importlib.machinery.BYTECODE_SUFFIXES if gone else [])
    found = [stem.with_name(stem.name + suffix) for suffix in suffixes]
    found += [stem / f"__init__{suffix}" for suffix in importlib.machinery.all_suffixes()]
    return [str(p) for p in found if p.is_file()]


def _safe_path() -> bool:
    """Whether this Python was told to put nothing in front of sys.path (3.11 has the flag for it)."""
    return bool(getattr(sys.flags, "safe_path", False) or sys.flags.isolated)


def _servers() -> list[str]:
    """Programs of the processes right below the container's first one, which is docker-init in a launch."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
            if parent == 1:
                found.append(str((process / "exe").readlink()))
        except (OSError, ValueError, IndexError):
            continue  # gone, or not ours to look at
    return found


def encode(request: Json) -> str:
    """A request as one argument of a command."""
    return base64.b85encode(zlib.compress(json.dumps(request).encode(), 9)).decode("ascii")


def main() -> None:
    """Answer the request in the last argument."""
    signal.alarm(LIMIT_S)
    request = json.loads(zlib.decompress(base64.b85decode(sys.argv[-1])))
    sys.stdout.write(f"\n{MARK}{json.dumps(probe(request))}\n")


if __name__ == "__main__":
    main()
