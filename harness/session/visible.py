"""Which GPUs of this host are ours to use: what the environment says, as users of CUDA and Slurm know it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import SetupFailure

GPUS = "QUALIFY_GPUS"
"""UUIDs of the GPUs that sessions may use, separated by commas: the others of the host are somebody else's."""
CUDA = "CUDA_VISIBLE_DEVICES"
"""The same for every program that uses CUDA, and what Slurm sets for a job: numbers, UUIDs, or beginnings of UUIDs."""
ORDER = "CUDA_DEVICE_ORDER"
NONE = ("", "-1", "NoDevFiles")
"""What leaves no GPU at all; the last is Slurm's."""


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU as its driver names it."""

    name: str
    memory_mib: int
    uuid: str


def named(environ: Mapping[str, str]) -> tuple[str, ...]:
    """UUIDs that QUALIFY_GPUS names, as they stand there; empty where it leaves all."""
    return tuple(filter(None, environ.get(GPUS, "").split(",")))


def visible(found: Sequence[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Those of `found`, which are in the driver's order, that QUALIFY_GPUS names, or else CUDA_VISIBLE_DEVICES.

    All of them where neither is set. The order stays the driver's: ours do not depend on how they were named.

    Raises:
        SetupFailure: one is named that this host has not, or by a number that may mean another GPU to CUDA.
    """
    if uuids := named(environ):
        chosen = {_by_uuid(text, found, GPUS) for text in uuids}
    elif CUDA in environ:
        text = environ[CUDA].strip()
        chosen = set() if text in NONE else {_by_cuda(part.strip(), found, environ) for part in text.split(",")}
    else:
        return tuple(found)
    return tuple(gpu for gpu in found if gpu in chosen)


def restriction(environ: Mapping[str, str]) -> str:
    """The variable that may leave out GPUs, with its value; '' where none is set."""
    name = GPUS if named(environ) else CUDA
    return f"{name}={environ[name]}" if name in environ else ""


def _by_cuda(text: str, found: Sequence[Gpu], environ: Mapping[str, str]) -> Gpu:
    if not text.isdecimal():
        return _by_uuid(text, found, CUDA)
    if len({gpu.name for gpu in found}) > 1 and environ.get(ORDER) != "PCI_BUS_ID":
        raise SetupFailure(
            f"{CUDA}={environ[CUDA]} counts the fastest GPU first, and this host's are not alike: "
            f"name UUIDs (`nvidia-smi -L`), or set {ORDER}=PCI_BUS_ID"
        )
    if int(text) >= len(found):
        raise SetupFailure(f"{CUDA} names GPU {text}, and this host has {len(found)}; see `nvidia-smi -L`")
    return found[int(text)]


def _by_uuid(text: str, found: Sequence[Gpu], variable: str) -> Gpu:
    if text.startswith("MIG-"):
        raise SetupFailure(f"{variable} names {text}: parts of a GPU (MIG) cannot be watched; give a whole GPU")
    matching = [gpu for gpu in found if gpu.uuid == text or (variable == CUDA and gpu.uuid.startswith(text))]
    if len(matching) != 1:
        what = "several of this host's" if matching else "which this host has not"
        raise SetupFailure(f"{variable} names {text}, {what}; see `nvidia-smi -L`")
    return matching[0]
