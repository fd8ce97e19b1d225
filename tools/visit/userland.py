"""The least of this machine that an image needs to run a shell and Python: programs, their libraries, a few files.

On a machine without network nothing can be pulled, so a base image is made from what is there. The rest of
/usr, and with it CUDA, is mounted read-only where a server runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

PROGRAMS = ("sh", "sleep", "readlink", "head", "cat", "ls", "env", "grep", "id", "ldconfig")
"""What the harness itself calls in a container, and what a person needs to look around."""
FILES = (
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/alternatives", "/etc/localtime"),
)
"""Without them users have no names, and the mounted compilers and libraries are not found."""
MERGED = ("bin", "lib", "lib64")
"""Folders of / that are links into /usr. Not /sbin: the engine puts its docker-init there, and the mount of /usr would
hide it (see `base.empty_folders`)."""
SYSTEM_PYTHON = Path("/usr/bin/python3")
LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


def members() -> list[str]:
    """Paths to pack, without the leading slash, each once, folders of /usr before what lies in them."""
    interpreter, stdlib = python()
    programs = [Path(place) for name in PROGRAMS if (place := shutil.which(name))]
    extensions = sorted((stdlib / "lib-dynload").glob("*.so"))
    linked = list(libraries([interpreter, *programs, *extensions]))
    names = [p for p in sorted(interpreter.parent.glob("python3*")) if "config" not in p.name]
    found: dict[str, None] = {}
    for path in (*_merged_links(), interpreter, *names, *programs, *linked, *map(Path, FILES)):
        for part in _chain(path):
            found[part] = None
    for path in (inner for folder in map(Path, FILES) if folder.is_dir() for inner in sorted(folder.rglob("*"))):
        found[_inside(path)] = None
    for path in sorted(stdlib.rglob("*")):
        if path.is_file() and not {"test", "__pycache__", "site-packages", "dist-packages"} & set(path.parts):
            found[_inside(path)] = None
    return list(found)


def python() -> tuple[Path, Path]:
    """The system's Python, without links, and its standard library; else the one that runs this."""
    if not SYSTEM_PYTHON.exists():
        return Path(os.path.realpath(sys.executable)), Path(sysconfig.get_path("stdlib"))
    ask = [str(SYSTEM_PYTHON), "-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"]
    done = subprocess.run(ask, capture_output=True, text=True, check=True)
    return Path(os.path.realpath(SYSTEM_PYTHON)), Path(done.stdout.strip())


def libraries(programs: Iterable[Path]) -> Iterator[Path]:
    """Shared libraries of programs, as the loader finds them here."""
    ldd = shutil.which("ldd") or "ldd"
    done = subprocess.run([ldd, *map(str, programs)], capture_output=True, text=True, check=False)
    yield from dict.fromkeys(Path(match[1]) for match in map(LIBRARY.search, done.stdout.splitlines()) if match)


def _merged_links() -> list[Path]:
    return [Path("/") / name for name in MERGED if (Path("/") / name).is_symlink()]


def _chain(path: Path) -> Iterator[str]:
    """A path and, where it is a link, all that it leads to: the archive keeps links as links."""
    seen: set[str] = set()
    while (inside := _inside(path)) not in seen and os.path.lexists(path):
        seen.add(inside)
        yield inside
        if not path.is_symlink() or path.parent == Path("/"):
            return
        path = Path("/") / inside
        path = Path(os.path.normpath(path.parent / path.readlink()))


def _inside(path: Path) -> str:
    """The place of a path in the archive: its folder with links resolved, its own name as it is."""
    return str(Path(os.path.realpath(path.parent)) / path.name).lstrip("/")
