"""Request-kind probes end to end: which kind needed which kernel, took how much, and what a death of one costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.config.kinds import KINDS
from harness.judge.case import read_case
from harness.words import Cache, ExitCode, Step, Word

from .sessions import Finished, fake_profile, run, stack

ARMED = {"QUALIFY_FAKE_JIT_MONITOR": "1"}
NAMES = [kind.name for kind in KINDS]


def place(kind: str) -> int:
    """Which completion of a launch probes the kind, when nothing else is asked after readiness."""
    return 2 + NAMES.index(kind)


def session(folder: Path, *arguments: str, control: str = "", candidate: str = "") -> Finished:
    """Both arms with armed monitors; faults per arm; the kinds alone, unless told otherwise."""
    stacks = [stack(folder, n, QUALIFY_FAKE_FAULTS=f, **ARMED) for n, f in (("one", control), ("other", candidate))]
    arms = ("--control", str(stacks[0]), "--candidate", str(stacks[1]))
    return run(
        folder / "results", "--profile", str(fake_profile(folder, kinds=True)), *arms, "-k", "request_kinds", *arguments
    )


def words(done: Finished) -> dict[str, Word]:
    return {n: done.row(f"request kind {n}").word for n in NAMES}


def test_equal_arms_are_asked_every_kind_in_the_courses_order_and_pass(tmp_path: Path) -> None:
    done = session(tmp_path)
    assert done.code == ExitCode.PASS, done.out
    assert set(words(done).values()) == {Word.PASS}
    assert {(r.control, r.candidate) for r in done.verdict.rows if r.name.startswith("request kind ")} == {
        ("none", "none")
    }
    for launch in read_case(done.bundle).launches.values():
        asked = [r for w in launch.windows_in(Step.REQUEST_KINDS) for r in w.requests]
        assert [r.kind for r in asked] == NAMES
        assert asked[-1].prompt_tokens == 32_768
        assert asked[-1].prompt_logprobs == 32_767
    assert done.row("counts agree").word is Word.PASS
    page = (done.bundle.report_dir / "report.html").read_text("utf-8")
    assert "<td>32,768 tokens, prompt logprobs 1</td>" in page


def test_a_kernel_that_only_one_kind_needs_is_named_with_that_kind(tmp_path: Path) -> None:
    done = session(tmp_path, candidate=f"late-jit=_topk_topp_kernel@{place('top-p')}")
    assert done.code == ExitCode.FAIL
    row = done.row("request kind top-p")
    assert (row.word, row.control, row.candidate) == (Word.FAIL, "none", "_topk_topp_kernel")
    assert row.reason == "late kernels that are not late in the control: _topk_topp_kernel"
    assert {word for name, word in words(done).items() if name != "top-p"} == {Word.PASS}
    page = (done.bundle.report_dir / "report.html").read_text("utf-8")
    assert "<td>_topk_topp_kernel</td>" in page


def test_a_kernel_that_is_late_in_the_control_as_well_is_not_the_candidates(tmp_path: Path) -> None:
    # Under another kind: the engine names a kernel once, at whatever request came first.
    late = "late-jit=_topk_topp_kernel@"
    done = session(tmp_path, control=f"{late}{place('seeded')}", candidate=f"{late}{place('top-p')}")
    assert done.code == ExitCode.PASS, done.out
    assert (done.row("request kind seeded").control, done.row("request kind top-p").candidate) == (
        "_topk_topp_kernel",
        "_topk_topp_kernel",
    )


def test_memory_that_a_kind_takes_and_keeps_is_told_beside_it(tmp_path: Path) -> None:
    done = session(tmp_path, candidate=f"take-memory=160@{place('logprobs')}")
    assert done.code == ExitCode.PASS, done.out
    row = done.row("host memory, request kind logprobs")
    assert row.word is Word.NOTE
    assert row.candidate is not None
    peak, kept = (int(part.replace(",", "")) for part in row.candidate.split(" / "))
    assert 155 <= peak <= 180
    assert 75 <= kept <= 100
    assert done.row("host memory, request kind greedy").word is Word.NOT_TESTED


def test_a_kind_that_only_the_candidate_refuses_fails_and_the_next_are_asked(tmp_path: Path) -> None:
    done = session(tmp_path, candidate=f"http-500={place('penalties')}")
    assert done.code == ExitCode.FAIL
    row = done.row("request kind penalties")
    assert row.word is Word.FAIL
    assert "HTTP 500" in row.reason
    assert {word for name, word in words(done).items() if name != "penalties"} == {Word.PASS}


def test_a_kind_that_neither_serves_is_a_note(tmp_path: Path) -> None:
    refused = f"http-500={place('penalties')}"
    done = session(tmp_path, control=refused, candidate=refused)
    assert done.code == ExitCode.PASS, done.out
    assert done.row("request kind penalties").word is Word.NOTE
    assert done.row("requests served in full").word is Word.PASS


FULL = "course.kinds=[{name='greedy'}, {name='full-length', prompt_tokens='limit'}]"


class TestAPromptOfFullLength:
    """A build that serves 32K may have no room for the 128K that it advertises."""

    def test_is_as_long_as_the_engine_permits_and_served_in_full(self, tmp_path: Path) -> None:
        done = session(tmp_path, "--set", FULL)
        assert (done.code, done.row("request kind full-length").word) == (ExitCode.PASS, Word.PASS), done.out
        for launch in read_case(done.bundle).launches.values():
            [_, full] = [r for w in launch.windows_in(Step.REQUEST_KINDS) for r in w.requests]
            assert (full.prompt_tokens, full.complete) == (33_280 - 1 - 16, True)
        assert done.row("counts agree").word is Word.PASS
        assert "<td>33,263 tokens</td>" in (done.bundle.report_dir / "report.html").read_text("utf-8")

    def test_that_the_candidate_dies_of_fails(self, tmp_path: Path) -> None:
        done = session(tmp_path, "--set", FULL, candidate="die-after=3")
        assert done.code == ExitCode.FAIL
        row = done.row("request kind full-length")
        assert (row.word, row.control) == (Word.FAIL, "none")
        assert done.row("request kind greedy").word is Word.PASS


class TestADeathUnderTheLastKind:
    """Prompt logprobs of a long prompt may take all memory: what was measured before is still worth having."""

    dies = f"die-after={place('prompt-logprobs')}"

    def test_of_the_candidate_alone_fails(self, tmp_path: Path) -> None:
        done = session(tmp_path, candidate=self.dies)
        assert done.code == ExitCode.FAIL
        assert done.row("request kind prompt-logprobs").word is Word.FAIL
        row = done.row("served to the end")
        assert row.word is Word.WARN
        assert "ended under a request-kind probe" in row.reason

    def test_of_the_control_costs_the_session_nothing(self, tmp_path: Path) -> None:
        done = session(tmp_path, "--caches", "cold,warm", control=self.dies)
        assert done.code == ExitCode.PASS, done.out
        for cache in ("cold", "unproven"):
            row = done.row("request kind prompt-logprobs", cache=cache)
            assert row.word is Word.NOTE
            assert row.reason.startswith("the control does not serve it; the candidate does: ")
        warm = [x for x in read_case(done.bundle).launches.values() if x.record and x.record.launch.cache is Cache.WARM]
        assert all(x.ready_ns is not None for x in warm), "the cold launch's caches were not kept"

    def test_an_earlier_death_leaves_the_later_kinds_unasked(self, tmp_path: Path) -> None:
        done = session(tmp_path, candidate=f"die-after={place('top-p')}")
        assert done.row("request kind top-p").word is Word.FAIL
        row = done.row("request kind prompt-logprobs")
        assert (row.word, row.reason) == (Word.NOT_TESTED, "only the control was asked")


@pytest.mark.parametrize("selected", ["identity"])
def test_a_session_without_the_step_says_so(tmp_path: Path, selected: str) -> None:
    done = session(tmp_path, "-k", selected)
    assert done.row("request kinds").reason == "the request-kind probes did not run"
