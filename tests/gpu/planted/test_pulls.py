"""The planted pull requests without a GPU: what each changes, and that another vLLM is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.config.load import load_stack
from harness.stack.lock import Request, lock_stack
from harness.stack.reading import read_lock
from tests.gpu.planted.pulls import (
    ADDED,
    AFTER_IMPORT,
    BEFORE_STEP,
    CUTE,
    CUTE_KERNELS,
    FEATURE,
    FIXED,
    PROFILE,
    RUNNER,
    TRITON_KERNELS,
    WRONG,
    Pulls,
    Unfit,
    patched,
)

RUNNER_TEXT = f"""\
{AFTER_IMPORT}
    get_kv_cache_spec,
)


class GPUModelRunner:
{PROFILE}        self.dummy()

    def execute_model(self, scheduler_output, dummy_run=False):
{BEFORE_STEP}        return None
"""
REFERENCE = f"127.0.0.1:5000/vllm-base@sha256:{'0' * 64}"
SITE = "/opt/site"


@pytest.fixture
def pulls(tmp_path: Path) -> Pulls:
    runner = tmp_path / "site" / RUNNER
    runner.parent.mkdir(parents=True)
    runner.write_text(RUNNER_TEXT, "utf-8")
    return Pulls(tmp_path, tmp_path / "site")


def shown(pulls: Pulls, number: int, path: str) -> str:
    return pulls.origin.git("show", f"{pulls.heads[number]}:{path}")


def test_the_prewarms_differ_in_the_constant_alone(pulls: Pulls) -> None:
    fixed, wrong = (shown(pulls, number, RUNNER) for number in (FIXED, WRONG))
    assert "profile_run(self) -> None:\n        long_context.gather(self.device)\n        self.dummy()" in fixed
    assert 'getattr(self.parallel_config, "long_context_ranks", 1)' in wrong
    compile(fixed, RUNNER, "exec")
    compile(wrong, RUNNER, "exec")


def test_every_pull_request_brings_the_kernel(pulls: Pulls) -> None:
    for number in pulls.heads:
        for kernel in CUTE_KERNELS if number >= CUTE + FEATURE else TRITON_KERNELS:
            assert kernel in shown(pulls, number, ADDED)


@pytest.mark.parametrize("anchor", [AFTER_IMPORT, BEFORE_STEP, PROFILE], ids=["import", "step", "profile"])
@pytest.mark.parametrize("times", [0, 2])
def test_a_model_runner_of_another_version_is_refused(anchor: str, times: int) -> None:
    text = RUNNER_TEXT.replace(anchor, "") + anchor * times
    with pytest.raises(Unfit, match=f"stands there {times} times, expected once"):
        patched(text)


@pytest.mark.parametrize(("fix", "kernels"), [("fixed", TRITON_KERNELS), ("cute-fixed", CUTE_KERNELS)])
def test_the_stacks_can_be_locked_and_the_fix_goes_onto_the_fault(
    pulls: Pulls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fix: str, kernels: tuple[str, ...]
) -> None:
    monkeypatch.setenv("QUALIFY_LOCKS", str(tmp_path / "locks"))
    files = pulls.stacks(REFERENCE, SITE)
    lock_stack(Request(stack=str(files[fix])))
    lock = read_lock(tmp_path / "locks" / f"planted-{fix}")
    assert [claim.kernels for claim in lock.claims if claim.type == "late_jit_removed"] == [kernels]
    [component] = lock.components
    assert {file.path for file in component.files} == {RUNNER, ADDED}
    assert [copy for file in component.files for copy in file.copies] == [f"{SITE}/{ADDED}", f"{SITE}/{RUNNER}"]


def test_controls_and_negative_controls_change_no_file(pulls: Pulls) -> None:
    files = pulls.stacks(REFERENCE, SITE)
    for name in ("pristine", "negative", "dcp"):
        stack = load_stack(str(files[name])).model
        assert stack.components[0].heads == ()
        assert bool(stack.forge) == (name == "negative")
        assert stack.serve.flags == ({"decode-context-parallel-size": 2} if name == "dcp" else {})
