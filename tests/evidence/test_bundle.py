"""Records on disk: written whole or not at all, read back with a clear word for what is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import BundleError
from harness.evidence.bundle import (
    Bundle,
    append_record,
    read_lines,
    read_record,
    write_atomically,
    write_json,
    write_record,
)
from harness.records import SCHEMA_VERSION, CheckRecord, HostFacts, OutputRecord, Plan, Run
from harness.session.plan import make_plan
from harness.words import Arm, ExitCode
from tests.judge.bundles import run_record, small_profile, stack


def check(name: str = "a check", message: str = "") -> CheckRecord:
    return CheckRecord(name=name, context_tokens=None, outcome="passed", message=message)


def refusal(path: Path, kind: type[Run | Plan | CheckRecord]) -> str:
    with pytest.raises(BundleError) as caught:
        read_record(path, kind)
    assert caught.value.exit_code == ExitCode.USAGE
    return str(caught.value)


# --- writing -----------------------------------------------------------------------------------------


def test_a_file_is_written_with_the_folders_on_its_way(tmp_path: Path) -> None:
    write_atomically(tmp_path / "locks" / "deep" / "x.json", b"{}")
    assert [p.name for p in (tmp_path / "locks" / "deep").iterdir()] == ["x.json"]


@pytest.mark.parametrize("before", [None, b"the old one"])
@pytest.mark.parametrize("failing", ["fsync", "rename"])
def test_a_write_that_fails_leaves_the_old_file_and_no_part_of_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None, failing: str
) -> None:
    path = tmp_path / "plan.json"
    if before is not None:
        path.write_bytes(before)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if failing == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"the new one")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == ([("plan.json", before)] if before else [])


def test_a_write_that_is_interrupted_leaves_no_part_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "x", b"y")
    assert not list(tmp_path.iterdir())


def test_json_is_for_people_and_diffs(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"b": 1, "a": ["ä"]})
    assert (tmp_path / "x.json").read_text("utf-8") == '{\n "b": 1,\n "a": [\n  "ä"\n ]\n}\n'


# --- reading back ------------------------------------------------------------------------------------


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    write_record(tmp_path / "run.json", run_record("ctrl-c"))
    assert Bundle(tmp_path).run() == run_record("ctrl-c")


def test_a_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    plan = make_plan("s", small_profile(), stack("one"), stack("two", {"wrong_drafts": 0.5}, max_model_len=512))
    write_record(Bundle(tmp_path).plan_file, plan)
    again = Bundle(tmp_path).plan()
    assert again == plan
    assert (again.stack(Arm.CONTROL).name, again.stack(Arm.CANDIDATE).name) == ("one", "two")


outputs = st.builds(
    OutputRecord,
    request=st.text(max_size=8),
    token_ids=st.lists(st.integers(0, 2**31), max_size=5).map(tuple),
    text=st.text(max_size=20),
    finish_reason=st.none() | st.just("length"),
    sha256=st.just("a" * 64),
    top_logprobs=st.none()
    | st.lists(
        st.dictionaries(st.text(max_size=4), st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=3),
        max_size=2,
    ).map(tuple),
)


@given(st.lists(outputs, max_size=4))
def test_lines_come_back_as_they_were_whatever_the_model_wrote(
    tmp_path_factory: pytest.TempPathFactory, records: list[OutputRecord]
) -> None:
    path = tmp_path_factory.mktemp("lines") / "outputs.jsonl"
    for record in records:
        append_record(path, record)
    assert list(read_lines(path, OutputRecord)) == records


def test_a_missing_file_of_lines_has_none(tmp_path: Path) -> None:
    assert list(read_lines(tmp_path / "requests.jsonl", CheckRecord)) == []


def test_a_launch_that_never_began_has_no_record(tmp_path: Path) -> None:
    assert Bundle(tmp_path).launch("001-x").record() is None


# --- what is wrong, and where ------------------------------------------------------------------------


def test_a_missing_record_is_named_with_what_it_should_be(tmp_path: Path) -> None:
    assert refusal(tmp_path / "run.json", Run) == (
        f"{tmp_path}/run.json: cannot be read (No such file or directory); is this a bundle of `qualify run`?"
    )


@pytest.mark.parametrize("data", [b"", b"{", b'{"a": 1} x', b"\xff\xfe"])
def test_a_record_that_is_no_json_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "run.json").write_bytes(data)
    assert refusal(tmp_path / "run.json", Run).startswith(f"{tmp_path}/run.json: not valid JSON (")


@pytest.mark.parametrize("tree", [[], 3, None, "text"])
def test_json_that_is_no_record_is_named(tmp_path: Path, tree: object) -> None:
    write_json(tmp_path / "run.json", tree)
    assert refusal(tmp_path / "run.json", Run).startswith(f"{tmp_path}/run.json: not a Run: ")


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 99])
def test_a_newer_schema_is_refused_with_what_mends_it(tmp_path: Path, version: int) -> None:
    tree = run_record(None).model_dump(mode="json") | {"schema_version": version, "a field of tomorrow": 1}
    write_json(tmp_path / "run.json", tree)
    assert refusal(tmp_path / "run.json", Run) == (
        f"{tmp_path}/run.json: schema {version} is newer than this harness knows ({SCHEMA_VERSION}); update the harness"
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"host": {"cores": "many"}}, "host"),
        ({"unknown": 1}, "unknown"),
        ({"started_wall": None}, "started_wall"),
        ({"schema_version": "one"}, "schema_version"),
    ],
)
def test_a_broken_field_is_named(tmp_path: Path, change: dict[str, object], field: str) -> None:
    write_json(tmp_path / "run.json", run_record(None).model_dump(mode="json") | change)
    told = refusal(tmp_path / "run.json", Run)
    assert told.startswith(f"{tmp_path}/run.json: not a Run: `{field}")


def test_a_field_inside_a_field_is_named_by_its_path(tmp_path: Path) -> None:
    tree = run_record(None).model_dump(mode="json")
    tree["host"]["cores"] = "many"
    write_json(tmp_path / "run.json", tree)
    assert "`host.cores`" in refusal(tmp_path / "run.json", Run)


def test_a_record_is_frozen_and_knows_its_fields() -> None:
    with pytest.raises(ValueError, match="frozen"):
        check().name = "other"  # type: ignore[misc]
    with pytest.raises(ValueError, match="Extra inputs"):
        HostFacts.model_validate({**run_record(None).host.model_dump(), "hostname": "secret"})


# --- torn and broken lines ---------------------------------------------------------------------------


@given(st.integers(1, 60))
def test_a_torn_last_line_is_left_out(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("torn") / "checks.jsonl"
    for number in range(3):
        append_record(path, check(f"check {number}"))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - min(cut, len(data) // 3)])
    assert [c.name for c in read_lines(path, CheckRecord)] == ["check 0", "check 1"]


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"torn\n", b'{"name": "\xff"}\n', b"[1]\n"])
def test_a_whole_line_that_is_no_record_is_named_by_its_number(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "checks.jsonl"
    append_record(path, check())
    with path.open("ab") as stream:
        stream.write(line)
    append_record(path, check())
    with pytest.raises(BundleError, match=r"checks\.jsonl:2: not a CheckRecord: "):
        list(read_lines(path, CheckRecord))


def test_text_with_line_breaks_stays_on_its_line(tmp_path: Path) -> None:
    path = tmp_path / "checks.jsonl"
    append_record(path, check(message="one\ntwo\u2028three\r\n"))
    assert len(path.read_bytes().splitlines()) == 1
    assert [json.loads(x)["message"] for x in path.read_bytes().splitlines()] == ["one\ntwo\u2028three\r\n"]
    [again] = read_lines(path, CheckRecord)
    assert again.message == "one\ntwo\u2028three\r\n"
