"""A session end to end, as a user starts it, with faults that real engines do not produce on demand."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from harness.evidence.bundle import read_record
from harness.judge.case import read_case
from harness.judge.verdict import judge
from harness.records.statistics import Look
from harness.words import Arm, Cache, ExitCode, LaunchStatus, Step, Word

from .sessions import Finished, fake_profile, left_running, records, run, sets, stack

ROOT = Path(__file__).resolve().parents[2]


def faulty(results: Path, profile: str, tmp_path: Path, faults: str, **env: str) -> Finished:
    candidate = stack(tmp_path, "faulty", QUALIFY_FAKE_FAULTS=faults, **env)
    return run(results, "--profile", profile, "--candidate", str(candidate))


def test_equal_arms_pass_and_speed_is_not_tested_at_one_pair(results: Path, profile: str) -> None:
    done = run(results, "--profile", profile, "--modes", "mtp0,mtp1", "--warmups", "none,engine,primed")
    assert done.code == ExitCode.PASS, done.out
    assert done.verdict.verdict is Word.PASS
    assert len(done.rows("served to the end", word=Word.PASS)) == 6
    assert {r.word for r in done.rows("identity, candidate vs control")} == {Word.PASS}
    assert {r.word for r in done.rows("known answers")} == {Word.PASS}
    assert {r.context_tokens for r in done.rows("prefill")} == {2048, 32_768}
    assert {r.word for r in done.rows("prefill")} == {Word.NOT_TESTED}
    assert done.row("identity, between warm-up and cache states", mode="mtp1").word is Word.PASS
    assert "verdict: pass" in done.out
    assert str(done.bundle.report_dir / "report.html") in done.out


def test_every_launch_follows_the_same_course(results: Path, tmp_path: Path) -> None:
    done = run(results, "--profile", str(fake_profile(tmp_path, kinds=True)), "--warmups", "primed")
    for launch in read_case(done.bundle).launches.values():
        steps = [m.step for m in launch.marks if m.mark == "step begins"]
        # Equal arms part nowhere, a forged model's prompts are ids, in which no needle can stand, and no GPU warms up.
        left_out = (Step.FOLLOW_UP, Step.NEEDLE, Step.SETTLING, Step.PROBES)
        assert list(dict.fromkeys(steps)) == [s for s in Step if s not in left_out]
        contexts = [m.context_tokens for m in launch.marks if m.step is Step.FIRST_PROMPT and m.mark == "step begins"]
        assert contexts == [2048, 32_768]


def test_the_harness_adds_less_than_two_seconds_per_launch(results: Path, profile: str) -> None:
    course = ("--set", "course.contexts=[{prompt_tokens=64}]")
    done = run(results, "--profile", profile, *course)
    # The quicker of both: what else the machine does only adds.
    assert min(r.end_ns - r.begin_ns for r in records(done) if r.end_ns is not None) / 1e9 < 2.0


def test_judge_and_report_give_the_same_bytes_again(results: Path, profile: str) -> None:
    done = run(results, "--profile", profile)
    files = [done.bundle.verdict_file, *sorted(p for p in done.bundle.report_dir.rglob("*") if p.is_file())]
    first = [f.read_bytes() for f in files]
    for command in ("judge", "report"):
        again = run(results, str(done.bundle.root), program=("-m", "harness.cli", command))
        assert again.code == 0, again.out
        assert [f.read_bytes() for f in files] == first


def test_pytest_alone_is_the_same_path(results: Path, profile: str) -> None:
    arguments = ("suites/", "--qualify-profile", profile, "-k", "first_prompt", "-p", "no:cacheprovider")
    done = run(results, *arguments, program=("-m", "pytest", f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml")))
    assert done.code == 0, done.out
    assert "verdict: pass" in done.out
    for launch in read_case(done.bundle).launches.values():
        assert {w.window.step for w in launch.windows} == {Step.READINESS, Step.FIRST_PROMPT}
    assert done.row("decode", context_tokens=2048).word is Word.NOT_TESTED
    assert done.bundle.run().selection == "-k 'first_prompt'"


def test_suites_without_a_session_say_what_they_need(results: Path) -> None:
    done = run(results, "suites/", program=("-m", "pytest", f"--rootdir={ROOT}"))
    assert done.code == pytest.ExitCode.INTERRUPTED, "pytest's word for errors while collecting"
    assert "--qualify-profile NAME" in done.out


class TestLanes:
    def test_lanes_run_side_by_side_and_their_launches_one_at_a_time(self, results: Path, profile: str) -> None:
        pace = "serve.env.QUALIFY_FAKE_STEP_S='0.005'"
        done = run(results, "--profile", profile, "--modes", "mtp0,mtp1", "--lanes", "2", "--set", pace)
        assert done.code == ExitCode.PASS, done.out
        spans = {
            lane: sorted((r.begin_ns, r.end_ns or 0) for r in records(done) if r.launch.lane == lane) for lane in (0, 1)
        }
        for lane in spans.values():
            assert len(lane) == 2
            assert lane[0][1] <= lane[1][0], "two launches of one lane overlap"
        assert spans[0][0][0] < spans[1][-1][1], "the lanes did not run side by side"
        assert spans[1][0][0] < spans[0][-1][1], "the lanes did not run side by side"
        assert done.row("launch order").word is Word.PASS

    def test_plugins_of_others_in_the_environment_take_no_part(
        self, results: Path, profile: str, tmp_path: Path
    ) -> None:
        """As pytest-benchmark on a GPU host did, whose warning of lanes ended the session."""
        site = tmp_path / "site"
        (site / "nosy-1.0.dist-info").mkdir(parents=True)
        (site / "nosy-1.0.dist-info" / "METADATA").write_text("Name: nosy\nVersion: 1.0\n", "utf-8")
        (site / "nosy-1.0.dist-info" / "entry_points.txt").write_text("[pytest11]\nnosy = nosy\n", "utf-8")
        (site / "nosy.py").write_text("def pytest_configure():\n    raise RuntimeError('no lanes, please')\n", "utf-8")
        search = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH", ""))))
        arguments = ("--profile", profile, "--modes", "mtp0,mtp1", "--lanes", "2")
        done = run(results, *arguments, env={"PYTHONPATH": search})
        assert done.code == ExitCode.PASS, done.out

    def test_a_distribution_that_ignores_lanes_cannot_share_one(self, results: Path, profile: str) -> None:
        """As pytest 9.2.0 with xdist 3.8.0 did: the operating system's lock is the second wall."""
        arguments = ("suites/", "--qualify-profile", profile, "-n", "2", "--dist", "load", "-p", "no:cacheprovider")
        done = run(results, *arguments, program=("-m", "pytest", f"--rootdir={ROOT}"))
        assert done.code == pytest.ExitCode.TESTS_FAILED
        spans = sorted((r.begin_ns, r.end_ns or 0) for r in records(done) if r.argv)
        assert all(a[1] <= b[0] for a, b in pairwise(spans)), "what was started"
        text = (done.bundle.root / "junit.xml").read_text("utf-8")
        assert "is in use by another launch" in text or "has run already; keep the plan's order" in text


class TestFaults:
    @pytest.mark.parametrize(
        ("faults", "name", "word", "told"),
        [
            (
                "die-at-start",
                "served to the end",
                Word.FAIL,
                "failed at health: the server ended by itself (exit code 1)",
            ),
            ("die-at-first-request", "served to the end", Word.FAIL, "failed at first request: the server ended"),
            ("die-after=4", "served to the end", Word.FAIL, "failed at after ready: the server ended by itself"),
            ("wrong-model-name", "served to the end", Word.FAIL, "failed at model: the server names"),
            ("hang@3", "requests served in full", Word.FAIL, "not finished within"),
            ("http-500=3", "requests served in full", Word.FAIL, "HTTP 500"),
            ("wrong-usage@3", "requests served in full", Word.FAIL, "was not served in full"),
            ("short-output@3", "requests served in full", Word.FAIL, "was not served in full"),
            ("prefix-hits", "counts agree", Word.VOID, "prefix_hits: the client counts 0, the server"),
            ("foreign-traffic", "counts agree", Word.VOID, "requests: the client counts"),
            ("counter-reset=3", "counts agree", Word.VOID, "counters were reset"),
            ("metrics-500@4", "counts agree", Word.VOID, "a scrape failed"),
            ("diverge-at=7", "identity, candidate vs control", Word.FAIL, "token 7"),
            ("unstable", "identity, candidate vs control", Word.FAIL, "does not agree with itself"),
        ],
    )
    def test_a_fault_of_the_candidate_is_named(
        self, results: Path, profile: str, tmp_path: Path, faults: str, name: str, word: Word, told: str
    ) -> None:
        done = faulty(results, profile, tmp_path, faults)
        row = done.row(name)
        assert (row.word, done.code) == (word, done.verdict.exit_code), done.out
        assert told in row.reason
        assert done.code in (ExitCode.FAIL, ExitCode.VOID)
        assert not left_running(results)

    def test_a_near_tie_that_the_other_token_wins_is_a_warning(self, results: Path, profile: str) -> None:
        arms = ("--control", "cpu-near-tie", "--candidate", "cpu-near-tie-swapped")
        done = run(results, "--profile", profile, *arms, "--set", "course.identity_output_tokens=140")
        row = done.row("identity, candidate vs control")
        assert row.word is Word.WARN, done.out
        assert row.reason.startswith("diverged at a near tie: 3 of 3 outputs differ")
        assert Word.FAIL not in {r.word for r in done.rows("identity, measured outputs")}
        assert done.code == ExitCode.PASS

    def test_the_controls_evidence_is_kept_when_the_candidate_dies(
        self, results: Path, profile: str, tmp_path: Path
    ) -> None:
        done = faulty(results, profile, tmp_path, "die-at-start")
        status = {r.launch.arm: r for r in records(done)}
        assert status[Arm.CONTROL].status is LaunchStatus.COMPLETED
        tail = status[Arm.CANDIDATE].log_tail
        assert tail
        report = (done.bundle.report_dir / "report.md").read_text("utf-8")
        assert tail.splitlines()[-1] in report
        assert done.row("requests served in full").control != "0 of 0"

    def test_both_arms_dead_is_a_setup_failure(self, results: Path, profile: str, tmp_path: Path) -> None:
        both = str(stack(tmp_path, "dead", QUALIFY_FAKE_FAULTS="die-at-start"))
        done = run(results, "--profile", profile, "--control", both, "--candidate", both)
        assert (done.code, done.verdict.verdict) == (ExitCode.SETUP_FAILURE, Word.SETUP_FAILURE)

    def test_a_kernel_that_is_late_in_the_candidate_alone_fails(
        self, results: Path, profile: str, tmp_path: Path
    ) -> None:
        armed = {"QUALIFY_FAKE_JIT_MONITOR": "1"}
        control = stack(tmp_path, "armed", **armed)
        candidate = stack(tmp_path, "late", QUALIFY_FAKE_FAULTS="late-jit=UnifiedPrefillMGKernel", **armed)
        done = run(results, "--profile", profile, "--control", str(control), "--candidate", str(candidate))
        row = done.row("late JIT (engine's monitor)")
        assert (row.word, row.control, row.candidate) == (Word.FAIL, "none", "UnifiedPrefillMGKernel")
        assert done.code == ExitCode.FAIL

    def test_a_worker_that_outlives_its_server_is_killed_and_counted(
        self, results: Path, profile: str, tmp_path: Path
    ) -> None:
        done = faulty(results, profile, tmp_path, "orphan-worker")
        [candidate] = [r for r in records(done) if r.launch.arm == "candidate"]
        assert candidate.exit is not None
        assert candidate.exit.survivors_killed >= 1
        row = done.row("served to the end")
        assert (row.word, done.code) == (Word.WARN, ExitCode.PASS)
        assert "served its course, and had to be killed at the end" in row.reason
        assert not left_running(results)

    def test_a_secret_of_the_user_reaches_no_server(
        self, results: Path, profile: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_TOKEN", "hf_planted")
        done = run(results, "--profile", profile)
        for path in done.bundle.root.rglob("*"):
            assert path.is_dir() or b"hf_planted" not in path.read_bytes(), path


def test_a_users_own_check_counts(results: Path, profile: str, tmp_path: Path) -> None:
    """A check that fails in the candidate alone fails the session; README shows how to write one."""
    own = tmp_path / "test_own.py"
    own.write_text(
        "def test_arm(server, record):\n"
        "    (record / 'own.txt').write_text('seen')\n"
        "    assert server.launch.arm == 'control', 'the candidate is worse'\n",
        "utf-8",
    )
    arguments = (str(own), "--qualify-profile", profile, "-p", "no:cacheprovider", f"--rootdir={ROOT}")
    done = run(
        results,
        *arguments,
        program=(
            "-m",
            "pytest",
        ),
    )
    row = done.row("check test_own.py::test_arm")
    assert row.word is Word.FAIL
    assert "the candidate is worse" in row.reason
    assert done.verdict.verdict is Word.FAIL
    assert len(list(done.bundle.root.glob("launches/*/own.txt"))) == 2
    assert "own.txt" in (done.bundle.root / "SHA256SUMS").read_text("utf-8")


def test_the_check_in_the_readme_works_as_it_stands(results: Path, profile: str, tmp_path: Path) -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    begin = lines.index("    # suites/test_my_check.py")
    end = next(i for i in range(begin, len(lines)) if lines[i] and not lines[i].startswith("    "))
    own = tmp_path / "test_my_check.py"
    own.write_text("\n".join(line.removeprefix("    ") for line in lines[begin:end]), "utf-8")
    arguments = (str(own), "--qualify-profile", profile, "-p", "no:cacheprovider", f"--rootdir={ROOT}")
    done = run(results, *arguments, program=("-m", "pytest"))
    assert done.code == 0, done.out
    assert all(p.read_text() for p in done.bundle.root.glob("launches/*/my-evidence.txt"))
    assert len(list(done.bundle.root.glob("launches/*/my-evidence.txt"))) == 2


def test_a_warm_launch_starts_from_a_copy(results: Path, profile: str) -> None:
    done = run(results, "--profile", profile, "--caches", "cold,warm")
    for launch in read_case(done.bundle).launches.values():
        assert launch.record is not None
        if launch.record.launch.cache is Cache.WARM:
            assert launch.record.launch.warm_from in read_case(done.bundle).launches
    # The fake server compiles nothing, so no launch of it may be called warm.
    assert {r.cache for r in done.rows("cache state")} == {"cold", "unproven"}


SHORT = [
    f"course.contexts=[{', '.join(f'{{prompt_tokens={n},prefill_passes=1,decode_passes=1}}' for n in range(64, 72))}]",
    "course.decode_output_tokens=8",
    "plan.caches=['warm']",
    "serve.env.QUALIFY_FAKE_STEP_S='0.01'",  # slow enough for a client to keep up with: otherwise there is no rate
]
MARGINS = ("throughput_pct", "steps_pct", "startup_pct")


@pytest.mark.parametrize(
    ("margin", "ran"),
    [
        ("1e30", 0),  # nothing is beyond it
        ("1e-9", 4),  # nine metrics, which cannot all be clear of so small a one with two pairs
    ],
)
def test_a_session_goes_on_only_where_its_first_look_is_inconclusive(
    results: Path, profile: str, margin: str, ran: int
) -> None:
    settings = [*SHORT, "plan.pairs=2", "plan.escalate_by=2", *(f"gates.{name}={margin}" for name in MARGINS)]
    done = run(results, "--profile", profile, *sets(*settings))
    row = done.row("second look")
    assert (row.word, row.control) == (Word.PASS, f"{ran} of 4 launches"), done.out
    assert done.row("session complete").control == f"{6 + ran} of {6 + ran}"
    assert len(list((done.bundle.root / "launches").iterdir())) == 6 + ran, "what was not needed left nothing"
    assert (done.bundle.root / "looks" / "mtp1.json").is_file()
    assert "looks/mtp1.json" in (done.bundle.root / "SHA256SUMS").read_text("ascii")

    file = done.bundle.look_file("mtp1")
    look = read_record(file, Look)
    file.write_text(look.model_copy(update={"goes_on": not look.goes_on}).model_dump_json(), "utf-8")
    [row] = [r for r in judge(done.bundle).rows if r.name == "second look"]
    assert row.word is Word.VOID
    assert row.reason.startswith("mtp1.json does not say what the evidence of the first look says: ")
    if ran:  # though by other margins it would have been conclusive
        text = done.bundle.plan_file.read_text("utf-8")
        done.bundle.plan_file.write_text(text.replace(str(float(margin)), "1e30"), "utf-8")
        [row] = [r for r in judge(done.bundle).rows if r.name == "second look"]
        assert row.word is Word.VOID
        assert row.reason.endswith(" ran although the first look was conclusive")
