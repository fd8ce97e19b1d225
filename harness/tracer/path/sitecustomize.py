"""Install the tracer where it was asked for, then be the sitecustomize that this one hides.

An error of ours is swallowed; an error of the hidden one is reported by Python as if we were not here.
"""

from __future__ import annotations

import os
import sys


def _install() -> None:
    folder = os.environ.get("QUALIFY_TRACE")
    if not folder:
        return
    try:
        import qualify_tracer  # type: ignore[import-not-found]  # noqa: PLC0415  # nothing but the standard library, and only when asked for

        qualify_tracer.install(folder)
    except Exception as e:  # noqa: BLE001  # the server must start whatever is wrong with the tracer
        sys.stderr.write(f"qualify tracer: not installed: {type(e).__name__}: {e}\n")


def _become_the_hidden_one() -> None:
    from importlib.machinery import PathFinder  # noqa: PLC0415
    from importlib.util import module_from_spec  # noqa: PLC0415

    here = os.path.realpath(os.path.dirname(__file__))  # noqa: PTH120  # pathlib costs every process of the server
    others = [entry for entry in sys.path if os.path.realpath(entry or os.curdir) != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_install()
_become_the_hidden_one()
