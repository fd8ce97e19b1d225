"""Anchors: accepted by somebody for a reason, in a chain that only grows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import BundleError, ConfigError
from harness.evidence.bundle import Bundle
from harness.evidence.manifest import root_hash
from harness.history.anchors import accept, anchor_of, anchors_file, read_anchors
from harness.words import ExitCode

from .bench import session


def accepted(bundle: Bundle, reason: str = "the release") -> str:
    return accept(bundle, reason=reason, who="somebody", when="2026-11-30T08:00:00+00:00").sha256


def test_an_anchor_says_what_it_is_who_took_it_when_and_why(results: Path) -> None:
    bundle = session(results, "one", judged=True)
    accepted(bundle)
    [anchor] = read_anchors()
    assert (anchor.profile, anchor.session, anchor.root_sha256) == ("cpu-forged", "one", root_hash(bundle.root))
    assert (anchor.stack, anchor.engine_version) == ("candidate", "0.32.0")
    assert (anchor.reason, anchor.who, anchor.when) == ("the release", "somebody", "2026-11-30T08:00:00+00:00")
    assert anchor.previous_sha256 is None


def test_former_anchors_stay_in_the_chain(results: Path) -> None:
    first = accepted(session(results, "one", judged=True))
    accepted(session(results, "two", judged=True), "faster")
    chain = read_anchors()
    assert [a.session for a in chain] == ["one", "two"]
    assert chain[1].previous_sha256 == first
    assert anchor_of("cpu-forged") == chain[1]
    assert anchor_of("rtx5090") is None


def test_a_reason_is_required_and_a_void_session_is_no_anchor(results: Path) -> None:
    with pytest.raises(ConfigError, match="--reason is empty"):
        accept(session(results, "one", judged=True), reason="  ", who="x", when="y")
    void = session(results, "void", judged=True, interrupted="stopped by the user or the system")
    with pytest.raises(ConfigError, match="void came to void: it measured nothing"):
        accepted(void)
    assert read_anchors() == []


def test_a_candidate_that_never_served_is_no_anchor(results: Path) -> None:
    bundle = session(results, "one", judged=True)
    for record in bundle.root.glob("launches/*-candidate-*/launch.json"):
        record.write_text(record.read_text("utf-8").replace('"completed"', '"failed"'), "utf-8")
    with pytest.raises(BundleError, match="run `qualify judge` on it"):
        accepted(bundle)
    tree = json.loads(bundle.verdict_file.read_bytes())
    bundle.verdict_file.write_text(json.dumps(tree | {"evidence_root_sha256": root_hash(bundle.root)}), "utf-8")
    with pytest.raises(ConfigError, match="no launch of the candidate of one ran to its end"):
        accepted(bundle)


@pytest.mark.parametrize("edit", ["drop", "change"])
def test_a_chain_that_was_edited_is_refused_by_its_line(results: Path, edit: str) -> None:
    for name in ("one", "two", "three"):
        accepted(session(results, name, judged=True))
    lines = anchors_file().read_text("utf-8").splitlines()
    if edit == "drop":
        del lines[1]
    else:
        lines[0] = lines[0].replace("the release", "another reason")
    anchors_file().write_text("\n".join(lines) + "\n", "utf-8")
    with pytest.raises(BundleError, match=r"anchors\.jsonl:2: does not follow the record before it"):
        read_anchors()


def test_the_command_takes_a_name_or_a_folder_and_the_list_shows_the_reason(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = session(results, "one", judged=True)
    assert main(["history", "accept", "one", "--reason", "r31 is out", "--by", "me"]) == ExitCode.PASS
    assert capsys.readouterr().out == "anchor 1 of cpu-forged: candidate of one (pass)\n"
    assert main(["history", "accept", str(bundle.root), "--reason", "again", "--by", "me"]) == ExitCode.PASS
    assert main(["history", "list"]) == ExitCode.PASS
    listed = capsys.readouterr().out
    assert "former 1  cpu-forged: candidate of one, by me " in listed
    assert "anchor 2  cpu-forged: candidate of one, by me " in listed
    assert ": r31 is out" in listed
    with pytest.raises(SystemExit):
        main(["history", "accept", "one"])
