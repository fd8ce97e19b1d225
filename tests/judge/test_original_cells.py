"""A cell keeps its identity in a bundle whose private words were removed: what `originals.json` says of it is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BundleError
from harness.evidence.bundle import Bundle, write_json
from harness.evidence.originals import ORIGINALS, ORIGINALS_SCHEMA
from harness.judge.case import Case, read_case
from harness.judge.cell_identity import planned_sha256
from harness.judge.verdict import judge_case

from .bundles import Session

OTHER = "f" * 64


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Session(tmp_path).build()


def exported(bundle: Bundle, cells: dict[str, str]) -> Case:
    """The case of a bundle that says so of the cells that it was made from."""
    write_json(
        bundle.root / ORIGINALS,
        {
            "schema_version": ORIGINALS_SCHEMA,
            "session": "a-session",
            "root_sha256": "0" * 64,
            "note": "",
            "files": {},
            "cells": cells,
        },
    )
    return read_case(bundle)


def hashes(case: Case) -> list[str]:
    """Of the rows that belong to a cell, in their order."""
    return [row.cell_sha256 for row in judge_case(case).rows if row.cell_sha256 is not None]


def test_a_bundle_as_it_was_measured_has_none(bundle: Bundle) -> None:
    case = read_case(bundle)
    assert case.original_cells == {}
    assert len(set(hashes(case))) > 1


def test_a_redacted_cell_has_the_hash_of_its_original_in_every_row_and_the_others_keep_theirs(bundle: Bundle) -> None:
    derived = hashes(read_case(bundle))
    case = exported(bundle, {derived[0]: OTHER})
    assert case.original_cells == {derived[0]: OTHER}
    assert hashes(case) == [OTHER if sha256 == derived[0] else sha256 for sha256 in derived]


def test_the_planned_identity_by_which_history_pools_is_the_originals_too(bundle: Bundle) -> None:
    plain = read_case(bundle)
    [cell, *_] = plain.cells
    derived = planned_sha256(plain, cell, 96)
    assert planned_sha256(exported(bundle, {derived: OTHER}), cell, 96) == OTHER
    assert planned_sha256(exported(bundle, {OTHER: "e" * 64}), cell, 96) == derived


def test_an_export_that_removed_nothing_of_a_cell_changes_none(bundle: Bundle) -> None:
    derived = hashes(read_case(bundle))
    case = exported(bundle, {})
    assert case.original_cells == {}
    assert hashes(case) == derived


def test_originals_that_cannot_be_read_are_no_empty_ones(bundle: Bundle) -> None:
    case = read_case(bundle)
    (bundle.root / ORIGINALS).write_text("{}", "utf-8")
    with pytest.raises(BundleError, match=r"originals\.json: does not say what an export was made from"):
        _ = case.original_cells
