"""Names of kernels, which each source writes in its own way.

The monitor writes a function (`_topk_kernel`) or a method (`PrefillKernel.kernel`), b12x a path of its
package (`sparkinfer.attention.mla.PrefillKernel`), Triton's cache a file (`_topk_kernel.cubin`).
"""

from __future__ import annotations


def is_kernel(seen: str, named: str) -> bool:
    """True where `seen` is the function or class `named`, whatever stands before or after it in dots."""
    whole, part = _parts(seen), _parts(named)
    return any(whole[i : i + len(part)] == part for i in range(len(whole) - len(part) + 1))


def _parts(name: str) -> list[str]:
    return name.replace("::", ".").split(".")
