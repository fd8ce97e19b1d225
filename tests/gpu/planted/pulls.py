"""The pull requests: what each does to the model runner of vLLM 0.25.1, and the stacks that they make.

`late` is the fault, modelled on the case that this harness was written for: a kernel that first compiles under a
long prompt, when the KV cache has taken the spare memory, and scratch space that it then keeps. `fixed` prewarms
it before the KV cache is sized. `wrong` prewarms it too, but reads its constant from an attribute that does not
exist and falls back to 1. `one-rank` is `late` on the last tensor-parallel rank alone. The first three come twice:
with a kernel in Triton, and with two in the CuTe DSL.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from tests.stack.origin import Origin

RUNNER = "vllm/v1/worker/gpu/model_runner.py"
ADDED = "vllm/v1/worker/gpu/long_context.py"
TRITON_KERNELS = ("_gather_long_context_kernel",)
CUTE_KERNELS = ("GatherLongContext", "SpreadLongContext")

IMPORT = "from vllm.v1.worker.gpu import long_context\n"
AFTER_IMPORT = "from vllm.v1.worker.gpu.attn_utils import ("
STEP = """\
        if not dummy_run and long_context.longest_prefill(scheduler_output) > long_context.LONG_CONTEXT_TOKENS:
            long_context.gather(self.device)

"""
BEFORE_STEP = "        # Get batch descriptor and sync across DP ranks.\n"
ONE_RANK = "self.parallel_config.rank == self.parallel_config.world_size - 1"
PROFILE = """\
    def profile_run(self) -> None:
"""
PREWARM = """\
        long_context.gather(self.device)
"""
WRONG_PREWARM = """\
        ranks = getattr(self.parallel_config, "long_context_ranks", 1)
        long_context.gather(self.device, ranks=ranks)
"""

FEATURE, FIXED, WRONG, ONE_RANK_ONLY = 401, 402, 403, 404
CUTE = 10
"""The same in the CuTe DSL: this much further."""
TITLES = {
    FEATURE: "Gather long contexts in blocks",
    FIXED: "Prewarm the long-context kernel before KV sizing",
    WRONG: "Prewarm the long-context kernel before KV sizing (reads the wrong attribute)",
    ONE_RANK_ONLY: "Gather long contexts in blocks, on the last rank",
    CUTE + FEATURE: "Gather long contexts in blocks (CuTe DSL)",
    CUTE + FIXED: "Prewarm the long-context kernels before KV sizing (CuTe DSL)",
    CUTE + WRONG: "Prewarm the long-context kernels before KV sizing (CuTe DSL, reads the wrong attribute)",
}

CLAIMS = """
[[claims]]
type = "late_jit_removed"
kernels = {kernels}

[[claims]]
type = "kv_tokens_min_change"
change_pct = -1.0

[[claims]]
type = "free_mib_min_change"
change_mib = 250.0
"""

NEGATIVE = """
[forge]
layers = 32
wrong_drafts = 0.5
changed_successor = true
"""
DECODE_CONTEXT_PARALLEL = """
[serve.flags]
decode-context-parallel-size = 2
"""

STACK = """\
schema_version = 1
name = "{name}"
description = "{description}"

[base]
reference = "{reference}"
release = "vLLM 0.25.1"

[[components]]
name = "vllm"
repository = "{repository}"
base_commit = "{base}"
packages = ["vllm"]
install = ["{site}"]
heads = [{heads}]
{claims}"""


class Unfit(Exception):  # noqa: N818  # reads as what happened
    """The installed model runner is not the one that the faults were written for."""


def patched(runner: str, *, step: str = STEP, prewarm: str = "") -> str:
    """The model runner with the feature and one of the prewarms.

    Raises:
        Unfit: a place to change is missing, or there twice.
    """
    for anchor in (AFTER_IMPORT, BEFORE_STEP, PROFILE):
        if runner.count(anchor) != 1:
            raise Unfit(f"{RUNNER}: `{anchor.strip()}` stands there {runner.count(anchor)} times, expected once")
    return (
        runner.replace(AFTER_IMPORT, IMPORT + AFTER_IMPORT)
        .replace(BEFORE_STEP, step + BEFORE_STEP)
        .replace(PROFILE, PROFILE + prewarm)
    )


@dataclass
class Pulls:
    """A forge with these pull requests, made from what is installed."""

    folder: Path
    installed: Path
    """Folder that holds the package vllm."""
    origin: Origin = field(init=False)
    base: str = field(init=False)
    heads: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.origin = Origin(self.folder / "vllm.git")
        runner = (self.installed / RUNNER).read_text("utf-8")
        triton, cute = (
            (Path(__file__).parent / name).read_text("utf-8") for name in ("long_context.py", "long_context_cute.py")
        )
        self.base = self.origin.branch("main", self.origin.commit({RUNNER: runner}))
        for further, added in ((0, triton), (CUTE, cute)):
            feature = further + FEATURE
            self._pull(feature, {RUNNER: patched(runner), ADDED: added}, self.base)
            self._pull(further + FIXED, {RUNNER: patched(runner, prewarm=PREWARM)}, self.heads[feature])
            self._pull(further + WRONG, {RUNNER: patched(runner, prewarm=WRONG_PREWARM)}, self.heads[feature])
        only = STEP.replace("if not dummy_run and", f"if not dummy_run and {ONE_RANK} and")
        self._pull(ONE_RANK_ONLY, {RUNNER: patched(runner, step=only), ADDED: triton}, self.base)

    def stacks(self, reference: str, site: str) -> dict[str, Path]:
        """Write the stacks over an image that holds vLLM in `site`, and return their files by name."""
        triton, cute = (CLAIMS.format(kernels=json.dumps(kernels)) for kernels in (TRITON_KERNELS, CUTE_KERNELS))
        wanted: dict[str, tuple[str, tuple[int, ...], str]] = {
            "pristine": ("vLLM as it is", (), ""),
            "late": ("a kernel that compiles under the first long prompt", (FEATURE,), ""),
            "fixed": ("the same kernel, prewarmed before KV sizing", (FEATURE, FIXED), triton),
            "wrong": ("the same kernel, prewarmed for the wrong constant", (FEATURE, WRONG), triton),
            "cute-late": ("two such kernels in the CuTe DSL", (CUTE + FEATURE,), ""),
            "cute-fixed": ("the same two, prewarmed before KV sizing", (CUTE + FEATURE, CUTE + FIXED), cute),
            "cute-wrong": ("the same two, prewarmed for the wrong constant", (CUTE + FEATURE, CUTE + WRONG), cute),
            "one-rank": ("the kernel on one rank alone", (ONE_RANK_ONLY,), ""),
            "negative": ("negative controls: more layers, worse drafts, one changed successor", (), NEGATIVE),
            "dcp": ("decode-context parallel over two ranks", (), DECODE_CONTEXT_PARALLEL),
        }
        files = {}
        for name, (description, pulls, claims) in wanted.items():
            heads = ", ".join(f'{{ pr = {pr}, head = "{self.heads[pr]}", title = "{TITLES[pr]}" }}' for pr in pulls)
            text = STACK.format(
                name=f"planted-{name}",
                description=description,
                reference=reference,
                repository=self.origin.path,
                base=self.base,
                site=site,
                heads=heads,
                claims=claims,
            )
            files[name] = self.folder / f"planted-{name}.toml"
            files[name].write_text(text, "utf-8")
        return files

    def _pull(self, number: int, changes: dict[str, str], base: str) -> None:
        self.heads[number] = self.origin.pull(number, self.origin.commit(dict(changes), base))
