"""The session ledger: nothing can be taken out of it unseen, and a bundle proves its own place in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import SetupFailure
from harness.evidence.bundle import Bundle, write_json, write_record
from harness.evidence.ledger import Content, Entry, LedgerProof, enter, ledger_path, lock_identity, now, read_ledger
from harness.evidence.manifest import seal
from harness.evidence.sessions import check_ledger, enter_end, enter_start, ledger_counts, ledger_fault
from harness.records import ArmImage, Run, Verdict
from harness.words import VERDICT_EXIT, Arm, Word
from tests.judge.bundles import lock_record, run_record, small_profile, stack

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "state" / "ledger.jsonl"
    monkeypatch.setenv("QUALIFY_LEDGER", str(path))
    return path


def started(session: str, candidate: str = "c" * 64) -> Content:
    return Content(event="started", session=session, wall=now(), candidate=candidate)


def verdict(word: Word) -> Verdict:
    return Verdict(session="x", verdict=word, exit_code=VERDICT_EXIT[word], evidence_root_sha256="0" * 64, rows=())


def session(folder: Path, name: str, *, candidate: str = "candidate", interrupted: str | None = None) -> Bundle:
    """A bundle with what the ledger's lines are made of."""
    from harness.session.plan import make_plan

    bundle = Bundle(folder / name)
    write_record(
        bundle.plan_file, make_plan(name, small_profile(), stack("control"), stack(candidate, seqs=len(candidate)))
    )
    write_record(bundle.run_file, run_record(interrupted).model_copy(update={"session": name}))
    for arm in Arm:
        write_record(bundle.lock_file(arm), lock_record(arm, known_answers=True))
    return bundle


def run(folder: Path, name: str, word: Word | None, *, candidate: str = "candidate", aborted: bool = False) -> Bundle:
    """A session from its start to its end; without a word it is still going on."""
    bundle = session(folder, name, candidate=candidate, interrupted="killed" if aborted else None)
    enter_start(bundle)
    seal(bundle.root)
    if aborted:
        enter_end(bundle, None, "interrupted: killed")
    elif word is not None:
        write_record(bundle.verdict_file, verdict(word))
        enter_end(bundle, verdict(word), "completed")
    return bundle


# --- the chain ---------------------------------------------------------------------------------------


def test_every_line_follows_on_the_one_before() -> None:
    for name in ("a", "b", "c"):
        enter(started(name))
    entries, fault = read_ledger()
    assert fault is None
    assert [(e.number, e.content.session) for e in entries] == [(1, "a"), (2, "b"), (3, "c")]
    assert [e.previous for e in entries] == ["0" * 64, entries[0].sha256, entries[1].sha256]


def edited(lines: list[bytes]) -> None:
    lines[1] = lines[1].replace(b'"session":"b"', b'"session":"x"')


def cut(lines: list[bytes]) -> None:
    del lines[1]


def renumbered(lines: list[bytes]) -> None:
    lines[1] = lines[1].replace(b'"number":2', b'"number":3')


def nonsense(lines: list[bytes]) -> None:
    lines[1] = b"{}\n"


def beheaded(lines: list[bytes]) -> None:
    del lines[0]


@pytest.mark.parametrize("change", [edited, cut, renumbered, nonsense, beheaded])
def test_a_broken_chain_refuses_nothing_and_is_said_from_then_on(
    ledger: Path, tmp_path: Path, change: Callable[[list[bytes]], None]
) -> None:
    for name in ("a", "b", "c"):
        enter(started(name))
    lines = ledger.read_bytes().splitlines(keepends=True)
    change(lines)
    ledger.write_bytes(b"".join(lines))
    assert read_ledger()[1] is not None
    bundle = run(tmp_path, "d", Word.PASS)
    told = ledger_fault(bundle)
    assert told is not None
    assert told.startswith("the session ledger of this host is broken (line ")
    assert any(m.field == "chain" for m in check_ledger(bundle.root))
    assert read_ledger()[0][-1].content.session == "d"


@pytest.mark.parametrize("left", [1, 40, -1])
def test_a_torn_last_line_is_mended_in_the_open(ledger: Path, left: int) -> None:
    for name in ("a", "b"):
        enter(started(name))
    first, second = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(first + second[:left])
    enter(started("c"))
    entries, fault = read_ledger()
    assert fault is None
    events = [(e.content.event, e.content.session) for e in entries]
    kept = [("started", "b")] if left == -1 else []  # all but its line end: nothing of it is lost
    assert events == [("started", "a"), *kept, ("mended", ""), ("started", "c")]
    mended = entries[-2].content
    assert mended.torn_bytes == len(second[:left])
    enter(started("d"))
    assert read_ledger()[1] is None


WRITER = """
import sys
from harness.evidence.ledger import Content, enter, now
for n in range(25):
    enter(Content(event="started", session=f"{sys.argv[1]}-{n}", wall=now()))
"""


def test_two_sessions_at_once_lose_no_line() -> None:
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, name], cwd=ROOT) for name in ("a", "b", "c")]
    assert [p.wait(120) for p in processes] == [0, 0, 0]
    entries, fault = read_ledger()
    assert fault is None
    assert len({e.content.session for e in entries}) == len(entries) == 75


def test_a_ledger_that_cannot_be_written_is_a_setup_failure_that_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("QUALIFY_LEDGER", str(tmp_path / "file" / "ledger.jsonl"))
    with pytest.raises(SetupFailure, match=r"cannot be written: .*; QUALIFY_LEDGER names another place"):
        enter(started("a"))


def test_without_a_variable_it_lies_in_the_users_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUALIFY_LEDGER", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert ledger_path() == tmp_path / "qualify" / "ledger.jsonl"


def test_no_test_writes_to_the_users_own_ledger() -> None:
    assert not ledger_path().is_relative_to(Path.home())


# --- what a bundle carries ---------------------------------------------------------------------------


def test_sessions_of_these_locks_are_counted_and_others_only_hashed(tmp_path: Path) -> None:
    run(tmp_path, "one", Word.VOID)
    run(tmp_path, "two", Word.FAIL, candidate="another-one")
    run(tmp_path, "three", None, aborted=True)
    run(tmp_path, "four", None)
    bundle = run(tmp_path, "five", Word.PASS)
    told = "4 sessions of these locks here: 1 pass, 1 void, 1 aborted, 1 unfinished"
    assert ledger_counts(bundle, bundle.verdict()) == told
    assert b'"two"' not in bundle.ledger_file.read_bytes()
    assert len(json.loads(bundle.ledger_file.read_bytes())["chain"]) == 8
    assert check_ledger(bundle.root) == []


def test_the_first_session_counts_itself(tmp_path: Path) -> None:
    bundle = run(tmp_path, "one", Word.INCONCLUSIVE)
    assert ledger_counts(bundle, bundle.verdict()) == "1 session of these locks here: 1 inconclusive"
    assert ledger_fault(bundle) is None


def test_a_session_that_was_interrupted_is_an_aborted_one_whatever_it_showed(tmp_path: Path) -> None:
    bundle = session(tmp_path, "one", interrupted="stopped by the user or the system")
    enter_start(bundle)
    assert ledger_counts(bundle, verdict(Word.VOID)) == "1 session of these locks here: 1 aborted"


def test_a_bundle_of_before_there_was_a_ledger_says_so(tmp_path: Path) -> None:
    bundle = session(tmp_path, "old")
    assert ledger_counts(bundle, verdict(Word.PASS)).startswith("sessions of these locks here: not counted")
    assert check_ledger(bundle.root) == []
    enter_end(bundle, None, "completed")
    assert not bundle.ledger_end_file.exists()


def test_the_end_beside_it_names_the_root_hash_and_follows_on_the_start(tmp_path: Path) -> None:
    bundle = session(tmp_path, "one")
    enter_start(bundle)
    enter(started("in between"))
    digest = seal(bundle.root)
    enter_end(bundle, verdict(Word.PASS), "completed")
    proof = LedgerProof.model_validate_json(bundle.ledger_end_file.read_bytes())
    assert (proof.first, proof.own) == (2, 3)
    assert (proof.entries[3].root_sha256, proof.entries[3].verdict) == (digest, "pass")
    assert "in between" not in bundle.ledger_end_file.read_text("utf-8")
    assert check_ledger(bundle.root) == []


Tree = dict[str, Any]


def chain_cut(tree: Tree) -> None:
    del tree["chain"][0]


def entry_edited(tree: Tree) -> None:
    next(iter(tree["entries"].values()))["wall"] = "1970-01-01T00:00:00+00:00"


def earlier_one_taken_out(tree: Tree) -> None:
    del tree["chain"][0]
    tree["first"] += 1
    tree["entries"].pop("1")


def head_edited(tree: Tree) -> None:
    tree["head"] = "f" * 64


def own_taken_out(tree: Tree) -> None:
    tree["entries"].pop(max(tree["entries"], key=int))


def other_session(tree: Tree) -> None:
    tree["entries"][max(tree["entries"], key=int)]["session"] = "another"


def other_verdict(tree: Tree) -> None:
    tree["entries"][max(tree["entries"], key=int)]["verdict"] = "improved"


@pytest.mark.parametrize(
    ("file", "change", "field"),
    [
        ("ledger.json", chain_cut, "entries.1"),
        ("ledger.json", entry_edited, "entries.1"),
        ("ledger.json", earlier_one_taken_out, "head"),
        ("ledger.json", head_edited, "head"),
        ("ledger.json", own_taken_out, "entries"),
        ("ledger.json", other_session, "entries.3"),
        ("ledger.end.json", entry_edited, "entries.4"),
        ("ledger.end.json", head_edited, "head"),
        ("ledger.end.json", other_verdict, "entries.4"),
    ],
)
def test_what_was_changed_in_a_bundles_part_is_named(
    tmp_path: Path, file: str, change: Callable[[Tree], None], field: str
) -> None:
    run(tmp_path, "one", Word.VOID)
    bundle = run(tmp_path, "two", Word.PASS)
    assert check_ledger(bundle.root) == []
    tree = json.loads((bundle.root / file).read_bytes())
    change(tree)
    write_json(bundle.root / file, tree)
    assert (file, field) in {(m.file, m.field) for m in check_ledger(bundle.root)}


def test_a_part_of_another_session_is_not_this_ones(tmp_path: Path) -> None:
    one = run(tmp_path, "one", Word.PASS)
    two = run(tmp_path, "two", Word.PASS)
    two.ledger_file.write_bytes(one.ledger_file.read_bytes())
    assert [str(m) for m in check_ledger(two.root) if m.field == "entries.1.session"] == [
        "ledger.json: entries.1.session: says one, is two"
    ]


@pytest.mark.parametrize("text", ["", "[]", '{"schema_version": 1}', '{"schema_version": 99}'])
def test_a_part_that_is_none_is_named_and_not_raised(tmp_path: Path, text: str) -> None:
    bundle = run(tmp_path, "one", Word.PASS)
    bundle.ledger_file.write_text(text, "ascii")
    assert [m.file for m in check_ledger(bundle.root)] == ["ledger.json"]


# --- which locks are these ---------------------------------------------------------------------------


def test_an_arm_is_known_again_wherever_its_files_lie() -> None:
    lock = lock_record(Arm.CONTROL, known_answers=True)
    moved = lock.model_copy(update={"model": "/elsewhere", "arm": Arm.CANDIDATE, "stack": "renamed"})
    assert lock_identity(lock, stack("a")) == lock_identity(moved, stack("b"))
    assert lock_identity(lock, stack("a")) != lock_identity(lock, stack("a", max_model_len=1))
    other = lock.model_copy(update={"model_sha256": {"model.safetensors": "c" * 64}})
    assert lock_identity(lock, stack("a")) != lock_identity(other, stack("a"))


def test_a_patched_arm_is_its_lock_whatever_its_flags() -> None:
    image = ArmImage(name="x", image_id="sha256:" + "a" * 64, base_reference="r@sha256:x", lock_sha256="d" * 64)
    lock = lock_record(Arm.CONTROL, known_answers=True).model_copy(update={"image": image})
    built_again = lock.model_copy(update={"image": image.model_copy(update={"reused": True})})
    assert lock_identity(lock, stack("a")) == lock_identity(built_again, stack("a", max_model_len=1))
    moved = lock.model_copy(update={"image": image.model_copy(update={"lock_sha256": "e" * 64})})
    assert lock_identity(lock, stack("a")) != lock_identity(moved, stack("a"))


def test_lines_are_records_that_know_their_fields() -> None:
    with pytest.raises(ValueError, match="Extra inputs"):
        Entry.model_validate({"number": 1, "previous": "", "sha256": "", "content": {}, "host": "secret"})
    assert "signer" in Run.model_fields
