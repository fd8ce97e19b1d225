"""Bundles that several tests only read."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.judge.case import Case, read_case
from harness.judge.verdict import judge
from harness.records import Verdict
from tests.report.bundles import make_bundle, plan
from tests.report.writing import Faults

CANDIDATE = plan().launches[1].id

HOSTILE = (
    "\x1b[31mred\x1b[0m </pre><script>alert(1)</script> @someone see #12 and org/repo#3\n"
    "```\n````text\n</details> \u202egnp.exe\n"
    "loading /home/somebody/secret/model.bin and http://127.0.0.1:8000/v1/models with hf_0123456789abcdefghij\n"
    '  File "/home/somebody/venv/lib/python3.12/site-packages/vllm/engine.py", line 3\n'
    " 10%\r 50%\r100% done"
)
"""What a server under test may write into its log."""


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Case, Verdict]:
    """A session without a fault."""
    bundle = make_bundle(tmp_path_factory.mktemp("sound") / "bundle")
    return read_case(bundle), judge(bundle)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Case, Verdict]:
    """The candidate died in start-up, and its log and reason are an attack on the report."""
    faults = Faults(failed=CANDIDATE, reason=HOSTILE, log_tail=HOSTILE, dirty=True)
    bundle = make_bundle(tmp_path_factory.mktemp("hostile") / "bundle", faults)
    return read_case(bundle), judge(bundle)


@pytest.fixture
def faulty(tmp_path: Path) -> tuple[Case, Verdict]:
    """The control's second prefill pass is void, and the candidate decodes at half the speed."""
    control, candidate = (x.id for x in plan().launches)
    bundle = make_bundle(tmp_path / "bundle", Faults(miscounted_prefill=(control,), slow_decode=(candidate,)))
    return read_case(bundle), judge(bundle)
