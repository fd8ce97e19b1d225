"""Both reports say who signs, what dates the run, what else was run of these locks, and a broken ledger loudly."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from harness.evidence.bundle import write_record
from harness.evidence.ledger import FIRST, Content, LedgerProof, link
from harness.records import Signer
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
