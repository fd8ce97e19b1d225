"""`python -m harness.fakes serve MODEL_DIR [vLLM's flags]`: a fake vLLM server for a forged model."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from harness.errors import ConfigError
from harness.fakes.faults import VARIABLE, describe_kinds
from harness.fakes.lifecycle import serve
from harness.fakes.settings import VARIABLES, VERSION, read_settings

USAGE = """\
usage: python -m harness.fakes serve MODEL_DIR [--served-model-name NAME] [--host HOST] [--port N]
                               [--max-model-len N] [--speculative-config JSON] [any flag of vLLM]

Answers as vLLM {version} on a CPU would, from the truth.json of a forged model. Unknown flags are
accepted and echoed in the log. The environment sets pace and faults:

{variables}

Faults are separated by commas; N counts from 1, K from 0, [@n] limits a fault to the n-th event
(completions in order of arrival, the readiness completion included; scrapes for metrics-500):

{faults}

example: {variable}='short-output@3,late-jit=_topk_kernel,counter-reset=5'
"""


def main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    if argv[:1] == ["--version"]:
        sys.stdout.write(f"{VERSION}\n")
        return 0
    # vLLM spells its full help --help=all.
    if not argv or any(a in {"-h", "--help"} or a.startswith("--help=") for a in argv):
        sys.stdout.write(usage())
        return 0
    try:
        if argv[0] != "serve":
            raise ConfigError(f"fakes: the only command is `serve`, got {argv[0]!r}")
        return serve(read_settings(argv[1:], os.environ))
    except ConfigError as e:
        sys.stderr.write(f"error: {e}\n")
        return int(e.exit_code)


def usage() -> str:
    """The text of `--help`."""
    width = max(map(len, VARIABLES))
    variables = "\n".join(f"  {name:<{width}}  {meaning}" for name, meaning in VARIABLES.items())
    return USAGE.format(version=VERSION, variables=variables, faults=describe_kinds(), variable=VARIABLE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
