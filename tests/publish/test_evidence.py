"""What is published is what was measured: whole, of an identified harness, and about that pull request."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import BundleError, ConfigError
from harness.evidence.bundle import Bundle, write_atomically, write_record
from harness.evidence.manifest import MANIFEST, seal
from harness.evidence.mismatch import Mismatch
from harness.judge.verdict import judge
from harness.publish.evidence import Target, publication
from harness.publish.status import DESCRIPTION, status
from harness.records import Verdict
from harness.stack.record import LOCK_FILE, Disposition, StackLock
from harness.words import Arm, Word
from tests.publish.conftest import TARGET, moved
from tests.report.locks import OTHERS, PREWARM, stack_lock

Edit = Callable[[Bundle], object]
LOG = "launches/001-candidate-mtp1-engine-cold/server.log"


@pytest.fixture
def copy(bundle: Bundle, tmp_path: Path) -> Bundle:
    return Bundle(Path(shutil.copytree(bundle.root, tmp_path / "bundle")))


def relock(bundle: Bundle, lock: StackLock) -> None:
    """Another candidate, sealed and judged again."""
    write_atomically(bundle.stack_lock_dir(Arm.CANDIDATE) / LOCK_FILE, lock.sealed().to_bytes())
    rejudge(bundle)


def rejudge(bundle: Bundle) -> None:
    (bundle.root / MANIFEST).unlink()
    seal(bundle.root)
    write_record(bundle.verdict_file, judge(bundle))


def a_log(bundle: Bundle) -> Path:
    return next(bundle.root.glob("launches/*/server.log"))


def upgraded(bundle: Bundle) -> None:
    verdict: Verdict = bundle.verdict()
    rows = (verdict.rows[0].model_copy(update={"candidate": "9 of 9"}), *verdict.rows[1:])
    write_record(bundle.verdict_file, verdict.model_copy(update={"rows": rows}))


def shortened(bundle: Bundle) -> None:
    verdict: Verdict = bundle.verdict()
    write_record(bundle.verdict_file, verdict.model_copy(update={"rows": verdict.rows[:-1]}))


def rooted(bundle: Bundle) -> None:
    verdict: Verdict = bundle.verdict()
    write_record(bundle.verdict_file, verdict.model_copy(update={"evidence_root_sha256": "0" * 64}))


EDITS: dict[str, tuple[Edit, str]] = {
    "one byte of a log": (
        lambda b: a_log(b).write_bytes(b"X" + a_log(b).read_bytes()[1:]),
        "server.log: SHA-256: says",
    ),
    "a file more": (lambda b: (b.root / "more").write_text("x"), "more: SHA-256: says nothing"),
    "a file less": (lambda b: a_log(b).unlink(), "is missing"),
    "no manifest": (lambda b: (b.root / "SHA256SUMS").unlink(), "SHA256SUMS: file: says the bundle is sealed"),
    "a figure of the verdict": (upgraded, "verdict.json: rows.0.candidate: says 9 of 9, is 1 of 1 when derived again"),
    "a row of the verdict": (shortened, "verdict.json: rows: says "),
    "the root in the verdict": (rooted, f"verdict.json: evidence_root_sha256: says {'0' * 64}, is "),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_bundle_that_is_not_what_it_says_is_not_published(copy: Bundle, name: str) -> None:
    edit, told = EDITS[name]
    edit(copy)
    with pytest.raises(BundleError, match="is not what it says, so it is not published") as caught:
        publication(copy, TARGET)
    assert told in str(caught.value)


def test_more_than_the_manifest_can_be_checked(bundle: Bundle) -> None:
    found = [Mismatch("statement.intoto.json", "signature", "of key 1f", f"{n}") for n in range(7)]
    with pytest.raises(BundleError, match="and 2 more"):
        publication(bundle, TARGET, check=lambda *_: found)


def test_an_unidentified_harness_is_published_only_on_demand_and_marked(copy: Bundle) -> None:
    run = copy.run()
    write_record(copy.run_file, run.model_copy(update={"harness": run.harness.model_copy(update={"dirty": True})}))
    rejudge(copy)
    with pytest.raises(ConfigError, match=r"harness: dirty: files differed from that commit.*--allow-dirty"):
        publication(copy, TARGET)
    text = publication(copy, TARGET, allow_dirty=True).text
    assert "- ⚠ harness: dirty: files differed from that commit\n" in text


@pytest.mark.parametrize(
    "repository",
    [
        "https://github.com/local-inference-lab/vllm",
        "https://github.com/Local-Inference-Lab/vLLM.git",
        "git@github.com:local-inference-lab/vllm.git",
        "ssh://git@github.com/local-inference-lab/vllm/",
    ],
)
def test_the_head_comes_from_the_lock_however_the_repository_is_written(copy: Bundle, repository: str) -> None:
    lock = stack_lock("prewarm", (*OTHERS, PREWARM))
    components = tuple(c.model_copy(update={"repository": repository}) for c in lock.components[:1])
    relock(copy, lock.model_copy(update={"components": components}))
    assert publication(copy, TARGET).entry.head == PREWARM.head


def test_a_pull_request_that_was_not_built_in_is_refused_with_what_was(bundle: Bundle) -> None:
    with pytest.raises(ConfigError, match="the candidate was not built with local-inference-lab/vllm#9") as caught:
        publication(bundle, Target("local-inference-lab/vllm", 9))
    assert "its lock holds local-inference-lab/vllm#258, local-inference-lab/vllm#271" in str(caught.value)
    with pytest.raises(ConfigError, match="was not built with local-inference-lab/b12x#271"):
        publication(bundle, Target("local-inference-lab/b12x", 271))


def test_a_head_that_is_in_the_lock_and_not_in_the_image_was_not_measured(copy: Bundle) -> None:
    lock = stack_lock("prewarm", (PREWARM,))
    vllm = lock.components[0]
    [head] = vllm.heads
    left = vllm.model_copy(update={"heads": (head.model_copy(update={"disposition": Disposition.SUPERSEDED}),)})
    relock(copy, lock.model_copy(update={"components": (left,)}))
    with pytest.raises(ConfigError, match="its lock holds no pull request at all"):
        publication(copy, TARGET)


def test_a_candidate_without_a_lock_has_no_head(copy: Bundle) -> None:
    shutil.rmtree(copy.stack_lock_dir(Arm.CANDIDATE))
    rejudge(copy)
    with pytest.raises(ConfigError, match="the candidate has no lock"):
        publication(copy, TARGET)


# --- the status -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        (Word.PASS, "success"),
        (Word.FAIL, "failure"),
        (Word.SETUP_FAILURE, "error"),
        (Word.VOID, "error"),
        (Word.INCONCLUSIVE, "pending"),
    ],
)
def test_each_verdict_has_a_state(bundle: Bundle, verdict: Word, state: str) -> None:
    what = moved(publication(bundle, TARGET), verdict=str(verdict))
    assert status(what, "")["state"] == state
    assert "target_url" not in status(what, "")


def test_a_long_reason_is_cut_and_the_root_stays(bundle: Bundle) -> None:
    what = publication(bundle, TARGET)
    told = status(type(what)(what.profile, what.entry, "", "漢" * 500), "")["description"]
    assert len(told) == DESCRIPTION
    assert told.endswith(f"…; root {what.entry.root[:12]}")
