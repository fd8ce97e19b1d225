"""Put several files in place together: all are complete and on disk before the first one gets its name."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from harness.errors import SetupFailure
from harness.evidence.pipe import put
from harness.evidence.stream import HashingFile


def place(files: Mapping[Path, Path]) -> None:
    """Copy each source to its target; the last target is renamed last, so it vouches for the others.

    Raises:
        SetupFailure: the folder cannot be written to, or is full; what was there is there still.
    """
    staged: dict[Path, Path] = {}
    copies: dict[Path, HashingFile] = {}
    try:
        for target, source in files.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
            staged[target] = temporary
            with source.open("rb") as reader, temporary.open("wb", buffering=0) as writer:
                copies[target] = HashingFile(writer)
                shutil.copyfileobj(reader, copies[target])
                os.fsync(writer.fileno())
        for target, temporary in staged.items():
            put(target, copies[target].sha256, copies[target].size, partial(temporary.replace, target))
    except OSError as e:
        raise SetupFailure(
            f"{e.filename or 'the lock'} cannot be written: {e.strerror}; --output names a place"
        ) from None
    finally:
        for temporary in staged.values():
            with contextlib.suppress(OSError):
                temporary.unlink()
