"""Both reports say who signs, what dates the run, what else was run of these locks, and a broken ledger loudly."""

from __future__ import annotations

import html
import os
from pathlib import Path

import pytest

from harness.evidence.bundle import Bundle, write_record
from harness.evidence.ledger import FIRST, Content, LedgerProof, link
from harness.evidence.manifest import seal
from harness.judge.case import read_case
from harness.records import Signer
from harness.report.launches import failures
from harness.workflow import judge_and_report
from tests.judge.bundles import Session


def proof(fault: str | None) -> LedgerProof:
    own = Content(event="started", session="a-session", wall="2026-11-29T18:00:00+00:00")
    head = link(1, FIRST, own.sha256)
    return LedgerProof(first=1, previous=FIRST, chain=(own.sha256,), head=head, entries={1: own}, fault=fault)


def reports(folder: Path, fault: str | None, signer: Signer | None) -> tuple[str, str]:
    bundle = Session(folder, {"plan.challenge": "https://forge.example/#1"}).build()
    write_record(bundle.ledger_file, proof(fault))
    write_record(bundle.run_file, bundle.run().model_copy(update={"signer": signer}))
    judge_and_report(bundle)
    page = html.unescape((bundle.report_dir / "report.html").read_text("utf-8"))
    return (bundle.report_dir / "report.md").read_text("utf-8"), page


@pytest.mark.parametrize("fault", [None, "line 7 does not follow the line before it"])
def test_what_is_said_of_the_evidence_itself(tmp_path: Path, fault: str | None) -> None:
    for text in reports(tmp_path, fault, Signer(key_id="ab12" * 16, public="PEM")):
        assert "signed by key ab12ab12ab12" in text
        assert "https://forge.example/#1" in text
        assert "1 session of these locks here: 1 " in text
        loud = "the session ledger of this host is broken (line 7 does not follow the line before it)"
        assert (loud in text) == (fault is not None)


def test_a_host_without_a_key_is_said_to_have_none(tmp_path: Path) -> None:
    for text in reports(tmp_path, None, None):
        assert "unsigned" in text
        assert "signed by key" not in text


def test_a_bundle_that_was_never_sealed_is_said_to_be_none_in_both(tmp_path: Path) -> None:
    """The machine went away: the root is one of files that no SHA256SUMS lists."""
    bundle = Session(tmp_path).build()
    judge_and_report(bundle)
    text = (bundle.report_dir / "report.md").read_text("utf-8")
    assert "- ⚠ not sealed: the bundle holds no SHA256SUMS" in text
    assert "of the files as they lie here, **not sealed**" in text
    assert "(SHA-256 of `SHA256SUMS`)" not in text
    page = html.unescape((bundle.report_dir / "report.html").read_text("utf-8"))
    assert "not sealed: the bundle holds no SHA256SUMS" in page
    assert ", not sealed</dd>" in page
    seal(bundle.root)
    judge_and_report(bundle)
    for file in ("report.md", "report.html"):
        assert "not sealed" not in (bundle.report_dir / file).read_text("utf-8")


def interrupted(folder: Path) -> tuple[Bundle, str]:
    """The harness was killed in the candidate's launch, whose name is given."""
    bundle = Session(folder).candidate(ended=False, interrupted=True, ends_after=2).build()
    [name] = [x.id for x in bundle.plan().launches if x.arm == "candidate"]
    record = bundle.launch(name).record()
    assert record is not None
    write_record(bundle.launch(name).record_file, record.model_copy(update={"exit": None}))
    return bundle, name


def test_a_launch_that_the_harness_did_not_see_end_shows_what_its_log_holds(tmp_path: Path) -> None:
    bundle, name = interrupted(tmp_path)
    judge_and_report(bundle)
    text = (bundle.report_dir / "report.md").read_text("utf-8")
    last = bundle.launch(name).log_file.read_text("utf-8").splitlines()[-1]
    told = "interrupted: its record has no end: the harness was gone before (exit not recorded; launches/"
    assert f"**{name}**: {told}" in text
    assert f"Last lines of the log of {name}" in text
    page = html.unescape((bundle.report_dir / "report.html").read_text("utf-8"))
    assert "No line of its log was kept" not in page
    assert last in page


def test_a_log_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    bundle, name = interrupted(tmp_path)
    bundle.launch(name).log_file.unlink()
    os.mkfifo(bundle.launch(name).log_file)
    assert [f.log_tail for f in failures(read_case(bundle))] == [""]
