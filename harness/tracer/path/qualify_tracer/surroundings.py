"""Who this process is and how much device memory there is, asked of what is loaded already.

Nothing here imports a library or initialises CUDA: a process that does not use the GPU must not begin to.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

Memory = dict[str, Any]

_TITLE_RANK = re.compile(r"(?:Worker|VllmWorker)[-_]?(?:DP\d+_)?(?:PP\d+_)?(?:TP)?(\d+)")


def memory() -> Memory:
    """Free bytes of the current device and torch's peaks; empty where CUDA is not in use in this process."""
    try:
        torch = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return {}
        if cuda.is_current_stream_capturing():
            return {"capturing": True}  # nothing may be asked of the driver that could break the capture
        device = cuda.current_device()
        return {
            "device": device,
            "free": cuda.mem_get_info(device)[0],
            "allocated_peak": cuda.max_memory_allocated(device),
            "reserved_peak": cuda.max_memory_reserved(device),
        }
    except Exception as e:  # noqa: BLE001  # torch half imported, or a device that is gone
        return {"memory_error": type(e).__name__}


def memory_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of an event; what was not read is null, never 0."""
    return {
        "device": after.get("device"),
        "free_before_bytes": before.get("free"),
        "free_after_bytes": after.get("free"),
        "torch_allocated_peak_bytes": after.get("allocated_peak"),
        "torch_reserved_peak_bytes": after.get("reserved_peak"),
        "capturing": bool(before.get("capturing") or after.get("capturing")),
    }


def rank() -> dict[str, Any]:
    """Rank of this process and where that was read: torch's group, the environment, or the process's title."""
    try:
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return {"rank": int(distributed.get_rank()), "rank_from": "torch.distributed"}
    except Exception:  # noqa: BLE001  # half imported
        return {"rank": None, "rank_from": "unreadable"}
    for name in ("RANK", "LOCAL_RANK", "VLLM_DP_RANK"):
        value = os.environ.get(name, "")
        if value.isdigit():
            return {"rank": int(value), "rank_from": name}
    for source, text in (("process title", _title()), ("process name", _name())):
        found = _TITLE_RANK.search(text)
        if found:
            return {"rank": int(found[1]), "rank_from": source}
    return {"rank": None, "rank_from": "unknown"}


def _title() -> str:
    try:
        with open("/proc/self/cmdline", "rb") as stream:  # noqa: PTH123
            return stream.read(4096).replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def _name() -> str:
    multiprocessing = sys.modules.get("multiprocessing")
    return str(multiprocessing.current_process().name) if multiprocessing is not None else ""
