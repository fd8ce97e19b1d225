"""GPUs as device nodes, for engines that know neither the NVIDIA runtime nor CDI.

The driver's libraries are then not added by anybody: they are in the image, or the profile mounts them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import SetupFailure
from harness.observe.gpu.nvml import Unreadable, open_nvml

DEV = Path("/dev")
SHARED = ("nvidiactl", "nvidia-uvm")
"""What every CUDA program opens, whichever GPU it uses."""
OPTIONAL = ("nvidia-uvm-tools",)
MEND = "the driver makes its nodes with `nvidia-modprobe -u -c0`, or choose another image.gpu_access"


def device_nodes(gpus: Sequence[str], folder: Path = DEV) -> list[dict[str, Any]]:
    """The nodes of these GPUs, by UUID, and of the driver, as the engine's own JSON.

    A GPU's node is called after its minor number, which NVML knows: its place in any list is another number.

    Raises:
        SetupFailure: a node is missing, or NVML does not say which one it is.
    """
    if not gpus:
        return []
    names = [f"nvidia{minor}" for minor in _minors(gpus)]
    missing = [name for name in (*SHARED, *names) if not (folder / name).is_char_device()]
    if missing:
        raise SetupFailure(
            f'image.gpu_access = "device-nodes": {", ".join(str(folder / name) for name in missing)} '
            f"{'is' if len(missing) == 1 else 'are'} not there; {MEND}"
        )
    found = [name for name in (*SHARED, *OPTIONAL, *names) if (folder / name).is_char_device()]
    return [
        {"PathOnHost": str(folder / name), "PathInContainer": f"/dev/{name}", "CgroupPermissions": "rw"}
        for name in found
    ]


def _minors(gpus: Sequence[str]) -> list[int]:
    try:
        with contextlib.closing(open_nvml()) as nvml:
            return [nvml.device(uuid).minor() for uuid in gpus]
    except Unreadable as e:
        raise SetupFailure(
            f'image.gpu_access = "device-nodes": the driver does not say which node belongs to a GPU ({e})'
        ) from e
