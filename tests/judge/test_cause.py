"""A server that ended by itself: its log's own words, and whose doing that was. Lines are those of real failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.words import ExitCode, Word

from .bundles import Judged, Session

STARVED = (
    "ValueError: To serve at least one request with the model's max seq len (131072), (0.98 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (0.01 GiB). Based on the available memory, the estimated "
    "maximum model length is 1792. Try increasing `gpu_memory_utilization`"
)
NO_EXTENSION = "ModuleNotFoundError: No module named 'exllamav3_ext'"
UNALIGNED = "ValueError: EXL3 TP output slice must be 128-aligned"
BOUND_TWICE = "RuntimeError: CUDA stream key 7 is already bound to another logical PCIe oneshot channel"
UNKNOWN_FLAG = "vllm serve: error: unrecognized arguments: --jit-monitor-verbose"
POINTS_BACK = "RuntimeError: Engine core initialization failed. See root cause above."


def candidate_dies(root: Path, *errors: str, stage: str = "health") -> Judged:
    return Session(root).candidate(stage=stage, errors_at_start=(*errors, POINTS_BACK)).judge()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (STARVED, "(KV starvation, line 2, EngineCore): ValueError: To serve at least one request"),
        (UNALIGNED, f"(line 2, EngineCore): {UNALIGNED}"),
        (BOUND_TWICE, f"(line 2, EngineCore): {BOUND_TWICE}"),
        (UNKNOWN_FLAG, f"(refused by the engine, line 2, EngineCore): {UNKNOWN_FLAG}"),
    ],
    ids=["kv-starvation", "unaligned", "bound-twice", "unknown-flag"],
)
def test_a_start_that_fails_is_told_by_the_first_line_that_says_why(tmp_path: Path, line: str, told: str) -> None:
    judged = candidate_dies(tmp_path, line)
    row = judged.row("served to the end")
    assert (row.word, judged.verdict.exit_code) == (Word.FAIL, ExitCode.FAIL)
    assert f"; its log says {told}" in row.reason
    assert [s for s in row.sources if s.endswith("server.log:2")]


def test_a_cache_that_is_too_small_is_told_with_its_figures(tmp_path: Path) -> None:
    reason = candidate_dies(tmp_path, STARVED).row("served to the end").reason
    for figure in ("0.98 GiB KV cache is needed", "available KV cache memory (0.01 GiB)", "model length is 1792"):
        assert figure in reason


def test_a_module_that_is_not_there_is_the_images_fault_and_not_the_codes(tmp_path: Path) -> None:
    judged = candidate_dies(tmp_path, NO_EXTENSION)
    row = judged.row("served to the end")
    assert (row.word, judged.verdict.exit_code) == (Word.SETUP_FAILURE, ExitCode.SETUP_FAILURE)
    assert f"its log says (missing module, line 2, EngineCore): {NO_EXTENSION}" in row.reason


def test_one_cause_of_both_arms_is_told_once_and_stands_in_the_sources_of_both(tmp_path: Path) -> None:
    judged = Session(tmp_path).both(stage="health", errors_at_start=(STARVED,)).judge()
    row = judged.row("served to the end")
    assert row.word is Word.SETUP_FAILURE
    assert (row.reason.count("KV starvation"), row.reason.count("failed at health")) == (1, 2)
    assert sum(s.endswith("server.log:2") for s in row.sources) == 2


def test_an_import_that_fails_while_serving_is_the_candidates(tmp_path: Path) -> None:
    session = Session(tmp_path).candidate(stage="after ready", errors=(NO_EXTENSION,), ends_after=2)
    assert session.judge().row("served to the end").word is Word.FAIL


def test_what_a_server_says_once_it_is_asked_to_stop_is_no_cause(tmp_path: Path) -> None:
    session = Session(tmp_path).candidate(stage="first-prompt", ends_after=2)
    bundle = session.candidate(errors_after_stop=("EngineDeadError: EngineCore died",)).build()
    [launch] = [x for x in bundle.plan().launches if x.arm == "candidate"]
    file = bundle.launch(launch.id).record_file
    file.write_bytes(file.read_bytes().replace(b'"asked": false', b'"asked": true'))
    row = Judged.of(bundle).row("served to the end")
    assert row.word is Word.FAIL
    assert "its log says" not in row.reason
