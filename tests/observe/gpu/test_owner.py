"""Whose a process is: the server's by descent or session, for as long as it lives; never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.observe.gpu.owner import Family, Owner, process_facts


class Proc:
    """A /proc of one's own."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, pid: int, parent: int, *, name: str = "python", session: int = 1, started: int = 100) -> None:
        (self.root / str(pid)).mkdir(exist_ok=True)
        between = " ".join(["0"] * 15)
        text = f"{pid} ({name}) S {parent} {pid} {session} {between} {started} 0 0\n"
        (self.root / str(pid) / "stat").write_text(text, "utf-8")

    def end(self, pid: int) -> None:
        (self.root / str(pid) / "stat").unlink()


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path)
    made.add(1, 0, name="init")
    made.add(10, 1, name="vllm", session=10)
    made.add(11, 10, name="VLLM::Worker", session=10)
    made.add(12, 11, name="VLLM::Worker", session=12)
    made.add(50, 1, name="train.py", session=50)
    return made


def family(proc: Proc, *roots: int, host_pids: bool = True) -> Family:
    made = Family(proc.root, host_pids=host_pids)
    made.add(roots)
    return made


def test_a_name_with_brackets_and_spaces_is_read_whole(proc: Proc) -> None:
    proc.add(60, 1, name="a) (b c")
    facts = process_facts(60, proc.root)
    assert facts is not None
    assert (facts.name, facts.parent, facts.session, facts.started) == ("a) (b c", 1, 1, 100)


@pytest.mark.parametrize("pid", [10, 11, 12])
def test_the_server_and_all_below_it_are_own(proc: Proc, pid: int) -> None:
    assert family(proc, 10).owner(pid)[0] is Owner.OWN


def test_everybody_else_is_foreign_and_has_a_name(proc: Proc) -> None:
    assert family(proc, 10).owner(50) == (Owner.FOREIGN, "train.py")
    assert family(proc).owner(10) == (Owner.FOREIGN, "vllm"), "before the server is known, nobody is its"


def test_a_worker_that_outlives_its_server_stays_own(proc: Proc) -> None:
    known = family(proc, 10)
    assert known.owner(12)[0] is Owner.OWN
    for pid in (10, 11):
        proc.end(pid)
    proc.add(12, 1, session=12)
    assert known.owner(12)[0] is Owner.OWN


def test_an_orphan_is_own_by_the_session_that_the_server_leads(proc: Proc) -> None:
    known = family(proc, 10)
    proc.end(10)
    proc.add(13, 1, session=10)
    assert known.owner(13)[0] is Owner.OWN


def test_a_process_that_the_driver_lists_a_moment_after_its_end_stays_own(proc: Proc) -> None:
    known = family(proc, 10)
    assert known.owner(12)[0] is Owner.OWN
    proc.end(12)
    assert known.owner(12) == (Owner.OWN, None)


def test_a_number_that_was_given_again_is_another_process(proc: Proc) -> None:
    known = family(proc, 10)
    assert known.owner(12)[0] is Owner.OWN
    proc.add(12, 1, name="train.py", session=50, started=900)
    assert known.owner(12) == (Owner.FOREIGN, "train.py")


def test_what_is_not_to_be_seen_is_unknown(proc: Proc) -> None:
    assert family(proc, 10).owner(999) == (Owner.UNKNOWN, None)


def test_in_a_namespace_of_ones_own_a_number_says_nothing_until_one_of_ours_was_found(proc: Proc) -> None:
    known = family(proc, 10, host_pids=False)
    assert known.owner(50) == (Owner.UNKNOWN, None), "it may be another process that has this number there"
    assert known.owner(11)[0] is Owner.OWN
    assert known.owner(50) == (Owner.FOREIGN, "train.py")
