"""What a night runs: the anchor as it was accepted, or nothing at all."""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path

import pytest

from harness.config.options import SETTINGS
from harness.errors import SetupFailure
from harness.evidence.bundle import Bundle, write_record
from harness.history.anchors import Anchor, accept
from harness.nightly.choosing import Chosen, check_anchor, choose, finished
from harness.records import HostFacts, Lock
from harness.records.history import Night
from harness.words import Arm
from tests.history.bench import HERE, THERE, seal_again, session

DATE = "2026-11-30"


def chosen(*assignments: str, pairs: str | None = None, smoke: bool = False) -> Chosen:
    named = {"profile": "cpu-forged", "control": None, "candidate": None, "control_lock": None, "candidate_lock": None}
    settings = {s.dest: None for s in SETTINGS} | {"pairs": pairs}
    return choose(Namespace(**named, **settings, smoke=smoke, set=list(assignments)), DATE)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return session(tmp_path, "one", flags={"max_num_seqs": 3}, judged=True)


def accepted(bundle: Bundle) -> Anchor:
    return accept(bundle, reason="the release", who="somebody", when="2026-11-29T08:00:00+00:00")


def test_pairs_are_those_of_the_night_unless_somebody_asks_for_others() -> None:
    assert chosen().selection.profile.model.plan.pairs == 4
    assert chosen("nightly.pairs=6").selection.profile.model.nightly.pairs == 6
    found = chosen(pairs="2").selection.profile
    assert (found.model.plan.pairs, found.layers.origin("plan.pairs")) == (2, "option --pairs")
    assert chosen().selection.profile.layers.origin("plan.pairs") == "[nightly] pairs"


def test_without_an_anchor_the_control_of_the_profile_is_taken_and_it_says_so() -> None:
    found = chosen()
    assert (found.anchor, found.night) == (None, Night(date=DATE, anchor=None, anchor_session=None))
    assert "no anchor was accepted yet (`qualify history accept SESSION --reason TEXT`)" in found.told


def test_the_control_is_the_accepted_sessions_candidate_with_its_flags(bundle: Bundle) -> None:
    anchor = accepted(bundle)
    found = chosen()
    assert found.selection.control.model == bundle.plan().candidate
    assert found.selection.control.model.serve.flags == {"max-num-seqs": 3}
    assert (found.night.anchor, found.night.anchor_session) == (anchor.sha256, "one")
    assert found.told == "as-is against anchor 1: candidate of one, accepted 2026-11-29 (the release)"


def test_the_lock_of_a_patched_anchor_comes_from_its_bundle(bundle: Bundle) -> None:
    accepted(bundle)
    assert chosen().selection.control_lock is None, "nothing was built for this one"
    folder = bundle.stack_lock_dir(Arm.CANDIDATE)
    folder.mkdir()
    (folder / "lock.json").write_text("{}", "utf-8")
    verdict = bundle.verdict().model_copy(update={"evidence_root_sha256": seal_again(bundle.root)})
    write_record(bundle.verdict_file, verdict)
    accepted(bundle)
    assert chosen().selection.control_lock == folder


def test_an_anchor_whose_bundle_is_gone_or_was_changed_is_refused(bundle: Bundle) -> None:
    accepted(bundle)
    with next(bundle.root.glob("launches/*/server.log")).open("ab") as log:
        log.write(b"x\n")
    with pytest.raises(SetupFailure, match="is not what was accepted; put it back, or accept another anchor"):
        chosen()
    shutil.rmtree(bundle.root)
    with pytest.raises(SetupFailure, match=r"anchor 1: its bundle .* is gone"):
        chosen()


def locks(bundle: Bundle, **candidate: object) -> dict[Arm, Lock]:
    """Locks of a night whose control is the session's candidate."""
    lock: Lock = bundle.lock(Arm.CANDIDATE)
    return {Arm.CONTROL: lock.model_copy(update=candidate), Arm.CANDIDATE: lock}


def test_an_anchor_that_is_another_thing_by_now_is_not_measured_under_its_name(bundle: Bundle) -> None:
    anchor = accepted(bundle)
    plan = bundle.plan().model_copy(update={"control": bundle.plan().candidate})
    check_anchor(anchor, plan, locks(bundle))
    check_anchor(None, plan, locks(bundle, engine_version="1"))
    with pytest.raises(SetupFailure, match=r"it was vLLM 0\.32\.0, and the engine of this host is 0\.33\.0 by now"):
        check_anchor(anchor, plan, locks(bundle, engine_version="0.33.0"))
    with pytest.raises(SetupFailure, match="image, model, flags or environment are other ones by now"):
        check_anchor(anchor, plan, locks(bundle, model_sha256={"model.safetensors": "c" * 64}))
    with pytest.raises(SetupFailure, match="image, model, flags"):
        check_anchor(anchor, bundle.plan(), locks(bundle))


# --- which night is over -----------------------------------------------------------------------------


def host(host_id: str = HERE) -> HostFacts:
    return HostFacts(system="Linux", processor="a CPU", cores=2, memory_mib=16_000, gpus=(), id=host_id)


def over(results: Path, at: HostFacts | None = None, candidate: str = "candidate") -> str | None:
    found = chosen()
    stack = found.selection.candidate.model.model_copy(update={"name": candidate})
    selection = found.selection
    object.__setattr__(selection.candidate, "model", stack)
    done = finished(results, Chosen(selection, found.night, None, ""), at or host())
    return done[0].root.name if done else None


def test_a_night_is_over_by_its_date_its_profile_its_stack_and_its_host(tmp_path: Path) -> None:
    session(tmp_path, "one", night=Night(date=DATE, anchor=None, anchor_session=None), judged=True)
    session(tmp_path, "by-day", judged=True)
    assert over(tmp_path) == "one"
    assert over(tmp_path, host(THERE)) is None
    assert over(tmp_path, candidate="another") is None


@pytest.mark.parametrize("how", ["aborted", "interrupted", "another date"])
def test_a_night_that_came_to_nothing_is_not(tmp_path: Path, how: str) -> None:
    date = "2026-11-29" if how == "another date" else DATE
    why = "stopped by the user or the system" if how == "interrupted" else None
    night = Night(date=date, anchor=None, anchor_session=None)
    session(tmp_path, "one", night=night, interrupted=why, judged=how != "aborted")
    assert over(tmp_path) is None
