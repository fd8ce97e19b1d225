"""What the first prompt of a length took of the memory, and what it did not give back.

The one place that decides whose memory the ledger shows: with GPU samples in the bundle it is the device's.
"""

from __future__ import annotations

from harness.judge.read import LaunchEvidence
from harness.judge.rows.gpu_memory import per_gpu
from harness.judge.rows.memory import series
from harness.observe.jit.ledger import FirstPromptMemory
from harness.observe.memory import NOTHING
from harness.words import Step

HOST = "resident memory of the server's processes on the host"
DEVICE = "memory of the GPU that it took the most of"


def first_prompt_memory(launch: LaunchEvidence, context_tokens: int) -> FirstPromptMemory:
    """Before the prompt, its peak, and the last sample before anything else is asked; of the GPUs where there are."""
    if not launch.gpu.gpus:
        return _host_memory(launch, context_tokens)
    taken, kept = (
        per_gpu(launch, lambda f, name=name: getattr(f.prompts.get(context_tokens, NOTHING), name))  # type: ignore[misc]
        for name in ("taken", "kept")
    )
    return FirstPromptMemory(
        context_tokens=context_tokens,
        of=DEVICE,
        taken_mib=max(taken) if taken else None,
        kept_mib=max(kept) if kept else None,
    )


def _host_memory(launch: LaunchEvidence, context_tokens: int) -> FirstPromptMemory:
    windows = launch.windows_of(Step.FIRST_PROMPT, context_tokens)
    taken = kept = None
    if windows:
        window, found = windows[0].window, series(launch)
        following = [m.mono_ns for m in launch.marks if m.mark == "step begins" and m.mono_ns > window.end_ns]
        before = found.last_before(window.begin_ns)
        peak = found.peak(window.begin_ns, window.end_ns)
        after = found.last_before(following[0] if following else launch.mark_ns("stop asked"))
        taken = None if before is None or peak is None else peak - before
        kept = None if before is None or after is None else after - before
    return FirstPromptMemory(context_tokens=context_tokens, of=HOST, taken_mib=taken, kept_mib=kept)
