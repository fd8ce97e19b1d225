"""What is new, fixed, pre-existing or vanished between two arms, and what cannot be compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.checks.compare import Comparison, compare
from harness.checks.finding import Fault, Finding, Node, Result, State, Uncollected

A, B = "tests/test_a.py", "tests/test_b.py"
PASSED, SKIPPED, FAILED = Node(State.PASSED), Node(State.SKIPPED), Node(State.FAILED, "assert 0")
GONE_LIBRARY = Uncollected("ModuleNotFoundError: No module named 'numpyx'", "numpyx")
OWN_ERROR = Uncollected("ImportError: cannot import name 'new' from 'pkg.mod'")


def single(before: Node | None, after: Node | None, **more: tuple[str, ...]) -> Comparison:
    """One test in both arms."""
    control, candidate = (Result(tests={f"{A}::test": node} if node else {}) for node in (before, after))
    return compare(control, candidate, **more)


def parts(found: Comparison) -> dict[str, int]:
    """How many entries each part has; parts without any left out."""
    names = ("new", "fixed", "pre_existing", "vanished", "environment")
    counts = {name: len(getattr(found, name)) for name in names} | {"passed": found.passed}
    return {name: count for name, count in counts.items() if count}


class TestOneTest:
    @pytest.mark.parametrize(
        ("before", "after", "part"),
        [
            (PASSED, PASSED, "passed"),
            (PASSED, FAILED, "new"),
            (PASSED, SKIPPED, "vanished"),
            (PASSED, None, "vanished"),
            (FAILED, PASSED, "fixed"),
            (FAILED, FAILED, "pre_existing"),
            (FAILED, SKIPPED, "vanished"),
            (FAILED, None, "vanished"),
            (SKIPPED, FAILED, "new"),
            (None, FAILED, "new"),
            (SKIPPED, PASSED, None),
            (None, PASSED, None),
            (SKIPPED, SKIPPED, None),
            (SKIPPED, None, None),
            (None, SKIPPED, None),
        ],
    )
    def test_belongs_to_one_part(self, before: Node | None, after: Node | None, part: str | None) -> None:
        assert parts(single(before, after)) == ({part: 1} if part else {})

    def test_that_the_candidate_brings_and_does_not_pass_is_no_old_failure(self) -> None:
        assert parts(single(FAILED, FAILED, brought=(A,))) == {"new": 1}
        assert parts(single(FAILED, PASSED, brought=(A,))) == {"fixed": 1}

    def test_is_named_by_its_node_id_and_reason(self) -> None:
        assert single(PASSED, FAILED).new == (f"{A}::test: assert 0",)

    def test_without_a_module_of_the_environment_is_the_environments(self) -> None:
        missing = replace(FAILED, missing="numpyx")
        found = single(FAILED, missing)
        assert found.environment == (f"{A}::test: needs numpyx, which is not in the image",)
        assert found.new == ()
        assert parts(single(PASSED, missing)) == {"new": 1}, "the same image has it for the control"


def test_a_test_file_that_only_the_control_has_vanished() -> None:
    assert compare(Result(), Result(), gone=(A,)).vanished == (f"{A}: a test file of the control's lock only",)


class TestCollection:
    def arms(self, control: Result, candidate: Result, **more: tuple[str, ...]) -> dict[str, int]:
        return parts(compare(control, candidate, **more))

    def test_a_missing_dependency_is_never_a_failure_of_the_candidates(self) -> None:
        clean, bad = Result(tests={f"{A}::test": PASSED}), Result(uncollected={A: GONE_LIBRARY})
        found = compare(clean, bad)
        assert found.environment == (f"{A} cannot be collected: numpyx is not in the image of the candidate",)
        assert parts(found) == {"environment": 1}
        [both] = compare(bad, bad).environment
        assert both == f"{A} cannot be collected: numpyx is not in the image"

    def test_an_error_of_its_own_is(self) -> None:
        bad = Result(uncollected={A: OWN_ERROR})
        assert self.arms(Result(tests={f"{A}::test": PASSED}), bad) == {"new": 1}, "told once, and nothing vanished"
        assert self.arms(bad, bad) == {"pre_existing": 1}
        assert self.arms(bad, bad, brought=(A,)) == {"new": 1}

    def test_what_only_the_candidate_can_collect_is_fixed(self) -> None:
        found = compare(Result(uncollected={A: OWN_ERROR}), Result(tests={f"{A}::test": PASSED}))
        assert found.fixed == (f"{A}::test: cannot be collected: {OWN_ERROR.message}",)
        assert parts(found) == {"fixed": 1}

    def test_a_file_that_lost_all_its_tests_vanished(self) -> None:
        assert self.arms(Result(uncollected={A: OWN_ERROR}), Result()) == {"vanished": 1}

    def test_other_files_are_compared_all_the_same(self) -> None:
        control = Result(tests={f"{B}::test": PASSED}, uncollected={A: GONE_LIBRARY})
        candidate = Result(tests={f"{B}::test": FAILED}, uncollected={A: GONE_LIBRARY})
        assert self.arms(control, candidate) == {"new": 1, "environment": 1}


class TestFaults:
    DIED = Result(fault=Fault("it ended with exit code 139", environment=False))
    MISSING = Result(fault=Fault("pytest is not installed in the image", environment=True))

    def test_a_candidate_whose_run_dies_while_the_controls_does_not_has_failed(self) -> None:
        assert compare(Result(), self.DIED).new == ("it ended with exit code 139",)

    @pytest.mark.parametrize(
        ("control", "candidate"),
        [(DIED, Result()), (DIED, DIED), (Result(), MISSING), (MISSING, MISSING), (MISSING, DIED)],
        ids=["control died", "both died", "no tool", "no tool in both", "no tool, and died"],
    )
    def test_otherwise_there_is_nothing_to_compare(self, control: Result, candidate: Result) -> None:
        found = compare(control, candidate)
        assert set(parts(found)) == {"environment"}
        assert {e.partition(":")[0] for e in found.environment} <= {"control", "candidate"}

    def test_findings_of_a_tool_that_stopped_early_are_not_called_fixed(self) -> None:
        old, new = Finding("a.py", "x", "old"), Finding("a.py", "syntax", "new")
        stopped = Result((new,), cut_short="errors prevented further checking")
        assert parts(compare(Result((old,)), stopped)) == {"new": 1}
        assert parts(compare(stopped, Result((old,)))) == {"environment": 1}
        assert parts(compare(stopped, stopped)) == {"environment": 2, "pre_existing": 1}


FINDINGS = st.lists(
    st.builds(
        Finding,
        file=st.sampled_from(["a.py", "b.py"]),
        code=st.sampled_from(["F401", "F811"]),
        message=st.builds("Redefinition of `x` from line {}".format, st.integers(1, 99)) | st.sampled_from(["m", "n"]),
        line=st.integers(1, 99),
    ),
    max_size=12,
)


class TestFindings:
    def test_four_before_and_five_after_is_one_new(self) -> None:
        four = tuple(Finding("a.py", "arg-type", "wrong", line) for line in (1, 2, 3, 4))
        found = compare(Result(four), Result((*four, replace(four[0], line=90))))
        assert found.new == ("a.py:90: wrong [arg-type]",)
        assert parts(found) == {"new": 1, "pre_existing": 4}

    def test_the_same_in_another_file_is_another_one(self) -> None:
        found = compare(Result((Finding("a.py", "x", "m", 1),)), Result((Finding("b.py", "x", "m", 1),)))
        assert parts(found) == {"new": 1, "fixed": 1}

    @given(FINDINGS, st.integers(1, 500))
    def test_lines_that_move_make_nothing_new(self, findings: list[Finding], by: int) -> None:
        def moved(finding: Finding) -> Finding:
            words = finding.message.split(" ")
            words = [str(int(w) + by) if w.isdigit() else w for w in words]
            return replace(finding, line=(finding.line or 0) + by, message=" ".join(words))

        found = compare(Result(tuple(findings)), Result(tuple(map(moved, findings))))
        assert (found.new, found.fixed, len(found.pre_existing)) == ((), (), len(findings))

    @given(FINDINGS, st.randoms(use_true_random=False))
    def test_neither_does_their_order(self, findings: list[Finding], random: object) -> None:
        shuffled = list(findings)
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        found = compare(Result(tuple(findings)), Result(tuple(shuffled)))
        assert (found.new, found.fixed) == ((), ())

    @given(FINDINGS, FINDINGS)
    def test_none_is_lost_and_none_is_counted_twice(self, before: list[Finding], after: list[Finding]) -> None:
        found = compare(Result(tuple(before)), Result(tuple(after)))
        assert len(found.new) + len(found.pre_existing) == len(after)
        assert len(found.fixed) + len(found.pre_existing) == len(before)
        counts = [Counter(f.identity for f in side) for side in (before, after)]
        assert len(found.pre_existing) == (counts[0] & counts[1]).total()
