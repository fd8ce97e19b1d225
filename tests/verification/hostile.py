"""Archives and files that no honest tool writes."""

from __future__ import annotations

import gzip
import io
import os
import random
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import zstandard


def tar_member(
    name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    """One member, whatever it is."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = len(data) if kind == tarfile.REGTYPE else 0
    return info, data


def tar_zst(path: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """An archive of these members."""
    path.write_bytes(zstandard.compress(_tar(members)))
    return path


def tar_gz(path: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """The same with gzip."""
    path.write_bytes(gzip.compress(_tar(members)))
    return path


def _tar(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return stream.getvalue()


def zipped(path: Path, members: Iterable[tuple[zipfile.ZipInfo | str, bytes]]) -> Path:
    """A zip archive of these members."""
    import warnings

    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # the same name twice is meant
        for name, data in members:
            archive.writestr(name, data)
    return path


def packed(root: Path, path: Path) -> Path:
    """An honest archive of a bundle, by what its name ends with."""
    names = sorted(p for p in root.rglob("*") if p.is_file())
    if path.suffix == ".zip":
        return zipped(path, [(f"{root.name}/{p.relative_to(root)}", p.read_bytes()) for p in names])
    members = [tar_member(f"{root.name}/{p.relative_to(root).as_posix()}", p.read_bytes()) for p in names]
    return tar_zst(path, members) if path.suffix == ".zst" else tar_gz(path, members)


def zstd_bomb(path: Path, size: int) -> Path:
    """A tar archive of one file of zeros, in a few bytes."""
    with path.open("wb") as stream, zstandard.ZstdCompressor(level=3).stream_writer(stream) as writer:
        info = tarfile.TarInfo("plan.json")
        info.size = size
        writer.write(info.tobuf())
        for _ in range(size >> 20):
            writer.write(bytes(1 << 20))
    return path


def long_name(path: Path, size: int) -> Path:
    """A tar archive whose first header says that a name of this length follows."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, size
    path.write_bytes(zstandard.compress(info.tobuf(tarfile.GNU_FORMAT) + b"a" * min(size, 8 << 20)))
    return path


def overlapping(path: Path, copies: int) -> Path:
    """A zip archive whose directory names one member's bytes many times."""
    zipped(path, [("a", os.urandom(1000))])
    with zipfile.ZipFile(path, "a") as archive:
        [member] = archive.infolist()
        for n in range(copies):
            again = zipfile.ZipInfo(f"a{n}")
            for field in ("compress_type", "CRC", "compress_size", "file_size", "header_offset", "flag_bits"):
                setattr(again, field, getattr(member, field))
            archive.filelist.append(again)
        archive._didModify = True  # type: ignore[attr-defined]  # noqa: SLF001  # no honest call does this
    return path


DIED = "a process that read it was ended by SIGABRT"
"""What some damage to a footer does to pyarrow 26, and need not do to a later version."""


def damaged(content: bytes, seed: int) -> bytes:
    """One to three bytes are other ones."""
    data, chance = bytearray(content), random.Random(seed)
    for _ in range(chance.randint(1, 3)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def lethal(path: Path, types: Mapping[str, str]) -> None:
    """Damage a file of samples so that it ends the process that opens it."""
    from harness.verification.apart import reader
    from harness.verification.parquet import HostileParquetError

    honest = path.read_bytes()
    with reader() as child:
        for seed in range(5000):
            path.write_bytes(damaged(honest, seed))
            try:
                child.check(path, types, rows=1)
            except HostileParquetError as e:
                if str(e) == DIED:
                    return
    raise AssertionError("this pyarrow survives whatever was tried")
