"""Following a visit: what each call takes home, so that a machine that goes back takes nothing with it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tools import gpu_session
from tools.visit.state import Progress, State, Status


class Visit:
    """A visit's folder, as its worker leaves it at some moment."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "visit"
        self.root = root
        for name in ("out", "logs"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / gpu_session.WORKER_LOG).write_text("12.0  sessions begin\n", "utf-8")
        self.calls = 0

    def step(self, name: str, status: Status) -> None:
        state = State.read(self.folder / gpu_session.STATE)
        state.steps[name] = Progress(name, status)
        state.write()

    def finished(self, name: str, size: int = 10) -> None:
        (self.folder / "out" / name).write_bytes(b"x" * size)

    def follow(self) -> list[str]:
        """One call; names of what it brings home."""
        self.calls += 1
        out = self.root / f"call-{self.calls}"
        code = gpu_session.main(["follow", "--folder", str(self.folder), "--out", str(out), "--seconds", "0"])
        assert code == 0
        return sorted(p.name for p in out.iterdir() if p.name not in (gpu_session.STATE, gpu_session.WORKER_LOG))


@pytest.fixture
def visit(tmp_path: Path) -> Visit:
    return Visit(tmp_path)


def test_what_is_finished_comes_home_once(visit: Visit) -> None:
    visit.step("one", Status.DONE)
    visit.finished("one.tgz")
    assert visit.follow() == ["one.tgz"]
    visit.finished("two.tgz")
    visit.finished("half.partial")
    assert visit.follow() == ["two.tgz"]


def test_a_file_that_was_written_again_comes_home_again(visit: Visit) -> None:
    """The figures of a program's second scene stayed on a machine that went back."""
    visit.finished("figures.json", 10)
    assert visit.follow() == ["figures.json"]
    assert visit.follow() == []
    visit.finished("figures.json", 20)
    assert visit.follow() == ["figures.json"]


def test_what_runs_comes_home_as_far_as_it_is_with_every_call(visit: Visit) -> None:
    """Two visits were lost with the sessions that ran: the machine went back between two calls."""
    bundle = visit.root / "results" / "s-1"
    bundle.mkdir(parents=True)
    (bundle / "plan.json").write_text("{}", "utf-8")
    visit.step("one", Status.RUNNING)
    (visit.folder / "logs" / "one.log").write_text(f"profile p\nbundle {bundle}\n", "utf-8")
    for _ in range(2):
        assert visit.follow() == ["one.unfinished.tgz"]
    with tarfile.open(visit.root / "call-2" / "one.unfinished.tgz") as archive:
        assert "s-1/plan.json" in archive.getnames()


def test_one_call_brings_no_more_than_it_may(visit: Visit) -> None:
    for number in range(gpu_session.FILES + 2):
        visit.finished(f"{number}.tgz")
    first, second = visit.follow(), visit.follow()
    assert len(first) == gpu_session.FILES - 2, "state and log are files, too"
    assert sorted(first + second)[:3] == ["0.tgz", "1.tgz", "2.tgz"]


def test_a_file_that_is_too_large_is_told_and_left(visit: Visit, capsys: pytest.CaptureFixture[str]) -> None:
    visit.finished("large.tgz", gpu_session.FILE_BYTES + 1)
    assert visit.follow() == []
    assert "large.tgz is too large to be handed out: 15 MiB" in capsys.readouterr().out


def test_large_files_are_spread_over_calls(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_session, "ALL_BYTES", 100)
    for number in range(3):
        visit.finished(f"{number}.tgz", 45)
    assert [visit.follow(), visit.follow()] == [["0.tgz", "1.tgz"], ["2.tgz"]]


def test_a_file_that_is_too_large_keeps_no_other_at_home(visit: Visit) -> None:
    for number in range(gpu_session.FILES):
        visit.finished(f"{number}.tgz", gpu_session.FILE_BYTES + 1)
    visit.finished("small.tgz")
    assert visit.follow() == ["small.tgz"]


def test_a_bundle_that_changes_while_it_is_read_does_not_keep_the_state_at_home(
    visit: Visit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = visit.root / "results" / "s-1"
    bundle.mkdir(parents=True)
    visit.step("one", Status.RUNNING)
    (visit.folder / "logs" / "one.log").write_text(f"bundle {bundle}\n", "utf-8")

    def vanishes(*_: object) -> None:
        raise FileNotFoundError("gpu.journal")

    monkeypatch.setattr("tools.visit.queue.pack", vanishes)
    assert visit.follow() == []
    assert "one.unfinished.tgz comes with the next call: gpu.journal" in capsys.readouterr().out
    assert (visit.root / "call-1" / gpu_session.STATE).exists()


def test_the_state_and_the_workers_words_are_shown(visit: Visit, capsys: pytest.CaptureFixture[str]) -> None:
    visit.step("one", Status.NO_TIME)
    visit.follow()
    out = capsys.readouterr().out
    assert "sessions begin" in out
    assert "no time  one" in out
