"""[nightly]: strict as every other table, and shown with its origins."""

from __future__ import annotations

import pytest

from harness.cli import main
from harness.config.load import load_profile
from harness.errors import ConfigError
from harness.words import ExitCode


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("nightly.pairs", 3, "pairs = 3: ABBA blocks need 1 or an even number of pairs"),
        ("nightly.pairs", 0, "greater than or equal to 1"),
        ("nightly.keep", -1, "greater than or equal to 0"),
        ("nightly.smallest_change_pct", 0.0, "greater than 0"),
        ("nightly.delete", 1, "valid boolean"),
        ("nightly.keeps", 3, "unknown key; check the spelling"),
    ],
)
def test_a_wrong_value_is_told_with_its_key(key: str, value: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_profile("cpu-forged", overrides=[(key, value, "test")])


def test_nothing_is_deleted_by_default() -> None:
    nightly = load_profile("cpu-forged").model.nightly
    assert (nightly.pairs, nightly.keep, nightly.delete) == (4, 0, False)


def test_plan_shows_every_value_with_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-v", "--profile", "cpu-forged", "--set", "nightly.keep=30"]) == ExitCode.PASS
    out = capsys.readouterr().out
    assert "nightly.keep = 30  (option --set nightly.keep)" in out
    assert "nightly.smallest_change_pct = 1.0  (default)" in out
