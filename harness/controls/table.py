"""The controls. Each is caught by the row that a reviewer would look at, and by what that row says."""

from __future__ import annotations

from harness.config.model import Profile
from harness.controls.control import Arms, Control, Expected, Flags
from harness.words import Word

KERNEL = "_planted_late_kernel"
ARMED = {"QUALIFY_FAKE_JIT_MONITOR": "1"}
SLOW_PAIRS = ("plan.pairs=2", 'plan.caches=["warm"]')
"""One pair tests no speed (DESIGN 6). Two show a difference of half: their interval is wide, and not that wide."""
BRIEF = ("course.identity_prompts=1", "course.identity_output_tokens=16")


def less_kv(profile: Profile) -> Flags:
    """Fewer KV blocks, by whichever flag the profile sizes its KV cache with."""
    blocks = profile.serve.flags.get("num-gpu-blocks-override")
    if isinstance(blocks, int):
        return {"num-gpu-blocks-override": blocks * 3 // 4}
    share = profile.serve.flags.get("gpu-memory-utilization")
    known = share if isinstance(share, float) else 0.9  # vLLM's own default is this or more
    return {"gpu-memory-utilization": round(known - 0.04, 4)}


def smaller_batches(profile: Profile) -> Flags:
    """Half of the profile's batch of prefill tokens, or of the 2,048 that vLLM has at least."""
    tokens = profile.serve.flags.get("max-num-batched-tokens")
    return {"max-num-batched-tokens": (tokens if isinstance(tokens, int) else 2048) // 2}


CONTROLS: tuple[Control, ...] = (
    Control(
        "same",
        "",
        (
            Expected("served to the end", Word.PASS),
            Expected("requests served in full", Word.PASS),
            Expected("counts agree", Word.PASS),
            Expected("KV tokens", Word.PASS),
            Expected("identity, candidate vs control", Word.PASS),
        ),
        fake=Arms(both=ARMED, gpu=True),
        forged=Arms(),
        served=Arms(),
    ),
    Control(
        "lower-acceptance",
        "drafts that are accepted less often, from an engine that is as fast",
        (
            Expected("accepted / drafted, identity prompts", Word.WARN, ("the drafts are worse", "drafter drift")),
            Expected("known answers", Word.PASS),
        ),
        fake=Arms(stack="cpu-lower-acceptance"),
        forged=Arms(stack="cpu-lower-acceptance"),
    ),
    Control(
        "changed-successor",
        "one token is followed by another one",
        (Expected("identity, candidate vs control", Word.FAIL, ("diverged", "outputs differ; first: prompt")),),
        fake=Arms(stack="cpu-changed-successor"),
        forged=Arms(stack="cpu-changed-successor"),
    ),
    Control(
        "less-kv",
        "a smaller KV cache",
        (Expected("KV tokens", Word.FAIL, ("beyond the margin",)),),
        fake=Arms(stack="cpu-less-kv"),
        forged=Arms(stack="cpu-less-kv"),
        served=Arms(flags=less_kv),
    ),
    Control(
        "smaller-batches",
        "a prefill in smaller batches, by a flag that nobody declared",
        (Expected("resolved by the engine", Word.NOTE, ("max_num_batched_tokens",)),),
        fake=Arms(flags={"max-num-batched-tokens": 1024}),
        served=Arms(flags=smaller_batches),
    ),
    Control(
        "deeper",
        "a model of many more layers: at least twice as slow, and with less room for KV",
        (
            Expected("decode steps", Word.FAIL, ("regressed",)),
            Expected("KV tokens", Word.FAIL, ("beyond the margin",)),
        ),
        fake=Arms(
            flags={"num-gpu-blocks-override": 2048},
            environment={"QUALIFY_FAKE_STEP_S": "0.02"},
            settings=(*SLOW_PAIRS, *BRIEF, "serve.env.QUALIFY_FAKE_STEP_S='0.008'"),
        ),
        forged=Arms(stack="cpu-deeper", settings=(*SLOW_PAIRS, *BRIEF)),
    ),
    Control(
        "dies-at-first-request",
        "healthy, then dead at its first request",
        (Expected("served to the end", Word.FAIL, ("failed at first request: ",)),),
        fake=Arms(faults="die-at-first-request"),
        forged=Arms(stack="cpu-dies-at-first-request"),
    ),
    Control(
        "late-kernel",
        "a kernel that is compiled at the first long prompt",
        (Expected("late JIT (engine's monitor)", Word.FAIL, (f"new against control: {KERNEL}",)),),
        fake=Arms(faults=f"late-jit={KERNEL}", both=ARMED),
    ),
    Control(
        "wrong-specialisation",
        "a warm-up that compiles a kernel for other constants than serving needs",
        (Expected("specialisation mismatch", Word.FAIL, (KERNEL, "warm-up SIZE=1; serving SIZE=4")),),
        fake=Arms(
            faults=f"trace-mismatch={KERNEL}/SIZE:1:4",
            both={"QUALIFY_FAKE_FAULTS": f"trace-late={KERNEL}"},
            settings=("plan.trace=true",),
        ),
    ),
    Control(
        "memory-taken",
        "a first long prompt that takes GPU memory and does not give it back",
        (Expected("lowest free", Word.FAIL, ("below 256 MiB", "first-prompt 2048")),),
        fake=Arms(faults="gpu-leaves=600,gpu-keeps=400", gpu=True),
    ),
    Control(
        "memory-not-back",
        "a server whose GPU memory stays taken after its end",
        (Expected("GPU memory back after exit", Word.WARN, ("memory was not back", "MiB more in use")),),
        fake=Arms(faults="gpu-lingers=600", settings=("timeouts.gpu_release_s=0.3",), gpu=True),
    ),
)
