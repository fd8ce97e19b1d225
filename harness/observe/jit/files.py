"""Cache folders before and after: which files are new, and which kernel they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeAlias

Entry: TypeAlias = tuple[int, int | None]
"""Bytes, and the time of the last change in ns since 1970; older bundles have no times."""
Listing: TypeAlias = Mapping[str, Entry]
"""Files by their path below the root of the caches."""

KERNEL_SUFFIXES = (".source", ".ttir", ".ttgir", ".llir", ".ptx", ".cubin", ".amdgcn", ".hsaco", ".json")
"""Triton writes a file per stage of its compiler, and a group file that names them."""
TRITON_FOLDERS = ("triton", "triton_cache")
"""Where Triton keeps its files: by itself; and within vLLM's compile cache, where that has no standalone_compile."""
NOT_CODE = (".lock", ".log")
"""Files that libraries touch with every start, whether they compile or not; FlashInfer's, for one."""
MODEL_INFOS = "vllm/modelinfos/"
"""What vLLM keeps of a model's class: text."""


@dataclass(frozen=True)
class Change:
    """One file that is new, or that was written again."""

    path: str
    bytes: int
    changed_ns: int | None
    new: bool

    @property
    def cache(self) -> str:
        """The cache that it belongs to: the first folder."""
        return self.path.partition("/")[0]

    @property
    def kernel(self) -> str | None:
        """The kernel that the file is of, where the cache names its files after kernels."""
        path = PurePosixPath(self.path)
        is_kernel = in_triton(self.path) and path.suffix in KERNEL_SUFFIXES
        return path.stem.removeprefix("__grp__") if is_kernel else None

    @property
    def may_be_compiled(self) -> bool:
        """False for what holds no compiled code for certain: nothing, a lock, a log, facts about a model."""
        return bool(self.bytes) and not self.path.endswith(NOT_CODE) and not self.path.startswith(MODEL_INFOS)


def in_triton(path: str) -> bool:
    """True for a file of Triton's cache."""
    first, *inner = path.split("/")[:-1] or [path]
    return first == TRITON_FOLDERS[0] or TRITON_FOLDERS[1] in inner


def changes(before: Listing, after: Listing) -> Iterator[Change]:
    """Files of `after` that are not as they were in `before`, in the order of their paths."""
    for path, (size, changed_ns) in sorted(after.items()):
        earlier = before.get(path)
        if earlier is None:
            yield Change(path, size, changed_ns, new=True)
        elif earlier[0] != size or (None not in (earlier[1], changed_ns) and earlier[1] != changed_ns):
            yield Change(path, size, changed_ns, new=False)
