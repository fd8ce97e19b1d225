"""What the harness says about real vLLM, held against a model whose every answer is known.

Eager and cold where compilation is not the subject: a start takes half as long. And 32K prompts in one session only.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.config.kinds import KINDS
from harness.config.load import load_profile
from harness.forge.arithmetic import Rule
from harness.forge.recipe import Recipe
from harness.forge.truth import load_rule_file
from harness.judge.case import read_case
from harness.judge.rows.kv import from_log, from_metrics
from harness.observe.log import Kind
from harness.records import LaunchRecord
from harness.words import Arm, ExitCode, LaunchStatus, Step, Word

from .engine import EAGER, NEEDS_ENGINE
from .sessions import Finished, run, sets

pytestmark = [pytest.mark.vllm, NEEDS_ENGINE]

ONE_CELL = ("--caches", "cold", "--warmups", "engine", "--modes", "mtp1")


def session(
    folder: Path, *arguments: str, contexts: tuple[int, ...] = (2048,), compiled: bool = False, kinds: bool = False
) -> Finished:
    """A small session of the embedded profile; with `kinds` of request, each launch takes half a minute longer."""
    passes = (f"{{prompt_tokens={tokens}, prefill_passes=1, decode_passes=1}}" for tokens in contexts)
    settings = [f"course.contexts=[{', '.join(passes)}]", "course.identity_prompts=4"]
    settings += [] if compiled else EAGER
    settings += [] if kinds else ["course.kinds=[]"]
    return run(folder / "results", "--profile", "cpu-forged", *sets(*settings), *ONE_CELL, *arguments, timeout_s=2000)


def truth(done: Finished, arm: Arm) -> Rule:
    return load_rule_file(done.bundle.truth_file(arm))


def record(done: Finished, arm: Arm) -> LaunchRecord:
    [found] = [x.record for x in read_case(done.bundle).launches.values() if x.record and x.record.launch.arm is arm]
    return found


@pytest.fixture(scope="module")
def over_warmups(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Six launches, run once for all tests of a class."""
    folder = tmp_path_factory.mktemp("warmups")
    return session(folder, "--warmups", "none,engine,primed", contexts=(2048, 32_768))


@pytest.fixture(scope="module")
def cold_and_warm(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Four compiled launches, run once for all tests of a class."""
    folder = tmp_path_factory.mktemp("caches")
    return session(folder, "--modes", "mtp0", "--caches", "cold,warm", compiled=True, kinds=True)


@pytest.mark.xdist_group("warmups")
class TestEqualArmsOverEveryWarmup:
    def test_the_session_passes(self, over_warmups: Finished) -> None:
        assert over_warmups.code == ExitCode.PASS, over_warmups.out
        assert over_warmups.verdict.verdict is Word.PASS

    def test_outputs_are_identical_in_every_cell_and_between_warmup_states(self, over_warmups: Finished) -> None:
        rows = over_warmups.rows("identity, candidate vs control")
        assert [(r.warmup, r.word) for r in rows] == [("none", "pass"), ("engine", "pass"), ("primed", "pass")]
        assert all(r.reason.startswith("identical: 4 of 4 outputs") for r in rows)
        assert {r.context_tokens for r in over_warmups.rows("identity, measured outputs", word=Word.PASS)} == {
            2048,
            32_768,
        }
        assert over_warmups.row("identity, between warm-up and cache states").word is Word.PASS

    def test_drafts_and_accepted_drafts_are_the_models_arithmetic(self, over_warmups: Finished) -> None:
        rows = over_warmups.rows("known answers")
        assert {r.word for r in rows} == {Word.PASS}
        assert all(r.control == r.candidate != "0 of 0 windows exact" for r in rows)

    def test_warmup_none_really_switches_the_engines_warmups_off(self, over_warmups: Finished) -> None:
        for launch in read_case(over_warmups.bundle).launches.values():
            assert launch.record is not None
            off = '"enable_jit_warmup":false' in " ".join(launch.record.effective_argv or ())
            assert off == (launch.record.launch.warmup == "none")

    def test_the_ladder_ran_in_primed_launches_only(self, over_warmups: Finished) -> None:
        for launch in read_case(over_warmups.bundle).launches.values():
            assert launch.record is not None
            rungs = {w.window.pass_number for w in launch.windows if w.window.step is Step.LADDER}
            assert rungs == (set(range(7)) if launch.record.launch.warmup == "primed" else set())

    def test_kv_tokens_from_log_and_metrics_are_parsed_apart_and_agree(self, over_warmups: Finished) -> None:
        for launch in read_case(over_warmups.bundle).launches.values():
            assert from_log(launch) == from_metrics(launch)
            assert (from_log(launch) or 0) > 100_000

    def test_speed_rows_are_measured_and_not_tested_at_one_pair(self, over_warmups: Finished) -> None:
        for name in ("start-up", "tokens per step"):
            for row in over_warmups.rows(name):
                assert row.word is Word.NOT_TESTED
                assert row.control is not None

    def test_a_rate_is_measured_or_its_absence_is_explained(self, over_warmups: Finished) -> None:
        """Two sessions share two cores here: where the client was not running, no rate is made up."""
        stalled = {r.warmup for r in over_warmups.rows("client kept up", word=Word.WARN)}
        for row in (r for name in ("prefill", "decode steps", "decode") for r in over_warmups.rows(name)):
            assert row.word is Word.NOT_TESTED
            assert (row.control is not None and row.candidate is not None) or row.warmup in stalled

    def test_nothing_is_left_of_any_server(self, over_warmups: Finished) -> None:
        for launch in read_case(over_warmups.bundle).launches.values():
            assert launch.record is not None
            assert launch.record.exit is not None
            assert launch.record.exit.asked
            assert launch.record.exit.survivors_killed == 0


@pytest.mark.xdist_group("caches")
class TestCachesWithoutMtp:
    """Compiled, cold and then warm: the log's own lines prove which it was."""

    def test_the_session_passes(self, cold_and_warm: Finished) -> None:
        assert cold_and_warm.code == ExitCode.PASS, cold_and_warm.out

    def test_every_kind_of_request_is_served(self, cold_and_warm: Finished) -> None:
        rows = [r for r in cold_and_warm.verdict.rows if r.name.startswith("request kind ")]
        assert {r.name.removeprefix("request kind ") for r in rows} == {kind.name for kind in KINDS}
        assert {r.word for r in rows} == {Word.PASS}

    def test_cold_shows_misses_and_warm_shows_hits(self, cold_and_warm: Finished) -> None:
        for launch in read_case(cold_and_warm.bundle).launches.values():
            assert launch.record is not None
            starting = [e.kind for e in launch.log if launch.before_ready(e)]
            if launch.record.launch.cache == "cold":
                assert starting.count(Kind.CACHE_MISS) > 0 == starting.count(Kind.CACHE_HIT)
            else:
                assert starting.count(Kind.CACHE_HIT) > 0 == starting.count(Kind.CACHE_MISS)
        assert {r.cache for r in cold_and_warm.rows("cache state", word=Word.PASS)} == {"cold", "warm"}

    def test_a_kernel_that_compiles_at_the_first_logprobs_request_is_seen(self, cold_and_warm: Finished) -> None:
        """Real late compilation: cold it is compiled while serving, warm it is only loaded."""
        cold, warm = cold_and_warm.rows("late compiles (caches)")
        assert (cold.word, warm.word) == (Word.PASS, Word.PASS)
        assert cold.control is not None
        assert "in identity" in cold.control
        assert warm.control is not None
        assert warm.control.startswith("0 compiled, ")
        assert not warm.control.startswith("0 compiled, 0 loaded")

    def test_a_step_without_mtp_is_a_token(self, cold_and_warm: Finished) -> None:
        assert not cold_and_warm.rows("decode steps")
        assert cold_and_warm.row("decode", cache="warm", context_tokens=2048).unit == "tok/s"
        assert not cold_and_warm.rows("accepted / drafted, decode")


@pytest.mark.xdist_group("drafts")
def test_other_drafts_change_acceptance_and_not_the_engine(tmp_path: Path) -> None:
    done = session(tmp_path, "--candidate", "cpu-lower-acceptance")
    assert done.code == ExitCode.PASS, done.out
    assert done.row("identity, candidate vs control").word is Word.PASS
    assert done.row("known answers").word is Word.PASS
    row = done.row("accepted / drafted, identity prompts")
    assert row.word is Word.WARN
    for arm, shown in ((Arm.CONTROL, row.control), (Arm.CANDIDATE, row.candidate)):
        assert shown is not None
        assert shown.startswith(_accepted_over_drafted(done, arm))
    assert "the drafts are worse, not the engine's speed" in row.reason
    decode = done.row("decode")
    assert decode.word is Word.NOT_TESTED
    # From counts, so they hold on a busy machine too, where steps/s may be unknown.
    assert "tokens/step -" in decode.reason


def _accepted_over_drafted(done: Finished, arm: Arm) -> str:
    """By arithmetic from the recorded outputs: an output's first token tells where its walk began."""
    rule, accepted, drafts = truth(done, arm), 0, 0
    [launch] = [x for x in read_case(done.bundle).launches.values() if x.record and x.record.launch.arm is arm]
    for window in launch.windows_of(Step.IDENTITY):
        for request in window.requests:
            first = launch.outputs[request.request].token_ids[0]
            before = rule.successor.index(first)
            answer = rule.expected((0, before), request.asked_tokens, draft_tokens=1)
            accepted, drafts = accepted + answer.accepted, drafts + answer.drafts
    return f"{accepted:,}/{drafts:,} = "


@pytest.mark.xdist_group("successor")
def test_one_changed_successor_diverges_where_arithmetic_puts_it(tmp_path: Path) -> None:
    done = session(tmp_path, "--candidate", "cpu-changed-successor")
    assert done.code == ExitCode.FAIL, done.out
    row = done.row("identity, candidate vs control")
    assert row.word is Word.FAIL
    index, token, control, candidate = _first_difference(done)
    assert f"first: prompt {index}, token {token}: {control} vs {candidate} (gap" in row.reason


def _first_difference(done: Finished) -> tuple[int, int, int, int]:
    control, candidate = truth(done, Arm.CONTROL), truth(done, Arm.CANDIDATE)
    forge = load_profile("cpu-forged").model.model.forge
    assert forge is not None
    special = Recipe(**forge.model_dump()).special_token
    assert [t for t in range(128) if control.successor[t] != candidate.successor[t]] == [special]
    launch = next(x for x in read_case(done.bundle).launches.values() if x.record and x.record.launch.arm == "control")
    for request in launch.windows_of(Step.IDENTITY)[0].requests:
        output = launch.outputs[request.request].token_ids
        before = (control.successor.index(output[0]), *output)
        if special in before[:-1]:
            place = before.index(special)
            return request.index, place, control.successor[special], candidate.successor[special]
    raise AssertionError("no output passes the changed token")


@pytest.mark.parametrize(
    ("stack", "stage", "told"),
    [
        pytest.param("cpu-kv-starved", "health", "KV cache", marks=pytest.mark.xdist_group("start")),
        pytest.param("cpu-dies-at-first-request", "first request", "head_dim", marks=pytest.mark.xdist_group("first")),
    ],
)
def test_a_candidate_that_dies_fails_and_the_controls_evidence_is_kept(
    tmp_path: Path, stack: str, stage: str, told: str
) -> None:
    done = session(tmp_path, "--candidate", stack)
    assert done.code == ExitCode.FAIL, done.out
    assert done.row("served to the end").word is Word.FAIL
    control, candidate = record(done, Arm.CONTROL), record(done, Arm.CANDIDATE)
    assert control.status is LaunchStatus.COMPLETED
    assert done.row("requests served in full").control not in (None, "0 of 0")
    assert (candidate.status, candidate.stage) == (LaunchStatus.FAILED, stage)
    log = done.bundle.launch(candidate.launch.id).log_file.read_text("utf-8", "replace")
    assert told in log
    assert candidate.log_tail
    report = (done.bundle.report_dir / "report.md").read_text("utf-8")
    assert candidate.log_tail.splitlines()[-1].strip() in report


@pytest.mark.xdist_group("dead")
def test_both_arms_dead_is_a_setup_failure(tmp_path: Path) -> None:
    done = session(tmp_path, "--control", "cpu-kv-starved", "--candidate", "cpu-kv-starved")
    assert done.code == ExitCode.SETUP_FAILURE, done.out
    assert done.verdict.verdict is Word.SETUP_FAILURE
