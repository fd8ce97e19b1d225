"""Zip archives. Python's zipfile reads the members; the directory that it reads at once is bounded before."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from typing import BinaryIO

from harness.errors import RefusedBundle
from harness.evidence.names import printable
from harness.evidence.unpack import Budget, Limits, Target

END = struct.Struct("<4sHHHHIIH")
"""The record that ends a zip archive."""
LOCATOR_BYTES = 20
LOCAL_HEADER_BYTES = 30
DIRECTORY_BYTES = 4 << 20
"""Of the directory: some 30,000 members."""
ENCRYPTED = 1


def unpack_zip(stream: BinaryIO, target: Target, budget: Budget, limits: Limits) -> None:
    """Unpack a zip archive.

    Raises:
        RefusedBundle: it is damaged, or holds something else than files and folders.
    """
    _check_directory(stream, limits)
    name = "the archive"
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            _check_overlap(members, archive.start_dir)
            for member in members:
                name = member.orig_filename
                _check(member)
                budget.take(member.file_size, name)
                if member.is_dir():
                    target.folder(name.rstrip("/"))
                else:
                    with archive.open(member) as content:
                        target.file(name, member.file_size, content)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError) as e:
        raise RefusedBundle(f"{printable(name)}: the archive is damaged at it ({e}); fetch it again") from None


def _check_directory(stream: BinaryIO, limits: Limits) -> None:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - END.size - LOCATOR_BYTES))
    tail = stream.read()
    if len(tail) < END.size or not tail[-END.size :].startswith(b"PK\x05\x06") or tail.startswith(b"PK\x06\x07"):
        raise RefusedBundle("the zip archive does not end as a plain one does (comment, zip64 or damage); use .tar.zst")
    _, _, _, _, members, directory, _, _ = END.unpack(tail[-END.size :])
    if members > limits.members or directory > DIRECTORY_BYTES:
        raise RefusedBundle(f"the zip archive names {members:,} members in {directory:,} bytes; no bundle has as many")


def _check_overlap(members: list[zipfile.ZipInfo], directory: int) -> None:
    """Members that share bytes unpack to more than any ratio of one of them says."""
    end, before = 0, ""
    for member in sorted(members, key=lambda m: m.header_offset):
        if member.header_offset < end:
            raise RefusedBundle(
                f"{printable(member.orig_filename)}: shares bytes with {printable(before)} in the archive"
            )
        end = member.header_offset + LOCAL_HEADER_BYTES + len(member.orig_filename) + member.compress_size
        before = member.orig_filename
    if end > directory:
        raise RefusedBundle(f"{printable(before)}: shares bytes with the archive's directory")


def _check(member: zipfile.ZipInfo) -> None:
    name, mode = printable(member.orig_filename), member.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
        raise RefusedBundle(f"{name}: is {kind}; a bundle holds files only, so pack it again")
    if member.flag_bits & ENCRYPTED:
        raise RefusedBundle(f"{name}: is encrypted; unpack it yourself, and give the folder")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise RefusedBundle(f"{name}: is compressed by method {member.compress_type}, neither stored nor deflated")
