"""What a container came to is taken over into a check's record by name."""

from __future__ import annotations

import dataclasses
from typing import get_type_hints

from harness.checks.container import Ran
from harness.checks.record import CheckRun


def test_whatever_a_run_tells_has_its_place_in_the_record() -> None:
    """`env` alone is another thing there: values of credentials are removed."""
    ran, record = get_type_hints(Ran), get_type_hints(CheckRun)
    told = {field.name: ran[field.name] for field in dataclasses.fields(Ran) if field.name != "env"}
    assert told == {name: record.get(name) for name in told}
    assert "env" in CheckRun.model_fields
