"""What a reader gets with pandas: the verdict's own figures, of the right types, nothing for what was not obtained."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest

from harness.judge.case import Case
from harness.judge.rates import first_token_s, median
from harness.records import Verdict
from harness.report import write_report
from harness.report.tables import TABLES
from harness.report.tables.columns import Table
from harness.report.tables.rows import number_in
from harness.report.tables.write import EXPLAINED, csv_bytes, explained, frame, parquet_bytes, write_tables
from harness.words import Step, Word

Judged = tuple[Case, Verdict]


@pytest.fixture(scope="module")
def folder(sound: Judged, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of a session without a fault."""
    root = tmp_path_factory.mktemp("tables")
    write_tables(root, *sound)
    return root / "tables"


def read(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(folder / f"{name}.parquet")


def of(table: str, judged: Judged) -> pd.DataFrame:
    """One table of a session as a reader gets it."""
    [found] = [t for t in TABLES if t.name == table]
    return pd.read_parquet(io.BytesIO(parquet_bytes(found, frame(found, *judged))))


# --- files ---------------------------------------------------------------------------------------------------


def test_every_table_is_there_in_its_forms_and_explained(folder: Path) -> None:
    expected = {f"{t.name}.parquet" for t in TABLES} | {f"{t.name}.csv" for t in TABLES if t.csv} | {EXPLAINED}
    assert {p.name for p in folder.iterdir()} == expected
    assert (folder / EXPLAINED).read_text("utf-8") == explained()


def test_the_same_evidence_gives_the_same_bytes(sound: Judged, folder: Path, tmp_path: Path) -> None:
    write_tables(tmp_path, *sound)
    for path in folder.iterdir():
        assert (tmp_path / "tables" / path.name).read_bytes() == path.read_bytes(), path.name


def test_a_parquet_file_does_not_name_the_version_of_pandas(folder: Path) -> None:
    for path in folder.glob("*.parquet"):
        assert b"pandas_version" not in path.read_bytes()
        assert b"creator" not in path.read_bytes()


def test_a_report_brings_its_tables_and_links_them(sound: Judged) -> None:
    case, verdict = sound
    page = write_report(case.bundle, verdict, case)
    assert 'href="tables/README.md"' in page.read_text("utf-8")
    assert (page.parent / "tables" / "rows.parquet").is_file()


# --- types ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_every_column_has_its_type_when_it_is_read_again(folder: Path, table: Table) -> None:
    found = read(folder, table.name)
    assert {name: str(kind) for name, kind in found.dtypes.items()} == {c.name: c.kind.dtype for c in table.columns}
    assert len(found) > 0 or table.name == "gpu_memory"


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_a_table_without_rows_has_its_types_all_the_same(sound: Judged, table: Table) -> None:
    case, _ = sound
    empty = Table(table.name, table.about, lambda *_: (), table.columns)
    found = pd.read_parquet(io.BytesIO(parquet_bytes(empty, frame(empty, *sound))))
    assert case.plan.launches
    assert {name: str(kind) for name, kind in found.dtypes.items()} == {c.name: c.kind.dtype for c in table.columns}


@pytest.mark.parametrize("table", [t for t in TABLES if t.csv], ids=lambda t: t.name)
def test_a_csv_says_the_same_as_its_parquet(folder: Path, table: Table) -> None:
    kinds = {c.name: c.kind.dtype for c in table.columns}
    again = pd.read_csv(folder / f"{table.name}.csv", dtype=kinds)
    pd.testing.assert_frame_equal(again, read(folder, table.name))


def test_what_was_not_obtained_is_missing_and_never_0(hostile: Judged) -> None:
    launches = of("launches", hostile).set_index("arm")
    assert launches["start_up"].isna().to_dict() == {"control": False, "candidate": True}
    assert launches["status"].to_dict() == {"control": "completed", "candidate": "failed"}
    assert not (launches["start_up"] == 0).any()
    rows = of("rows", hostile)
    for column in ("control_value", "candidate_value", "change", "pairs"):
        assert not (rows[column].isna() & (rows[column] == 0)).any()
        assert rows[column].isna().any()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=cmd|'/C calc'!A0", "'=cmd|'/C calc'!A0"),
        ("@SUM(1)", "'@SUM(1)"),
        ("-cmd", "'-cmd"),
        ("+0 / +0", "+0 / +0"),
        ("- / 12.5", "- / 12.5"),
        ("-3.1 %", "-3.1 %"),
        ("a=b", "a=b"),
    ],
)
def test_a_spreadsheet_finds_no_formula_in_a_csv(text: str, shown: str) -> None:
    found = pd.DataFrame({"x": pd.Series([text, None], dtype="string"), "n": pd.Series([1, 2], dtype="Int64")})
    assert pd.read_csv(io.BytesIO(csv_bytes(found)), dtype="string")["x"].tolist()[0] == shown
    assert found["x"].tolist()[0] == text


# --- figures -------------------------------------------------------------------------------------------------


def test_rows_are_the_verdict_s(sound: Judged, folder: Path) -> None:
    _, verdict = sound
    rows = read(folder, "rows")
    assert list(rows["row"]) == list(range(len(verdict.rows)))
    for field in ("name", "mode", "cache", "word", "control", "candidate", "context_tokens", "cell_sha256"):
        told = [None if pd.isna(x) else x for x in rows[field]]
        assert told == [None if (x := getattr(r, field)) is None else x for r in verdict.rows], field
    for side in ("control", "candidate"):
        told = [None if pd.isna(x) else x for x in rows[f"{side}_value"]]
        assert told == [None if "sha" in r.unit else number_in(getattr(r, side)) for r in verdict.rows]


def test_medians_of_the_passes_are_the_verdict_s_figures(sound: Judged, folder: Path) -> None:
    _, verdict = sound
    passes = read(folder, "passes")
    for row in (r for r in verdict.rows if r.name in ("prefill", "decode steps")):
        for arm in ("control", "candidate"):
            own = passes[(passes["metric"] == row.name) & (passes["arm"] == arm)]
            own = own[own["context_tokens"] == row.context_tokens]
            assert f"{own['median'].iloc[0]:,.1f}" == getattr(row, arm)
            assert own["median"].iloc[0] == median(list(own["value"]))
    assert set(passes["metric"]) == {"prefill", "decode", "decode steps"}


def test_a_pass_that_is_void_has_a_reason_and_no_value(faulty: Judged) -> None:
    passes = of("passes", faulty)
    void = passes[passes["value"].isna()]
    assert list(void["metric"]) == ["prefill"]
    assert "prefix" in void["fault"].iloc[0]
    assert void["median"].isna().all()
    assert passes["fault"].isna().sum() == len(passes) - 1


def test_start_up_adds_up_to_the_launch_s(folder: Path) -> None:
    launches, start_up = read(folder, "launches"), read(folder, "start_up")
    total = start_up.groupby("launch")["duration"].sum()
    assert list(total) == pytest.approx(list(launches.set_index("launch")["start_up"]), abs=1e-9)
    assert "unexplained" in set(start_up["phase"])


def test_every_request_of_every_window_is_there(sound: Judged, folder: Path) -> None:
    case, _ = sound
    requests = read(folder, "requests")
    known = [(x, w, r) for x in case.launches.values() for w in x.windows for r in w.requests]
    assert len(requests) == len(known)
    assert list(requests["ttft"]) == [first_token_s(r) for _, _, r in known]
    assert (requests["first_token"] - requests["sent"]).to_list() == pytest.approx(list(requests["ttft"]))
    assert requests["complete"].all()
    prefill = requests[requests["step"] == Step.PREFILL]
    assert (prefill["prompt_tokens"] / prefill["ttft"]).to_list() == pytest.approx(list(prefill["prefill_rate"]))
    assert prefill["decode_rate"].isna().all()


def test_memory_is_there_as_it_was_sampled(sound: Judged, folder: Path) -> None:
    case, _ = sound
    memory = read(folder, "host_memory")
    for name, launch in case.launches.items():
        own = memory[memory["launch"] == name]
        assert tuple(own["rss"].dropna()) == launch.host_memory.rss.mib
        assert len(own) == len(launch.host_memory.rss.times_ns)


def test_identity_compares_every_answer_with_the_control_s(sound: Judged, folder: Path) -> None:
    _, verdict = sound
    identity = read(folder, "identity")
    [row] = [r for r in verdict.rows if r.name == "identity, candidate vs control"]
    assert row.word is Word.PASS
    assert identity["same"].all()
    assert identity["first_difference"].isna().all()
    assert set(identity["pass"]) == {0, 1}


def test_the_ledger_is_there_line_by_line(sound: Judged, folder: Path) -> None:
    case, _ = sound
    lines = read(folder, "late_jit")
    assert len(lines) == sum(len(x.lines) for x in case.ledgers.values())
    assert int(lines["count"].sum()) == sum(line.count for x in case.ledgers.values() for line in x.lines)


def test_what_strangers_wrote_is_as_public_as_in_the_reports(hostile: Judged, tmp_path: Path) -> None:
    write_tables(tmp_path, *hostile)
    texts = [p.read_text("utf-8") for p in (tmp_path / "tables").glob("*.csv")]
    texts += [of(t.name, hostile).to_csv() for t in TABLES]
    for private in ("somebody", "hf_0123456789abcdefghij", "\x1b", "\u202e"):
        assert not [text for text in texts if private in text], private
