"""Every void rule end to end: a broken measurement says what broke, and is neither a pass nor a fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.judge.verdict import judge
from harness.records.statistics import Rerun
from harness.words import ExitCode, Word

from .sessions import Finished, fake_profile, run, stack

ARMED = {"QUALIFY_FAKE_JIT_MONITOR": "1"}
COUNTS, JIT, PROMPTS = "counts agree", "late JIT (engine's monitor)", "identity, candidate vs control"

CLOCK_IS_SET = """
import datetime as clock, sys
from harness.session import live, timeline

class Clock(clock.datetime):
    ahead = clock.timedelta()

    @classmethod
    def now(cls, tz=None):
        return clock.datetime.now(tz) + cls.ahead

def stop(self, *arguments, really=live.LiveLaunch.stop, **named):
    if self.launch.arm == "candidate":
        Clock.ahead = clock.timedelta(seconds=SECONDS)
    really(self, *arguments, **named)
    Clock.ahead = clock.timedelta()

timeline.datetime = Clock
live.LiveLaunch.stop = stop
from harness.cli import main
sys.exit(main(["run", *sys.argv[1:]]))
"""
"""The user's `qualify run`, while somebody sets the clock before the candidate is stopped."""

DISK_IS_FULL = """
import errno, os, sys
from harness.evidence import stream

room = stream.write_all

def write_all(descriptor, data):
    if "-candidate-" in (name := os.readlink(f"/proc/self/fd/{descriptor}")) and name.endswith("/server.log"):
        if b"POST /v1/completions" in data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    room(descriptor, data)

stream.write_all = write_all
from harness.cli import main
sys.exit(main(["run", *sys.argv[1:]]))
"""
"""The user's `qualify run` on a disk that is full once the candidate has served a request."""


def session(folder: Path, *arguments: str, control: str = "", candidate: str = "", unarmed: str = "") -> Finished:
    """Faults per arm; only identity, unless told otherwise: its completions are 2 to 7 of each launch."""
    stacks = [
        stack(folder, name, QUALIFY_FAKE_FAULTS=faults, **({} if name == unarmed else ARMED))
        for name, faults in (("one", control), ("other", candidate))
    ]
    arms = ("--control", str(stacks[0]), "--candidate", str(stacks[1]))
    selection = () if "-k" in arguments else ("-k", "identity")
    profile = str(fake_profile(folder, kinds=True))
    return run(folder / "results", "--profile", profile, *arms, *selection, *arguments)


def assert_void(done: Finished) -> None:
    assert (done.code, done.verdict.verdict) == (ExitCode.VOID, Word.VOID), done.out
    assert Word.FAIL not in {r.word for r in done.verdict.rows}


@pytest.mark.parametrize(
    ("arm", "faults", "told"),
    [
        ("candidate", "prefix-hits@3", "prefix_hits: the client counts 0, the server 63"),
        ("control", "foreign-traffic@3", "requests: the client counts 3, the server 4"),
        ("candidate", "miscount@3", "generation_tokens: the client counts 120, the server 121"),
        ("control", "counter-reset=3", "the server's counters were reset within the window"),
        ("candidate", "metrics-500", "a scrape failed"),
    ],
)
def test_counts_that_are_not_ours_void_the_window_and_what_was_compared_in_it(
    tmp_path: Path, arm: str, faults: str, told: str
) -> None:
    done = session(tmp_path, **{arm: faults})
    assert_void(done)
    row = done.row(COUNTS)
    assert row.word is Word.VOID
    assert told in row.reason
    assert f"-{arm}-" in row.reason
    identity = done.row(PROMPTS)
    assert identity.word is Word.VOID
    assert told in identity.reason


def test_an_output_that_differs_beside_a_prefix_hit_is_no_difference_of_the_candidate(tmp_path: Path) -> None:
    done = session(tmp_path, candidate="prefix-hits@3,diverge-at=7@3")
    assert done.row(PROMPTS).word is Word.VOID
    # Only where the answer is known, it is wrong whatever else ran.
    assert {r.name for r in done.verdict.rows if r.word is Word.FAIL} == {"known answers"}


def test_a_kernel_that_a_foreign_request_may_have_needed_fails_nobody(tmp_path: Path) -> None:
    done = session(tmp_path, candidate="foreign-traffic@3,late-jit=_topk_kernel@3")
    assert_void(done)
    row = done.row(JIT)
    assert (row.word, row.candidate) == (Word.VOID, "_topk_kernel")
    assert "a foreign request ran (requests: 4, 3 ours)" in row.reason


@pytest.mark.parametrize("unarmed", ["one", "other"])
def test_a_monitor_that_is_armed_in_one_arm_only_shows_nothing(tmp_path: Path, unarmed: str) -> None:
    late = "" if unarmed == "other" else "late-jit=_topk_kernel@3"
    done = session(tmp_path, candidate=late, unarmed=unarmed)
    assert_void(done)
    row = done.row(JIT)
    assert row.word is Word.VOID
    assert row.reason == "the monitor was armed in one arm only, so the arms cannot be compared"


def test_so_it_is_for_every_kind_of_request(tmp_path: Path) -> None:
    done = session(tmp_path, "-k", "request_kinds", candidate="late-jit=_topk_kernel@3", unarmed="one")
    assert_void(done)
    assert {r.word for r in done.verdict.rows if r.name.startswith("request kind ")} == {Word.VOID}


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_clock_that_somebody_sets_voids_the_launch(tmp_path: Path, seconds: int) -> None:
    script = CLOCK_IS_SET.replace("SECONDS", str(seconds))
    arguments = ("--profile", str(fake_profile(tmp_path)), "-k", "decode")
    done = run(tmp_path / "results", *arguments, program=("-c", script))
    assert_void(done)
    row = done.row("clocks kept pace")
    assert (row.word, row.control, row.candidate) == (Word.VOID, "1 of 1", "0 of 1")
    assert f"the wall clock went {seconds:+,}.0 s against the monotonic one" in row.reason
    assert done.row("start-up").candidate is None
    assert done.row("decode", context_tokens=2048).candidate is None


def test_a_log_for_whose_end_the_disk_has_no_room_voids_the_session(tmp_path: Path) -> None:
    arguments = ("--profile", str(fake_profile(tmp_path)), "-k", "decode")
    done = run(tmp_path / "results", *arguments, program=("-c", DISK_IS_FULL))
    assert done.code == ExitCode.VOID, done.out
    row = done.row("evidence whole")
    assert row.word is Word.VOID
    assert "server.log lacks its end, which could not be written: No space left on device" in row.reason
    assert done.row("served to the end").word is Word.PASS, "a full disk does not stop the server that is measured"


@pytest.mark.parametrize("lasts", [False, True])
def test_a_void_pair_is_run_once_more_and_both_stay(tmp_path: Path, *, lasts: bool) -> None:
    fault = "foreign-traffic@3" if lasts else f"foreign-traffic@3,once={tmp_path / 'seen'}"
    done = session(tmp_path, "--set", "plan.rerun_void=true", candidate=fault)
    folders = sorted(p.name for p in (done.bundle.root / "launches").iterdir())
    assert [f.endswith("-again") for f in folders].count(True) == 2, folders
    assert len(folders) == 4
    row = done.row("voided pair")
    assert row.word is Word.NOTE
    assert "requests: the client counts 3, the server 4" in row.reason
    assert done.row("launch order").word is Word.PASS
    assert done.row("session complete").control == "4 of 4"
    if lasts:
        assert_void(done)
    else:
        assert (done.code, done.verdict.verdict) == (ExitCode.PASS, Word.PASS), done.out
        assert done.row(COUNTS).word is Word.PASS
    sums = (done.bundle.root / "SHA256SUMS").read_text("ascii")
    assert all(f"launches/{f}/launch.json" in sums for f in folders)

    [file] = (done.bundle.root / "reruns").iterdir()
    decision = json.loads(file.read_bytes())
    file.write_text(json.dumps(decision | {"void": ["counts agree: another reason"]}), "utf-8")
    [row] = [r for r in judge(done.bundle).rows if r.name == "voided pair"]
    assert row.word is Word.VOID
    assert row.reason.startswith(f"{file.name} does not say what the evidence says: ")


def test_a_pair_that_stands_leaves_nothing_of_a_second_try(tmp_path: Path) -> None:
    done = session(tmp_path, "--set", "plan.rerun_void=true")
    assert done.code == ExitCode.PASS, done.out
    assert len(list((done.bundle.root / "launches").iterdir())) == 2
    assert not (done.bundle.root / "reruns").exists()
    assert not done.rows("voided pair")

    pair = tuple(x.id for x in done.bundle.plan().launches)
    file = done.bundle.rerun_file(pair[1])
    file.parent.mkdir()
    told = Rerun(pair=(pair[0], pair[1]), void=("counts agree: so somebody says",))
    file.write_text(told.model_dump_json(), "utf-8")
    [row] = [r for r in judge(done.bundle).rows if r.name == "voided pair"]
    assert row.word is Word.VOID
    assert row.reason == f"{file.name}: run once more although the pair was not void"
