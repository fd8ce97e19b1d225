"""Commands over both arms' source, without a GPU; what is new in the candidate fails, what is old does not.

The commands are the profile's and the stacks' [[checks]]; the judge reads the same evidence.
"""

from __future__ import annotations

import pytest

from harness.checks.evidence import Checked


def test_source_check(checked: Checked) -> None:
    if checked.not_run:
        pytest.skip(checked.not_run)
    found = checked.comparison
    assert not found.new, "\n".join(found.new)
    assert not found.environment, "\n".join(found.environment)
