"""What an arm ran that this harness was never tried with: a report says so, or its silence reads as support.

docs/gpu.md and the README tell what was tried: up to two ranks on GPUs, with and without decode-context parallelism;
kernels in Triton and in the CuTe DSL, but none of the libraries that bring a compiler and a cache of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.judge.case import Case
from harness.judge.read import LaunchEvidence
from harness.observe.log import Kind

RANKS = {"tensor-parallel-size": "tensor parallel", "decode-context-parallel-size": "decode-context parallel"}
TRIED_RANKS = 2
LIBRARY = re.compile(r"b12x|sparkinfer", re.IGNORECASE)
NAMES = {"b12x": "B12X", "sparkinfer": "sparkinfer"}


def untried(case: Case) -> list[str]:
    """Kernel libraries that the engine named or was given, and numbers of ranks on GPUs; each once, in that order."""
    launches = case.launches.values()
    found = [text for x in launches for text in _libraries(x)]
    if case.plan.profile.host.gpus:
        found += [text for x in launches for text in _ranks(x)]
    return sorted(set(found), key=lambda text: (text not in NAMES.values(), text))


def _libraries(launch: LaunchEvidence) -> Iterator[str]:
    """By lines of their compilers, and by the command line: the name of a backend, say."""
    record = launch.record
    lines = (*launch.of_kind(Kind.KERNEL_COMPILE), *launch.of_kind(Kind.KERNEL_PROGRESS))
    for text in (*(e.text for e in lines), *(record.argv if record else ())):
        for match in LIBRARY.finditer(text):
            yield NAMES[match[0].lower()]


def _ranks(launch: LaunchEvidence) -> Iterator[str]:
    argv = " ".join(launch.record.argv if launch.record else ())
    for flag, name in RANKS.items():
        sizes = re.findall(rf"--{flag}[ =](\d+)", argv)
        if sizes and int(sizes[-1]) > TRIED_RANKS:
            yield f"{name} {int(sizes[-1])} on GPUs"
