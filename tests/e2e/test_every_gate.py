"""Gates that no other session trips, each end to end; docs/gates.md says where every one of them is driven."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.evidence.bundle import Bundle
from harness.fakes.gpu_user import register
from harness.judge.verdict import judge
from harness.records import Row
from harness.words import ExitCode, Word

from .gpus import GpuBench
from .sessions import Finished, fake_profile, left_running, run, sets, stack, start, wait_for

KERNEL = "mla.PlantedKernel"
IDENTITY, MEASURED = "identity, candidate vs control", "identity, measured outputs"
STATES = "identity, between warm-up and cache states"
CLAIMS = """
[[claims]]
type = "kv_tokens_min_change"
change_pct = -0.5

[[claims]]
type = "free_mib_min"
mib = 700.0

[[claims]]
type = "free_mib_min_change"
change_mib = 100.0

[[claims]]
type = "cold_start_max_change"
change_s = 0.5
"""


def session(
    folder: Path, *arguments: str, control: str = "", candidate: str = "", claims: str = "", more: str = ""
) -> Finished:
    """A session whose arms have these faults, and `more` in their stacks."""
    stacks = []
    for arm, faults in (("control", control), ("candidate", candidate)):
        stacks += [f"--{arm}", str(stack(folder, arm, **({"QUALIFY_FAKE_FAULTS": faults} if faults else {"X": "1"})))]
    for file, text in ((stacks[1], more), (stacks[-1], more + claims)):
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(text)
    return run(folder / "results", "--profile", str(fake_profile(folder)), *stacks, *arguments)


@pytest.mark.parametrize(
    ("fault", "word", "told"),
    [
        (f"late-compile={KERNEL}", Word.FAIL, "1 more than in the control came late"),
        (f"late-load={KERNEL}", Word.WARN, "1 more first loaded late than in the control"),
        ("late-file", Word.WARN, "1 more new cache files than in the control"),
    ],
    ids=["compile", "load", "file"],
)
def test_what_comes_late_into_the_caches(tmp_path: Path, fault: str, word: Word, told: str) -> None:
    done = session(tmp_path, "-k", "first_prompt", candidate=fault)
    row = done.row("late compiles (caches)")
    assert (row.word, row.reason) == (word, told), done.out
    assert done.code == (ExitCode.FAIL if word is Word.FAIL else ExitCode.PASS)
    if fault != "late-file":
        file, _, line = next(s for s in row.sources if "server.log:" in s).rpartition(":")
        assert KERNEL in (done.bundle.root / file).read_bytes().split(b"\n")[int(line) - 1].decode()


def test_a_kernel_that_only_the_tracer_sees_late_in_the_candidate_fails(tmp_path: Path) -> None:
    path = ("--set", f"serve.env.PYTHONPATH='{Path(__file__).resolve().parents[2]}'", "--set", "plan.trace=true")
    done = session(tmp_path, *path, "-k", "first_prompt", control="trace-sees", candidate="trace-late=_planted")
    row = done.row("late JIT (tracer)")
    assert (row.word, row.reason) == (Word.FAIL, "new against control: _planted"), done.out
    assert done.code == ExitCode.FAIL


def test_metrics_and_log_that_disagree_about_kv_tokens_are_void(tmp_path: Path) -> None:
    done = session(tmp_path, "-k", "first_prompt", candidate="kv-disagrees")
    row = done.row("KV tokens")
    assert (row.word, done.code) == (Word.VOID, ExitCode.VOID), done.out
    assert "/metrics says 2,097,024 tokens, the log says 2,097,152" in row.reason


def test_starts_of_an_arm_that_size_the_kv_cache_otherwise_are_a_warning(tmp_path: Path) -> None:
    """Both arms lose 6 % to what their first start compiles: no difference of the candidate, and no pass either."""
    first = {arm: f"kv-less=1000,once={tmp_path / arm}" for arm in ("control", "candidate")}
    done = session(tmp_path, "--caches", "cold,warm", "-k", "startup", **first)
    row = done.row("KV tokens between starts")
    assert (row.word, done.code) == (Word.WARN, ExitCode.PASS), done.out
    assert row.control == row.candidate == "cold 1,969,152; warm 2,097,152"
    assert {r.word for r in done.rows("KV tokens")} == {Word.PASS}


def test_arms_on_different_model_runners_are_not_comparable(tmp_path: Path) -> None:
    done = session(tmp_path, "-k", "first_prompt", candidate="v2-runner")
    row = done.row("resolved by the engine")
    assert (row.word, done.code) == (Word.VOID, ExitCode.VOID), done.out
    assert (row.control, row.candidate) == ("runner V1", "runner V2")


def test_arms_that_differ_only_in_a_variable_that_nothing_reads_are_named(tmp_path: Path) -> None:
    candidate = stack(tmp_path, "no-op", VLLM_EXL3_PREFILL_FP8="1")
    arms = ("--profile", str(fake_profile(tmp_path)), "--candidate", str(candidate))
    done = run(tmp_path / "results", *arms, "-k", "first_prompt")
    row = done.row("variables of the stacks")
    assert (row.word, row.control, row.candidate) == (Word.WARN, None, "VLLM_EXL3_PREFILL_FP8"), done.out
    assert done.code == ExitCode.PASS
    file, _, line = row.sources[0].rpartition(":")
    assert b"VLLM_EXL3_PREFILL_FP8" in (done.bundle.root / file).read_bytes().split(b"\n")[int(line) - 1]


class TestErrorsWhileServing:
    def test_one_that_only_the_candidate_prints_fails(self, tmp_path: Path) -> None:
        done = session(tmp_path, "-k", "identity", candidate="error-line@3")
        row = done.row("errors while serving")
        assert (row.word, done.code) == (Word.FAIL, ExitCode.FAIL), done.out
        assert "Failed to release a block" in row.reason

    def test_one_that_the_control_prints_too_is_a_warning(self, tmp_path: Path) -> None:
        done = session(tmp_path, "-k", "identity", control="error-line@3", candidate="error-line@4")
        row = done.row("errors while serving")
        assert (row.word, done.code) == (Word.WARN, ExitCode.PASS), done.out
        assert row.reason.startswith("in the control: ")


class TestABrokenControl:
    """Nothing is held against a candidate whose control is broken."""

    def test_that_does_not_serve_in_full_voids(self, tmp_path: Path) -> None:
        done = session(tmp_path, "-k", "identity", control="http-500=3")
        row = done.row("requests served in full")
        assert (row.word, done.code) == (Word.VOID, ExitCode.VOID), done.out
        assert row.reason.startswith("the control did not serve in full: ")

    def test_that_does_not_give_its_models_answers_voids(self, tmp_path: Path) -> None:
        done = session(tmp_path, "-k", "decode", control="diverge-at=7")
        row = done.row("known answers")
        assert row.word is Word.VOID, done.out
        assert row.reason.startswith("the control is not what its model must be: ")


def test_a_draft_that_the_counters_leave_out_voids(tmp_path: Path) -> None:
    done = session(tmp_path, "-k", "decode", candidate="lost-draft")
    row = done.row("draft arithmetic")
    assert (row.word, done.code) == (Word.VOID, ExitCode.VOID), done.out
    assert row.reason.startswith("the counters do not explain the tokens: ")


def test_worse_drafts_over_many_prompts_are_tested_and_named(tmp_path: Path) -> None:
    prompts = ("--set", "course.identity_prompts=8", "-k", "identity")
    done = run(
        tmp_path / "r", "--profile", str(fake_profile(tmp_path)), "--candidate", "cpu-lower-acceptance", *prompts
    )
    row = done.row("accepted / drafted, identity prompts")
    assert (row.word, done.code) == (Word.WARN, ExitCode.PASS), done.out
    assert row.reason.startswith("the drafts are worse, not the engine's speed: ")
    assert "90 % interval" in row.reason
    assert row.reason.endswith("8 prompts resampled; outputs are identical, so this is drafter drift")


def test_an_output_of_what_was_timed_that_differs_fails(tmp_path: Path) -> None:
    done = session(tmp_path, "-k", "decode", candidate="diverge-at=3")
    words = {r.context_tokens: r.word for r in done.rows(MEASURED)}
    assert words[2048] is Word.FAIL, done.out
    assert done.code == ExitCode.FAIL


def test_answers_that_depend_on_the_warm_up_in_the_candidate_alone_fail(tmp_path: Path) -> None:
    """A primed launch has five completions more than another, of which the ladder is four."""
    done = session(tmp_path, "--warmups", "engine,primed", "-k", "identity", candidate="diverge-at=5@8")
    row = done.row(STATES)
    assert (row.word, row.control) == (Word.FAIL, "identical"), done.out
    assert "token 5" in row.reason
    assert done.code == ExitCode.FAIL


def test_a_tie_that_breaks_in_another_state_of_the_candidate_is_a_warning(tmp_path: Path) -> None:
    """Both passes of the second prompt of the primed launch: only its states part, and by rounding alone."""
    tied = "\n[forge]\nnear_tie = true\n"
    long_enough = ("--set", "course.identity_output_tokens=140", "-k", "identity")
    broken = "break-tie@8,break-tie@11"
    done = session(tmp_path, "--warmups", "engine,primed", *long_enough, candidate=broken, more=tied)
    row = done.row(STATES)
    assert (row.word, row.control) == (Word.WARN, "identical"), done.out
    assert "1 of 3 outputs differ" in row.reason
    assert done.row(IDENTITY, warmup="primed").word is Word.WARN
    # Of a forged model the answer is known, and a tie that rounding breaks is not in its rule.
    assert {r.name for r in done.verdict.rows if r.word is Word.FAIL} == {"known answers"}


def test_events_that_the_client_reads_in_a_burst_give_no_rate(tmp_path: Path) -> None:
    """The built-in server without a pace is quicker than any engine: its events come all at once."""
    done = session(tmp_path, "-k", "decode")
    row = done.row("client kept up")
    assert (row.word, done.code) == (Word.WARN, ExitCode.PASS), done.out
    assert row.reason.endswith("; no rate is taken from it")
    assert done.row("decode", context_tokens=2048).control is None


def test_claims_about_kv_tokens_memory_and_start_are_refuted(tmp_path: Path) -> None:
    bench = GpuBench(tmp_path)
    options = bench.options(candidate="gpu-leaves=600")
    candidate = next(o for o in options if o.startswith("--candidate=")).partition("=")[2]
    with Path(candidate).open("a", encoding="utf-8") as stream:
        stream.write('QUALIFY_FAKE_KV_TOKENS = "2080768"\nQUALIFY_FAKE_START_S = "6"\n')
        stream.write(CLAIMS)
    done = run(tmp_path / "results", *options, env=bench.env)
    assert done.code == ExitCode.FAIL, done.out
    for name, told in (
        ("claim kv_tokens_min_change", "-16,384 tokens"),
        ("claim free_mib_min", "lowest free 600 MiB, declared at least 700"),
        ("claim free_mib_min_change", "lowest free -1,448 MiB, declared at least +100"),
        ("claim cold_start_max_change", "declared at most +0.5 s"),
    ):
        row = done.row(name)
        assert (row.word, row.reason[:7]) == (Word.FAIL, "REFUTED"), row.reason
        assert told in row.reason


def test_a_claim_about_speed_is_refuted(tmp_path: Path) -> None:
    claims = '\n[[claims]]\ntype = "throughput_min_change"\nmetric = "prefill"\nchange_pct = 900.0\n'
    settings = (
        "plan.pairs=2",
        'plan.caches=["warm"]',
        "course.contexts=[{prompt_tokens=64}]",
        "serve.env.QUALIFY_FAKE_TTFT_S='0.2'",
    )
    done = session(tmp_path, *sets(*settings), "-k", "prefill or first_prompt", claims=claims)
    row = done.row("claim throughput_min_change")
    kept_up = {r.word for r in done.rows("client kept up")} == {Word.PASS}
    if not kept_up and row.reason.startswith("NOT SHOWN"):  # this machine was too busy to measure a speed in each pair
        return
    assert (row.word, done.code) == (Word.FAIL, ExitCode.FAIL), done.out
    assert "declared at least +900 %, 2 pairs" in row.reason


def test_a_desktop_whose_use_of_the_gpu_is_not_constant_is_a_warning(tmp_path: Path) -> None:
    bench = GpuBench(tmp_path)
    # Long enough a launch for the change to be seen and taken back within it.
    bench.settings += ["serve.env.QUALIFY_FAKE_STEP_S='0.05'", "course.identity_output_tokens=120"]
    results = tmp_path / "results"
    with bench.somebody(used_mib=400, compute=False) as pid:
        process = start(results, *bench.options(), env=bench.env)
        wait_for(lambda: any(results.glob("*-fake-*/launches/001-*/requests.jsonl")))
        register(bench.nvml, pid, (bench.gpus[0].uuid,), 900, compute=False)
        wait_for(lambda: f"{900 << 20}" in next(results.glob("*-fake-*/launches/001-*/gpu.jsonl")).read_text("utf-8"))
        register(bench.nvml, pid, (bench.gpus[0].uuid,), 400, compute=False)
        out, _ = process.communicate(timeout=120)
    done = Finished(process.returncode, out, results)
    row = done.row("foreign GPU processes")
    assert (row.word, done.code) == (Word.WARN, ExitCode.PASS), out
    assert "used 400 to 900 MiB" in row.reason
    assert not left_running(results)


Judge = Callable[[Callable[[Path], None]], dict[str, Row]]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return session(tmp_path_factory.mktemp("honest"), "-k", "first_prompt or identity")


@pytest.fixture
def changed(honest: Finished, tmp_path: Path) -> Judge:
    """Judges a copy of the bundle after somebody was at it."""

    def judged(change: Callable[[Path], None]) -> dict[str, Row]:
        root = tmp_path / honest.bundle.root.name
        shutil.copytree(honest.bundle.root, root)
        change(root)
        return {row.name: row for row in judge(Bundle(root)).rows}

    return judged


@pytest.mark.xdist_group("honest")
class TestEvidenceThatWasChanged:
    def test_as_it_was_it_passes(self, changed: Judge) -> None:
        rows = changed(lambda _: None)
        assert {rows[name].word for name in ("evidence whole", "launch order", "session complete")} == {Word.PASS}

    def test_a_line_of_a_log(self, changed: Judge) -> None:
        def change(root: Path) -> None:
            file = next(root.glob("launches/*candidate*/server.log"))
            file.write_bytes(file.read_bytes().replace(b"INFO", b"WARN", 1))

        row = changed(change)["evidence whole"]
        assert row.word is Word.FAIL
        assert "server.log is not as it was sealed" in row.reason

    def test_a_launch_that_began_earlier(self, changed: Judge) -> None:
        def change(root: Path) -> None:
            file = next(root.glob("launches/002-*/launch.json"))
            tree = json.loads(file.read_text("utf-8"))
            file.write_text(json.dumps(tree | {"begin_ns": 1}), "utf-8")

        row = changed(change)["launch order"]
        assert row.word is Word.VOID
        assert "began before 001-" in row.reason

    @pytest.mark.parametrize(
        ("arm", "told"),
        [("candidate", "outputs of the control, "), ("control", "the control does not agree with itself (")],
    )
    def test_an_output_that_was_taken_away(self, changed: Judge, arm: str, told: str) -> None:
        def change(root: Path) -> None:
            file = next(root.glob(f"launches/*{arm}*/outputs.jsonl"))
            lines = file.read_bytes().splitlines(keepends=True)
            file.write_bytes(b"".join(lines[:-1]))

        row = changed(change)[IDENTITY]
        assert row.word is Word.VOID
        assert told in row.reason

    def test_a_request_that_was_exchanged(self, changed: Judge) -> None:
        def change(root: Path) -> None:
            file = next(root.glob("launches/*candidate*/requests.jsonl"))
            *others, last = file.read_text("utf-8").splitlines()
            exchanged = json.dumps(json.loads(last) | {"prompt_sha256": "0" * 64})
            file.write_text("\n".join([*others, exchanged, ""]), "utf-8")

        row = changed(change)["requests served in full"]
        assert row.word is Word.VOID
        assert row.reason.startswith("the arms were not asked the same: request ")

    def test_a_launch_that_was_taken_away(self, changed: Judge) -> None:
        row = changed(lambda root: shutil.rmtree(next(root.glob("launches/002-*"))))["session complete"]
        assert row.word is Word.VOID
        assert row.reason.startswith("1 launches are missing or unfinished, from 002-")
