"""An export holds nothing private that the rules know, and of it the judge says what it says of the original."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from harness.cli import main
from harness.errors import BundleError
from harness.evidence.bundle import Bundle, read_record, write_record
from harness.evidence.exported import EXPORT_SUMS, laid_out
from harness.evidence.manifest import MANIFEST, manifest_text, root_hash, seal
from harness.evidence.originals import ORIGINALS, Originals, read_originals
from harness.evidence.redaction.kinds import Kind
from harness.evidence.redaction.redactor import Redactor
from harness.evidence.staging import stage
from harness.exporting import Exported, export, export_lines
from harness.judge.case import read_case
from harness.judge.verdict import judge
from harness.records import Plan
from harness.verification.layout import layout
from harness.verification.sealing import check_statements
from harness.verification.verify import verify
from harness.workflow import judge_and_report
from tests.evidence.private_bundles import PLACES, TEXT, every_byte, left_in, private_bundle
from tests.judge.test_nights import with_nights
from tests.report.bundles import make_bundle, plan


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A judged session on whose machine everything private shows everywhere."""
    bundle = private_bundle(tmp_path_factory.mktemp("private") / "bundle", *PLACES)
    judge_and_report(bundle)
    return bundle


@pytest.fixture(scope="module")
def exported(original: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Its export, as a folder."""
    return export(original, tmp_path_factory.mktemp("exported") / "e", "dir", words=("tiny-mtp",))


@pytest.fixture
def copy(exported: Exported, tmp_path: Path) -> Path:
    """An export that a test may damage."""
    return Path(shutil.copytree(exported.output, tmp_path / "e"))


def originals_of(folder: Path) -> Originals:
    found = read_originals(folder)
    assert found is not None
    return found


# --- nothing private is left ---------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_what_shows_in_one_place_alone_is_gone(tmp_path: Path, place: str) -> None:
    bundle = private_bundle(tmp_path / "bundle", place)
    assert left_in(bundle.root)
    redactor = Redactor()
    staged = stage(bundle.root, tmp_path / "staged", redactor)
    assert left_in(tmp_path / "staged") == []
    assert set(staged.removed) == set(Kind) - {Kind.WORD}


def test_nothing_is_left_in_any_file_of_the_export(exported: Exported) -> None:
    assert left_in(exported.output) == []
    assert not [name for name, data in every_byte(exported.output) if b"tiny-mtp" in data or b"jdoe" in data]


@pytest.mark.parametrize("private", ["hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ", "jo.doe@example.org", "192.168.3.4", "falcon"])
def test_a_file_that_is_named_after_it_is_not_exported(tmp_path: Path, private: str) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    (bundle.launch(plan().launches[0].id).root / f"of-{private}.txt").write_text("x")
    with pytest.raises(BundleError, match="this file's name holds a") as caught:
        export(bundle, tmp_path / "e", "dir", words=("falcon",))
    assert private not in str(caught.value)
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize("name", ["statement.intoto.json", "statement.intoto.json.dsse", "ledger.json", "pipe/1.jsonl"])
def test_what_is_signed_cannot_be_redacted_so_the_place_is_named(tmp_path: Path, name: str) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    (bundle.root / name).parent.mkdir(exist_ok=True)
    (bundle.root / name).write_text('{\n"by": "/home/hannelore/x"}', "utf-8")
    with pytest.raises(BundleError, match=rf"^{name}: line 2 holds a user\."):
        export(bundle, tmp_path / "e", "dir")
    assert not (tmp_path / "e").exists()


def test_source_code_stays_as_its_lock_names_it_but_not_with_a_token_in_it(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    patch = bundle.root / "locks" / "candidate" / "vllm" / "integration.patch"
    patch.parent.mkdir(parents=True)
    patch.write_text("+# written by jo@example.org\n")
    (bundle.root / "pytest.log").write_text("mail jo@example.org\n")
    export(bundle, tmp_path / "one", "dir")
    assert (tmp_path / "one" / patch.relative_to(bundle.root)).read_bytes() == patch.read_bytes()
    assert not [
        name for name, data in every_byte(tmp_path / "one") if b"jo@example" in data and name.endswith("log.zst")
    ]
    patch.write_text("+token = 'ghp_0123456789abcdefghijABCDEFGHIJ012345'\n")
    with pytest.raises(BundleError, match=r"integration\.patch: line 1 holds a token"):
        export(bundle, tmp_path / "two", "dir")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    (bundle.root / "link").symlink_to("/etc/hostname")
    with pytest.raises(BundleError, match="is a link"):
        export(bundle, tmp_path / "e", "dir")


# --- what a user is told -------------------------------------------------------------------------------------


def test_the_user_is_told_what_went_and_that_rules_find_what_they_know(exported: Exported) -> None:
    lines = export_lines(exported)
    told = {kind: next(x for x in lines if x.startswith(f"removed: {kind}, ")) for kind in Kind}
    assert told[Kind.UUID].startswith("removed: GPU UUID, 2 different in ")
    assert any("Rules can only find what they know" in line for line in lines)
    assert any("can only be checked by whoever holds the original" in line for line in lines)


def test_a_secret_that_no_rule_knows_is_not_claimed(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    (bundle.root / "pytest.log").write_text("the codeword is Rosebud\n")
    lines = export_lines(export(bundle, tmp_path / "e", "dir"))
    assert not any("token" in x or "secret" in x for x in lines if x.startswith("removed: "))
    again = export_lines(export(bundle, tmp_path / "f", "dir", words=("Rosebud",)))
    assert "removed: word, 1 different in 1 places" in again
    assert not [name for name, data in every_byte(tmp_path / "f") if b"osebud" in data]


def test_files_into_which_no_rule_can_look_are_named(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    (bundle.root / "core.gz").write_bytes(b"\x1f\x8b")
    exported = export(bundle, tmp_path / "e", "dir")
    assert "not looked into, since it is compressed: core.gz" in export_lines(exported)


def test_the_map_names_kind_and_place_and_nothing_of_what_went(exported: Exported) -> None:
    files = originals_of(exported.output).files
    log = files[f"launches/{plan().launches[0].id}/server.log"]
    assert log.form == "zst"
    assert {r.kind for r in log.redactions} >= {Kind.TOKEN, Kind.USER, Kind.KEY, Kind.ADDRESS}
    [users] = [r for r in log.redactions if r.kind is Kind.USER]
    assert users.where.startswith("lines 2, ")
    [uuids] = [r for r in files[f"launches/{plan().launches[0].id}/gpu.parquet"].redactions if r.kind is Kind.UUID]
    assert (uuids.where, uuids.count) == ("column gpu", 2)
    assert set(json.loads((exported.output / ORIGINALS).read_bytes())["files"]["junit.xml"]["redactions"][0]) == {
        "kind",
        "where",
        "count",
    }


# --- the same verdict ----------------------------------------------------------------------------------------


def test_the_judge_says_the_same_of_the_export(original: Bundle, exported: Exported, tmp_path: Path) -> None:
    root, mismatches = laid_out(exported.output, tmp_path / "again")
    assert mismatches == []
    rows, again = original.verdict().rows, judge(Bundle(root)).rows
    text, again_text = ("\n".join(r.model_dump_json() for r in x) for x in (rows, again))
    assert text == again_text
    assert judge(Bundle(root)).evidence_root_sha256 == original.verdict().evidence_root_sha256


def test_the_manifest_follows_from_the_originals(original: Bundle, exported: Exported, tmp_path: Path) -> None:
    root, _ = laid_out(exported.output, tmp_path / "again")
    assert manifest_text(root) == (original.root / MANIFEST).read_text("utf-8")
    assert originals_of(exported.output).root_sha256 == root_hash(root) == root_hash(original.root)


def test_verdict_and_report_of_the_export_follow_from_it(exported: Exported, tmp_path: Path) -> None:
    root, _ = laid_out(exported.output, tmp_path / "again")
    before = {p.name: p.read_bytes() for p in [root / "verdict.json", *(root / "report").iterdir()] if p.is_file()}
    judge_and_report(Bundle(root))
    assert {
        name: (root / "report" / name if name != "verdict.json" else root / name).read_bytes() for name in before
    } == before


def test_a_cell_keeps_its_identity_though_its_environment_was_redacted(tmp_path: Path) -> None:
    frozen = plan()
    serve = frozen.profile.serve.model_copy(update={"env": {"PYTHONPATH": "/home/hannelore/site"}})
    private = frozen.model_copy(update={"profile": frozen.profile.model_copy(update={"serve": serve})})
    bundle = make_bundle(tmp_path / "bundle", of=private)
    verdict = judge_and_report(bundle)[0].verdict
    export(bundle, tmp_path / "e", "dir")
    root, _ = laid_out(tmp_path / "e", tmp_path / "again")
    assert "hannelore" not in (root / "plan.json").read_text("utf-8")
    assert judge(Bundle(root)) == verdict
    assert any(row.cell_sha256 for row in verdict.rows)


def test_nights_are_of_the_same_cell_though_its_environment_was_redacted(tmp_path: Path) -> None:
    private = {"serve.env": {"PYTHONPATH": "/home/hannelore/site"}}
    bundle = with_nights(tmp_path, [0.001, -0.001] * 4, overrides=private)
    seal(bundle.root)
    verdict = judge_and_report(bundle)[0].verdict
    export(bundle, tmp_path / "e", "dir")
    root, _ = laid_out(tmp_path / "e", tmp_path / "again")
    assert "hannelore" not in (root / "plan.json").read_text("utf-8")
    again = judge(Bundle(root))
    assert again == verdict
    assert not [r for r in again.rows if "of another cell" in r.reason]


def test_a_lock_that_was_redacted_is_read_and_keeps_the_hash_of_its_original(
    original: Bundle, exported: Exported, tmp_path: Path
) -> None:
    root, _ = laid_out(exported.output, tmp_path / "again")
    locks, again = read_case(original).stack_locks, read_case(Bundle(root)).stack_locks
    assert {a: x.sha256 for a, x in again.items()} == {a: x.sha256 for a, x in locks.items()}
    assert all(x.components[0].repository != TEXT for x in again.values())


def test_a_word_that_the_judge_needs_is_refused_not_exported_with_another_verdict(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    judge_and_report(bundle)
    with pytest.raises(BundleError):
        export(bundle, tmp_path / "e", "dir", words=("decode",))
    assert not (tmp_path / "e").exists()


def test_a_verdict_of_another_harness_is_refused_with_what_mends_it(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    verdict = judge_and_report(bundle)[0].verdict
    edited = verdict.model_copy(
        update={"rows": (verdict.rows[0].model_copy(update={"unit": "furlongs"}), *verdict.rows[1:])}
    )
    write_record(bundle.verdict_file, edited)
    with pytest.raises(
        BundleError, match=r"another verdict than this one \(rows\.0\.unit, .*run `qualify judge` first"
    ):
        export(bundle, tmp_path / "e", "dir")


def test_the_original_is_not_changed(original: Bundle, exported: Exported) -> None:
    assert exported.output.is_dir()
    assert root_hash(original.root) == hashlib.sha256((original.root / MANIFEST).read_bytes()).hexdigest()
    assert TEXT in (original.root / "pytest.log").read_text("utf-8")


# --- archives ------------------------------------------------------------------------------------------------


def test_every_form_holds_the_same_files_twice_the_same_bytes(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    for form in ("tar.zst", "zip", "dir"):
        for n in "12":
            export(bundle, tmp_path / f"{n}.{form}", form)
    session = bundle.plan().session
    folder = {
        p.relative_to(tmp_path / "1.dir").as_posix(): p.read_bytes()
        for p in (tmp_path / "1.dir").rglob("*")
        if p.is_file()
    }
    plain = zstandard.ZstdDecompressor().stream_reader((tmp_path / "1.tar.zst").read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        members = archive.getmembers()
        in_tar = {m.name: archive.extractfile(m).read() for m in members}  # type: ignore[union-attr]
    with zipfile.ZipFile(tmp_path / "1.zip") as zipped:
        in_zip = {name: zipped.read(name) for name in zipped.namelist()}
    assert in_tar == in_zip == {f"{session}/{name}": data for name, data in folder.items()}
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime, m.mode) for m in members} == {(0, 0, "", "", 0, 0o644)}
    for form in ("tar.zst", "zip"):
        assert (tmp_path / f"1.{form}").read_bytes() == (tmp_path / f"2.{form}").read_bytes()


def test_the_command_writes_beside_the_user_and_nothing_over_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(bundle.root)]) == 0
    output = tmp_path / f"{bundle.plan().session}.export.tar.zst"
    assert capsys.readouterr().out.startswith(f"{output.name}: 0.0")
    assert main(["export", str(bundle.root)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_judge_and_report_of_an_export_lay_it_out_beside_it(
    copy: Path, original: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["judge", str(copy)])
    assert code == original.verdict().exit_code
    assert str(copy.with_name("e.unpacked")) in capsys.readouterr().out
    assert main(["report", str(copy)]) == 0
    assert main(["export", str(copy.with_name("e.unpacked"))]) == 2
    assert "was made from an export" in capsys.readouterr().err


def test_an_export_that_is_not_as_it_says_is_not_laid_out(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "run.json").write_bytes((copy / "run.json").read_bytes().replace(b"a CPU", b"a GPU"))
    assert main(["judge", str(copy)]) == 2
    assert "run.json: SHA-256" in capsys.readouterr().err
    assert not copy.with_name("e.unpacked").exists()


def test_statements_over_a_lock_that_was_redacted_are_checked_all_the_same(exported: Exported) -> None:
    outcome = verify(str(exported.output), layout=layout, checks=(("statements", check_statements),))
    assert [str(m) for m in outcome.mismatches] == []
    assert [found.told for _, found in outcome.found] == [("statements fit the evidence, unsigned",)]


def test_a_plan_is_read_where_nothing_was_laid_out(copy: Path) -> None:
    assert read_record(copy / "plan.json", Plan).session == plan().session


def test_an_unjudged_session_is_exported_without_a_verdict(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    export(bundle, tmp_path / "e", "dir")
    assert not (tmp_path / "e" / "verdict.json").exists()
    root, mismatches = laid_out(tmp_path / "e", tmp_path / "again")
    assert mismatches == []
    assert root_hash(root) == seal(bundle.root)
    assert (tmp_path / "e" / EXPORT_SUMS).is_file()
