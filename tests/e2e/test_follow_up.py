"""Where two arms part, the later launch is asked for that token alone, end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.judge.case import read_case
from harness.words import ExitCode, Step, Word

from .sessions import Finished, fake_profile, run, stack

PROMPTS = "identity, candidate vs control"


def session(folder: Path, *arguments: str, control: str = "", candidate: str = "") -> Finished:
    """Identity alone: its completions are 2 to 7 of each launch, three prompts in two passes."""
    stacks = [stack(folder, n, QUALIFY_FAKE_FAULTS=f) for n, f in (("one", control), ("other", candidate))]
    arms = ("--control", str(stacks[0]), "--candidate", str(stacks[1]), "-k", "identity")
    return run(folder / "results", "--profile", str(fake_profile(folder)), *arms, *arguments)


@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_the_later_launch_is_asked_for_the_token_where_the_arms_part(tmp_path: Path, arm: str) -> None:
    faults = "diverge-at=7@3,diverge-at=7@6"  # prompt 1 in both passes
    done = session(tmp_path, **{arm: faults})
    case = read_case(done.bundle)
    first, second = (case.launches[x.id] for x in case.plan.launches)
    assert not first.windows_in(Step.FOLLOW_UP)
    [window] = second.windows_in(Step.FOLLOW_UP)
    [request] = window.requests
    assert (request.index, request.prefix_tokens, request.prompt_tokens, request.asked_tokens) == (1, 7, 64 + 7, 1)
    assert request.complete
    output = second.outputs[request.request]
    assert output.top_logprobs is not None
    assert second.record is not None

    row = done.row(PROMPTS)
    assert row.word is Word.FAIL
    later = second.record.launch.arm
    assert "prompt 1, token 7: " in row.reason
    assert f"; asked again for that token, the {later} gives '{output.text}' -0." in row.reason
    # Only one arm was asked again, and that is no difference of what they were asked.
    assert done.row("counts agree").word is Word.PASS
    assert done.row("requests served in full").word is Word.PASS
    assert done.code == ExitCode.FAIL


def test_equal_outputs_are_not_asked_again(tmp_path: Path) -> None:
    done = session(tmp_path)
    assert done.code == ExitCode.PASS, done.out
    assert not any(x.windows_in(Step.FOLLOW_UP) for x in read_case(done.bundle).launches.values())


def test_four_prompts_at_most_are_asked_again(tmp_path: Path) -> None:
    done = session(tmp_path, "--set", "course.identity_prompts=6", candidate="diverge-at=2")
    [window] = [w for x in read_case(done.bundle).launches.values() for w in x.windows_in(Step.FOLLOW_UP)]
    assert [r.index for r in window.requests] == [0, 1, 2, 3]
