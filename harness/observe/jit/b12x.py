"""What a line of B12X's or sparkinfer's compiler says a kernel is compiled for.

`attrs` are the simple attributes of the kernel's object as Python writes them, cut at 1,200 characters; `spec` is the
key of the library's own cache: JSON with facts that are named, numbered (`["field", "arg0", 1536]`) or nested.
Formats: `_log_cute_compile_event` and `KernelCompileSpec` of b12x/_lib/compiler.py.
"""

from __future__ import annotations

import re

from harness.observe.jit.mismatch import Specialisation

_ATTRIBUTE = re.compile(r"'(\w{1,100})': ('[^']*'|\([^()]*\)|[^,'()]+)")
_FACT = re.compile(r'\["(?:field",")?(\w{1,100})",(-?[\d.]{1,30}|true|false|null|"[^"\\]{0,100}")\]')
CUT = "..."
DEVICE = "cuda"
"""Where a tensor lies: another on each rank, and no constant of the code."""


def constants(attrs: str, spec: str) -> Specialisation:
    """By name: the attributes, or the simple facts of the key where the object has none."""
    held = [(name, value.strip()) for name, value in _ATTRIBUTE.findall(attrs) if not value.endswith(CUT)]
    return tuple(held or ((name, value.strip('"')) for name, value in _FACT.findall(spec) if name != DEVICE))
