"""Both arms' results side by side: what is new, fixed, pre-existing, vanished, or could not be compared."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.checks.finding import Finding, Node, Result, State
from harness.words import Arm

COLLECTION = "cannot be collected"
PASSED = "passed"


@dataclass(frozen=True)
class Comparison:
    """Candidate against control. Every entry names a test or a finding, and why."""

    new: tuple[str, ...] = ()
    """Failures of the candidate that the control does not have."""
    fixed: tuple[str, ...] = ()
    """Failures of the control that the candidate does not have."""
    pre_existing: tuple[str, ...] = ()
    """Failures of both."""
    vanished: tuple[str, ...] = ()
    """Tests that the control runs and the candidate does not."""
    environment: tuple[str, ...] = ()
    """What could not be compared, each with the module or tool that is missing."""
    passed: int = 0
    """Tests that pass in both arms."""


def compare(control: Result, candidate: Result, *, brought: Sequence[str] = (), gone: Sequence[str] = ()) -> Comparison:
    """Compare two runs of one check.

    A fault that only the candidate's run has, and that no missing tool explains, is the candidate's
    doing, as with servers: it dies while the control serves.

    Args:
        control: what the control's run showed.
        candidate: what the candidate's run showed, of the same command.
        brought: test files that the control's tree lacks. A test of theirs that fails in both arms is no
            old failure: the candidate brings a test that it does not pass.
        gone: test files that only the control's tree has.
    """
    sides = {Arm.CONTROL: control, Arm.CANDIDATE: candidate}
    faults = [f"{arm}: {side.fault.reason}" for arm, side in sides.items() if side.fault]
    vanished = tuple(f"{file}: a test file of the control's lock only" for file in gone)
    if faults:
        alone = candidate.fault and not candidate.fault.environment and not control.fault
        if alone:
            assert candidate.fault is not None
            return Comparison(new=(candidate.fault.reason,), vanished=vanished)
        return Comparison(environment=tuple(faults), vanished=vanished)
    found = _findings(control, candidate)
    tests = _tests(control, candidate, brought)
    cut = [f"{arm}: {side.cut_short}" for arm, side in sides.items() if side.cut_short]
    if cut and not (candidate.cut_short and not control.cut_short and found.new):
        # What was not looked at is neither new nor fixed.
        return Comparison(pre_existing=found.pre_existing, environment=tuple(cut), vanished=vanished)
    return Comparison(
        new=found.new + tests.new,
        fixed=tests.fixed if cut else found.fixed + tests.fixed,
        pre_existing=found.pre_existing + tests.pre_existing,
        vanished=tests.vanished + vanished,
        environment=tests.environment,
        passed=tests.passed,
    )


def _findings(control: Result, candidate: Result) -> Comparison:
    """Equal findings are told apart by their number: four before and five after is one new, wherever it stands."""
    before, after = (Counter(f.identity for f in side.findings) for side in (control, candidate))
    shared = before & after
    new, pre_existing = _beyond(candidate.findings, shared)
    fixed, _ = _beyond(control.findings, shared)
    return Comparison(new=new, fixed=fixed, pre_existing=pre_existing)


def _beyond(findings: Sequence[Finding], shared: Counter[tuple[str, str, str]]) -> tuple[tuple[str, ...], ...]:
    """Findings beyond those that both arms have, and those."""
    seen: Counter[tuple[str, str, str]] = Counter()
    beyond: list[str] = []
    within: list[str] = []
    for finding in findings:
        seen[finding.identity] += 1
        (beyond if seen[finding.identity] > shared[finding.identity] else within).append(str(finding))
    return tuple(beyond), tuple(within)


def _tests(control: Result, candidate: Result, brought: Sequence[str]) -> Comparison:
    """Tests by their node ids; a module that cannot be collected is told once, for all of its tests."""
    unusable = {f for side in (control, candidate) for f, u in side.uncollected.items() if u.missing}
    entries: dict[str, list[str]] = defaultdict(list)
    for part, entry in _modules(control, candidate, brought, unusable):
        entries[part].append(entry)
    passed = 0
    for node in dict.fromkeys((*candidate.tests, *control.tests)):
        file = _file(node)
        if file in unusable or file in candidate.uncollected:
            continue
        before, after = control.tests.get(node), candidate.tests.get(node)
        if before is None and file in control.uncollected:
            before = Node(State.FAILED, f"{COLLECTION}: {control.uncollected[file].message}")
        kind = _kind(before, after, brought=file in brought)
        if kind == PASSED:
            passed += 1
        elif kind:
            entries[kind].append(_entry(node, kind, before, after))
    return Comparison(**{kind: tuple(found) for kind, found in entries.items()}, passed=passed)


def _modules(
    control: Result, candidate: Result, brought: Sequence[str], unusable: set[str]
) -> Iterator[tuple[str, str]]:
    """Modules that an arm cannot collect, with the part of the comparison to which they belong."""
    for file in sorted(unusable):
        yield "environment", f"{file} {COLLECTION}: {_missing(control, candidate, file)}"
    for file, fault in candidate.uncollected.items():
        if file not in unusable:
            both = file in control.uncollected and file not in brought
            yield "pre_existing" if both else "new", f"{file} {COLLECTION}: {fault.message}"
    collected = {_file(node) for node in candidate.tests}
    for file, fault in control.uncollected.items():
        if file not in unusable and file not in candidate.uncollected and file not in collected:
            yield "vanished", f"{file}: {COLLECTION} in the control ({fault.message}), has no test in the candidate"


def _kind(before: Node | None, after: Node | None, *, brought: bool) -> str | None:
    """To which part of the comparison a test belongs; None where it shows nothing."""
    was = before.state if before else None
    if after is None:
        return "vanished" if was is not None and was is not State.SKIPPED else None
    match after.state:
        case State.PASSED:
            return "fixed" if was is State.FAILED else PASSED if was is State.PASSED else None
        case State.SKIPPED:
            return "vanished" if was in (State.PASSED, State.FAILED) else None
        case State.FAILED:
            if after.missing and was is not State.PASSED:
                return "environment"
            return "pre_existing" if was is State.FAILED and not brought else "new"


def _entry(node: str, kind: str, before: Node | None, after: Node | None) -> str:
    match kind:
        case "vanished":
            was = before.state if before else "absent"
            return f"{node}: {was} in the control, {'skipped' if after else 'absent'} in the candidate"
        case "fixed":
            return f"{node}: {before.message}" if before else node
        case "environment":
            return f"{node}: needs {after.missing if after else None}, which is not in the image"
        case _:
            return f"{node}: {after.message}" if after else node


def _missing(control: Result, candidate: Result, file: str) -> str:
    sides = ((Arm.CONTROL, control), (Arm.CANDIDATE, candidate))
    missing = {arm: side.uncollected[file].missing for arm, side in sides if file in side.uncollected}
    found = {arm: name for arm, name in missing.items() if name}
    where = "" if len(found) == len(sides) else f" of the {next(iter(found))}"
    return f"{' and '.join(dict.fromkeys(found.values()))} is not in the image{where}"


def _file(node: str) -> str:
    return node.partition("::")[0]
