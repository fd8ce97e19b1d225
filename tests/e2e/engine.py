"""Real vLLM on the CPU, as `make setup` installs it."""

from __future__ import annotations

import shutil

import pytest

from harness.config.load import load_profile
from harness.session.compose import engine_command

ENGINE = engine_command(load_profile("cpu-forged").model)[0]
NEEDS_ENGINE = pytest.mark.skipif(shutil.which(ENGINE) is None, reason=f"{ENGINE} is not installed; run `make setup`")

EAGER = ("serve.flags.enforce-eager=true", 'serve.env.TORCHDYNAMO_DISABLE="1"')
"""Settings for a session that is not about compilation. The second: even an eager engine compiles a few functions at
their first call, each rank and each launch anew, for half a minute."""
