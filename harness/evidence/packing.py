"""Pack an export: one archive, or a folder. The same files give the same bytes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import BundleError, SetupFailure

if TYPE_CHECKING:
    from zstandard import ZstdCompressor

FORMATS = ("tar.zst", "zip", "dir")
LEVEL = 10
"""Of zstd: 19 halves the archive's speed thrice for a fifth of its size."""
WINDOW_LOG = 23
"""Of what is looked back at: 8 MiB, which whoever unpacks needs too."""
_DATE = (1980, 1, 1, 0, 0, 0)


def compress(source: Path, target: Path) -> None:
    """One file with Zstandard; memory does not grow with its size."""
    with source.open("rb") as stream, target.open("wb") as packed:
        _compressor().copy_stream(stream, packed, size=source.stat().st_size)


def pack(folder: Path, output: Path, form: str, top: str) -> None:
    """Put a folder's files into an archive, below one folder.

    Args:
        folder: What to pack.
        output: What to write; nothing may be there.
        form: One of FORMATS.
        top: Name of the folder inside the archive.

    Raises:
        BundleError: the output is there already.
        SetupFailure: it cannot be written; nothing is left of it.
    """
    if output.exists() or output.is_symlink():
        raise BundleError(f"{output} is there already; remove it, or name another one with -o")
    temporary = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        _PACKERS[form](folder, temporary, top)
        temporary.rename(output)
    except OSError as e:
        raise SetupFailure(f"{output} cannot be written: {e.strerror or e}; -o names a place") from e
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(temporary) if temporary.is_dir() else temporary.unlink()


def sums_text(folder: Path) -> str:
    """SHA-256 of every file, in the format of sha256sum(1)."""
    lines = []
    for path in _files(folder):
        with path.open("rb") as stream:
            lines.append(
                f"{hashlib.file_digest(stream, 'sha256').hexdigest()}  {path.relative_to(folder).as_posix()}\n"
            )
    return "".join(lines)


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.relative_to(folder).as_posix())


def _tar(folder: Path, output: Path, top: str) -> None:
    with (
        output.open("xb") as stream,
        _compressor().stream_writer(stream, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in _files(folder):
            member = tarfile.TarInfo(f"{top}/{path.relative_to(folder).as_posix()}")
            member.size, member.mode = path.stat().st_size, 0o644
            with path.open("rb") as content:
                archive.addfile(member, content)
    _to_disk(output)


def _zip(folder: Path, output: Path, top: str) -> None:
    with zipfile.ZipFile(output, "x", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(folder):
            member = zipfile.ZipInfo(f"{top}/{path.relative_to(folder).as_posix()}", _DATE)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o100644 << 16
            with path.open("rb") as content, archive.open(member, "w") as packed:
                shutil.copyfileobj(content, packed)
    _to_disk(output)


def _folder(folder: Path, output: Path, top: str) -> None:
    del top  # the folder itself has the user's name
    shutil.copytree(folder, output)


def _to_disk(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _compressor() -> ZstdCompressor:
    import zstandard  # noqa: PLC0415  # only what packs needs it

    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, window_log=WINDOW_LOG, write_checksum=True, threads=0
    )
    return zstandard.ZstdCompressor(compression_params=parameters)


_PACKERS: dict[str, Callable[[Path, Path, str], None]] = {"tar.zst": _tar, "zip": _zip, "dir": _folder}
