"""Record every kernel that is compiled or first loaded in this process, from its first moment on.

Nothing is imported early: a finder in front of `sys.meta_path` waits for the libraries, and hooks a
module when it has just been executed. Nothing is raised into the server: each hook calls the library's
own function exactly once and returns or raises what that did.
"""

from __future__ import annotations

import os
import sys

from . import cute_dsl, cute_implicit, cute_object, tilelang, triton_autotuner, triton_compiler, triton_jit
from .finder import Finder
from .recorder import Recorder

__all__ = ["HOOKS", "install"]

HOOKS = {
    "triton.compiler.compiler": triton_compiler.hook,
    "triton.runtime.jit": triton_jit.hook,
    "triton.runtime.autotuner": triton_autotuner.hook,
    "cutlass.base_dsl.compiler": cute_dsl.hook_compiler,
    "cutlass.base_dsl.dsl": cute_implicit.hook,
    "cutlass.base_dsl.export.external_binary_module": cute_object.hook,
    "cutlass.cute": cute_dsl.hook,  # after the classes, which it then leaves alone
    "tilelang.jit.kernel": tilelang.hook,
}
"""By the module that is hooked when its code has just been run."""

_installed: list[Recorder] = []


def install(folder: str) -> None:
    """Trace this process and its forks into files of `folder`; a second call does nothing."""
    if _installed:
        return
    recorder = Recorder(folder)
    _installed.append(recorder)
    finder = Finder(recorder, HOOKS)
    recorder.begin_process(forked=False)
    finder.announce()
    sys.meta_path.insert(0, finder)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=recorder.after_fork)
