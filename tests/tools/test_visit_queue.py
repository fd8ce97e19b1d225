"""A visit's queue: what runs side by side, what waits, what is left for the next visit, and what is taken home."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import pytest

from tools.visit.plan import Step, VisitPlan
from tools.visit.queue import Queue, pack
from tools.visit.state import State, Status

WRITES = "import os, sys, time; open(sys.argv[1], 'a').write(os.environ['QUALIFY_GPUS'] + ';'); "
MEET = """
import os, sys, time
open(f"{sys.argv[1]}/{sys.argv[2]}", "w").write(os.environ["QUALIFY_GPUS"])
deadline = time.monotonic() + 60
while not os.path.exists(f"{sys.argv[1]}/{sys.argv[3]}"):
    if time.monotonic() > deadline:
        sys.exit("the other one never came")
    time.sleep(0.01)
"""
"""Ends only once another step has begun."""


def step(name: str, *program: str, gpus: int = 1, seconds: int = 1) -> Step:
    return Step(name=name, gpus=gpus, seconds=seconds, why="to see", program=("-c", *(program or ("pass",))))


def queue(folder: Path, *steps: Step, gpus: tuple[str, ...] = ("GPU-0", "GPU-1"), until: float = 1e6) -> Queue:
    plan = VisitPlan(description="a test", steps=steps)
    state = State.read(folder / "state.json").resumed([one.name for one in steps])
    clock = iter(range(1_000_000))
    return Queue(
        plan=plan,
        state=state,
        gpus=gpus,
        places={"here": str(folder)},
        folder=folder,
        until=until,
        python=sys.executable,
        clock=lambda: float(next(clock)) / 10,
    )


def statuses(made: Queue) -> dict[str, Status]:
    return {name: progress.status for name, progress in made.state.steps.items()}


def test_steps_of_one_gpu_run_side_by_side_each_on_its_own(tmp_path: Path) -> None:
    made = queue(tmp_path, step("a", MEET, "{here}", "a", "b"), step("b", MEET, "{here}", "b", "a"))
    made.run()
    assert set(statuses(made).values()) == {Status.DONE}
    assert {(tmp_path / name).read_text("utf-8") for name in "ab"} == {"GPU-0", "GPU-1"}


def test_a_step_of_both_gpus_waits_for_them_and_is_not_overtaken(tmp_path: Path) -> None:
    order = f"{WRITES}"
    steps = [step(name, order, f"{tmp_path}/order", gpus=n) for name, n in (("one", 1), ("both", 2), ("late", 1))]
    queue(tmp_path, *steps).run()
    assert (tmp_path / "order").read_text("utf-8") == "GPU-0;GPU-0,GPU-1;GPU-0;"


def test_what_takes_longer_than_is_left_is_passed_over_and_waits_for_the_next_visit(tmp_path: Path) -> None:
    steps = step("long", seconds=1000), step("short", seconds=10)
    made = queue(tmp_path, *steps, until=100)
    made.run()
    assert statuses(made) == {"long": Status.NO_TIME, "short": Status.DONE}
    again = queue(tmp_path, *steps, until=2000)
    assert statuses(again) == {"long": Status.WAITING, "short": Status.DONE}
    again.run()
    assert statuses(again) == {"long": Status.DONE, "short": Status.DONE}
    assert again.state.steps["short"].took_s == made.state.steps["short"].took_s, "it was not run again"


def test_a_machine_with_too_few_gpus_leaves_what_needs_more(tmp_path: Path) -> None:
    made = queue(tmp_path, step("both", gpus=2), step("one"), gpus=("GPU-0",))
    made.run()
    assert statuses(made) == {"both": Status.NO_TIME, "one": Status.DONE}


def test_what_still_runs_when_time_is_over_is_stopped_and_begun_again_next_time(tmp_path: Path) -> None:
    endless = step("endless", "import time; time.sleep(600)", seconds=1)
    made = queue(tmp_path, endless, until=2)
    made.run()
    assert statuses(made) == {"endless": Status.CUT_OFF}
    assert statuses(queue(tmp_path, endless)) == {"endless": Status.WAITING}


def test_a_program_that_fails_is_broken_and_its_words_are_taken_home(tmp_path: Path) -> None:
    made = queue(tmp_path, step("breaks", "raise SystemExit('no such thing')"))
    made.run()
    assert (statuses(made)["breaks"], made.state.steps["breaks"].code) == (Status.BROKEN, 1)
    assert "no such thing" in (tmp_path / "out" / "breaks.log").read_text("utf-8")


@pytest.mark.parametrize(
    ("results", "ended"),
    [((0,), Status.BROKEN), ((0, 4), Status.DONE), ((4,), Status.DONE), ((0, 3), Status.BROKEN)],
    ids=["0", "0-4", "4", "0-3"],
)
def test_a_program_is_done_with_the_codes_that_its_step_calls_results(
    tmp_path: Path, results: tuple[int, ...], ended: Status
) -> None:
    finds = step("finds", "print('3 % beyond'); raise SystemExit(4)").model_copy(update={"results": results})
    made = queue(tmp_path, finds)
    made.run()
    assert (statuses(made)["finds"], made.state.steps["finds"].code) == (ended, 4)
    assert "3 % beyond" in (tmp_path / "out" / "finds.log").read_text("utf-8"), "a finding's words come home, too"
    assert queue(tmp_path, finds).state.steps["finds"].status is ended, "and it is not run again"


def test_a_session_is_done_with_a_verdict_about_the_engine_and_broken_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results" / "s-1").mkdir(parents=True)
    (tmp_path / "results" / "s-1" / "verdict.json").write_text("{}", "utf-8")
    names = f"print('bundle {tmp_path}/results/s-1');"
    says = {
        "fails": f"{names} raise SystemExit(1)",
        "unready": f"{names} raise SystemExit(3)",
        "refused": "raise SystemExit(2)",
    }
    monkeypatch.setattr(Step, "argv", lambda self, python, _: [python, "-c", says[self.name]])
    sessions = [Step(name=name, seconds=1, why="to see", run=("x",)) for name in says]
    made = queue(tmp_path, *sessions)
    made.run()
    assert statuses(made) == {"fails": Status.DONE, "unready": Status.BROKEN, "refused": Status.BROKEN}
    assert made.state.steps["fails"].bundle == "s-1"
    with tarfile.open(tmp_path / "out" / "fails.tgz") as archive:
        assert "s-1/verdict.json" in archive.getnames()


def test_a_step_waits_for_a_place_that_is_still_being_made(tmp_path: Path) -> None:
    made = queue(tmp_path, step("needs", "import sys; print(sys.argv[1])", "{model}"))
    looks = iter(range(4))

    def coming() -> frozenset[str]:
        if next(looks, None) is not None:
            return frozenset({"model"})
        made.places["model"] = "/the/model"
        return frozenset()

    made.coming = coming
    made.run()
    assert "/the/model" in (tmp_path / "out" / "needs.log").read_text("utf-8")


def test_a_bundle_is_packed_whole(tmp_path: Path) -> None:
    """Without its sampler's journal an unfinished one was accused of having lost evidence."""
    bundle = tmp_path / "s-2"
    bundle.mkdir()
    for name in ("verdict.json", "gpu.journal"):
        (bundle / name).write_text("{}", "utf-8")
    pack(bundle, tmp_path / "s.tgz")
    with tarfile.open(tmp_path / "s.tgz") as archive:
        assert sorted(archive.getnames()) == ["s-2", "s-2/gpu.journal", "s-2/verdict.json"]


def test_state_survives_in_a_file_that_is_never_half_written(tmp_path: Path) -> None:
    made = queue(tmp_path, step("a"))
    made.run()
    assert [s["status"] for s in json.loads((tmp_path / "state.json").read_text("utf-8"))["steps"]] == ["done"]
    assert State.read(tmp_path / "state.json").lines()[0].startswith("done     a")
