"""What the fake reads before it starts: faults, flags, environment."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from harness.errors import ConfigError
from harness.fakes.faults import KINDS, Fault, parse_faults
from harness.fakes.settings import read_flags, read_settings


def test_a_fault_is_read_with_its_value_and_its_event() -> None:
    faults = parse_faults(" hang@3, diverge-at=0@2 ,late-jit=a.b_kernel,late-jit=c,")
    assert faults.items == (
        Fault("hang", at=3),
        Fault("diverge-at", "0", at=2),
        Fault("late-jit", "a.b_kernel"),
        Fault("late-jit", "c"),
    )
    assert [faults.hit("hang", n) for n in (1, 2, 3, 4)] == [False, False, True, False]
    assert not parse_faults("").items


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hung", "no fault is named 'hung'"),
        ("die-after", "write die-after=N"),
        ("die-after=", "write die-after=N"),
        ("die-after=0", "N must be a whole number from 1 on"),
        ("die-after=x", "N must be a whole number from 1 on"),
        ("diverge-at=-1", "K must be a whole number from 0 on"),
        ("hang=2", "write hang"),
        ("hang@0", "from 1 on"),
        ("hang@", "from 1 on"),
        ("unstable@2", "unstable takes no @n"),
    ],
)
def test_what_is_no_fault_is_refused_with_the_way_to_mend_it(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        parse_faults(text)


def test_flags_are_read_in_all_of_vllms_spellings() -> None:
    argv = "--max_model_len=2048 --served-model-name a b --no-enable-prefix-caching --enforce-eager --x 1 2 -tp 4"
    dotted = "--speculative-config.method mtp --speculative-config.num_speculative_tokens 1 --host 127.0.0.1"
    assert read_flags([*argv.split(), *dotted.split()]) == {
        "max_model_len": 2048,
        "served_model_name": ["a", "b"],
        "enable_prefix_caching": False,
        "enforce_eager": True,
        "x": [1, 2],
        "tp": 4,
        "speculative_config": {"method": "mtp", "num_speculative_tokens": 1},
        "host": "127.0.0.1",
    }


@pytest.mark.parametrize(
    ("argv", "environ", "complaint"),
    [
        ([], {}, "name the model folder"),
        (["m", "n"], {}, "'n' is no flag"),
        (["m", "--max-model-len", "long"], {}, "--max-model-len must be a whole number"),
        (["m", "--speculative-config", "{"], {}, "--speculative-config: not JSON"),
        (["m", "--max-model-len", "9", "-sc", '{"num_speculative_tokens":3}'], {}, "drafts 1 token"),
        (["m", "--max-model-len", "9"], {"QUALIFY_FAKE_STEP_S": "fast"}, "QUALIFY_FAKE_STEP_S must be a number"),
    ],
)
def test_a_start_that_cannot_be_is_refused(argv: list[str], environ: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        read_settings(argv, environ)


@pytest.mark.parametrize("argv", [[], ["--help"], ["serve", "--help=all"]])
def test_help_lists_every_fault(argv: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "harness.fakes", *argv], capture_output=True, text=True, check=True)
    for name in KINDS:
        assert re.search(rf"^  {name}\b", done.stdout, re.MULTILINE)
