"""Sessions whose comments are kept as golden files, and the finished qualification that the comment is modelled on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.evidence.manifest import seal
from harness.judge.case import Case, read_case
from harness.judge.verdict import judge_case
from harness.records import Verdict
from harness.report.about import About
from harness.report.markdown import comment
from tests.judge.bundles import TRACED, WARM, WARM_TOO, Session, stack
from tests.report.locks import write_locks

KERNEL = "_map_global_topk_to_gathered_ckv_kernel"
PAIRS: dict[str, object] = {"plan.caches": ["cold", "warm"], "plan.pairs": 4}
ABOUT = About(
    sessions="3 sessions of these locks here: 1 pass, 1 void, 1 aborted",
    challenge="issuecomment-2384112345",
    signature="not signed",
    evidence_url="https://evidence.example/20261129T180000Z.tar.zst",
)


def _session(root: Path, overrides: Mapping[str, object]) -> Session:
    return Session(root, overrides, control=stack("r31"), candidate=stack("prewarm", max_num_batched_tokens=2048))


def _pass(root: Path) -> Session:
    """Both modes, cold and warm, four pairs that do not scatter."""
    return _session(root, PAIRS | {"plan.modes": ["mtp0", "mtp1"]}).both(armed=True)


def _late(root: Path) -> Session:
    """The prewarm misses a kernel: it is late in the candidate."""
    needed = ((KERNEL, {"DCP_SIZE": 4}),)
    built = ((KERNEL, {"DCP_SIZE": 1}),)
    session = _session(root, WARM_TOO | TRACED).both(armed=True, warmed=built)
    return session.candidate(late_kernels=(KERNEL,), served=needed, late_compiles=1, kv_tokens=2_097_024)


def _inconclusive(root: Path) -> Session:
    """Pairs scatter about the margin."""
    session = _session(root, PAIRS).both(armed=True)
    for pair, speed in enumerate((0.94, 1.0, 0.96, 1.03)):
        session = session.candidate(where={"pair": pair, **WARM}, speed=speed)
    return session


def _void(root: Path) -> Session:
    """The server's prefix cache answered a part of a prompt that was to be computed."""
    return _session(root, WARM_TOO).both(armed=True).control(where=WARM, faults={"prefill/96/0": "prefix-hit"})


def _setup(root: Path) -> Session:
    """Neither arm starts."""
    return _session(root, WARM_TOO).both(stage="health")


GOLDEN: dict[str, Callable[[Path], Session]] = {
    "pass": _pass,
    "fail-late-jit": _late,
    "inconclusive": _inconclusive,
    "void": _void,
    "setup-failure": _setup,
}


def judged(session: Session) -> tuple[Case, Verdict]:
    """Read and judged; the root hash, which depends on the version of the library that writes parquet, made plain."""
    bundle = session.build()
    write_locks(bundle)
    case = read_case(bundle)
    verdict = judge_case(case)
    seal(bundle.root)
    return case, verdict.model_copy(update={"evidence_root_sha256": "0123456789abcdef" * 4})


def golden(name: str, root: Path) -> str:
    """The comment of one of the sessions."""
    return comment(*judged(GOLDEN[name](root)), ABOUT)
