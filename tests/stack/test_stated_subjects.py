"""A statement is about what both arms are: image, base, every head and every tree of a real lock."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.evidence.bundle import write_record
from harness.evidence.predicates import MEASUREMENTS_FILE, TEST_RESULT_FILE, statements
from harness.records import ArmImage, Verdict
from harness.words import Arm, Word
from tests.judge.bundles import Session
from tests.stack.bench import DIGEST, REFERENCE, Bench, lock

IMAGE = "a" * 64


def test_image_base_heads_and_trees_are_subjects_by_their_digests(bench: Bench, tmp_path: Path) -> None:
    head = bench.pull(7, {"vllm/n.py": "n\n"})
    outcome = lock(bench.stack(bench.head(7, head)))
    bundle = Session(tmp_path).build()
    shutil.copytree(outcome.folder, bundle.stack_lock_dir(Arm.CANDIDATE))
    image = ArmImage(
        name=f"sha256:{IMAGE}",
        image_id=f"sha256:{IMAGE}",
        base_reference=REFERENCE,
        lock_sha256=outcome.lock.sha256,
    )
    patched = bundle.lock(Arm.CANDIDATE).model_copy(update={"image": image})
    write_record(bundle.lock_file(Arm.CANDIDATE), patched)
    verdict = Verdict(session="a-session", verdict=Word.PASS, exit_code=0, evidence_root_sha256="0" * 64, rows=())
    write_record(bundle.verdict_file, verdict)

    made = statements(bundle, b"")
    subjects = {x["name"]: x["digest"] for x in made[MEASUREMENTS_FILE]["subject"]}
    assert made[TEST_RESULT_FILE]["subject"] == made[MEASUREMENTS_FILE]["subject"]
    [component] = outcome.lock.components
    locks = {f"{arm} lock" for arm in Arm}
    assert {name: digest for name, digest in subjects.items() if name not in locks} == {
        "candidate image": {"sha256": IMAGE},
        "candidate base image": {"sha256": DIGEST.removeprefix("sha256:")},
        "candidate vllm base": {"gitCommit": component.base_commit},
        "candidate vllm #7": {"gitCommit": head},
        "candidate vllm tree": {"gitTree": component.tree},
    }
    assert len(made[MEASUREMENTS_FILE]["subject"]) == len(subjects), "names are unique"
