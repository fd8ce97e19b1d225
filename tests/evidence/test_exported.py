"""An export that a stranger hands in: every change is named, and nothing it holds harms who lays it out."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from harness.errors import BundleError, RefusedBundle
from harness.evidence.exported import EXPORT_SUMS, is_export, laid_out, note
from harness.evidence.mismatch import Mismatch
from harness.evidence.originals import LARGEST_BYTES, ORIGINALS, read_originals
from harness.evidence.packing import sums_text
from harness.exporting import export
from tests.evidence.private_bundles import private_bundle
from tests.report.bundles import make_bundle, plan

LOG = f"launches/{plan().launches[0].id}/server.log"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export whose log was redacted."""
    folder = tmp_path_factory.mktemp("whole")
    return export(private_bundle(folder / "bundle", "server.log", "samples"), folder / "e", "dir").output


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """One to damage."""
    return Path(shutil.copytree(whole, tmp_path / "e"))


def reseal(root: Path) -> None:
    """What whoever changed it does next: the export's own manifest fits again."""
    (root / EXPORT_SUMS).unlink()
    (root / EXPORT_SUMS).write_text(sums_text(root))


def edit(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change originals.json, and let the manifest fit."""
    tree = json.loads((root / ORIGINALS).read_bytes())
    change(tree)
    (root / ORIGINALS).write_text(json.dumps(tree), "utf-8")
    reseal(root)


def mismatches(root: Path, into: Path) -> list[str]:
    return [str(m) for m in laid_out(root, into)[1]]


# --- what is not as it says ----------------------------------------------------------------------------------


def test_a_whole_export_is_laid_out_without_a_mismatch(whole: Path, tmp_path: Path) -> None:
    root, found = laid_out(whole, tmp_path / "out")
    assert found == []
    assert is_export(whole)
    assert not is_export(root)
    assert (root / LOG).stat().st_size > 1000


def test_the_note_says_whose_hashes_only_the_original_shows(whole: Path) -> None:
    originals = read_originals(whole)
    assert originals is not None
    redacted = sum(bool(f.redactions) for f in originals.files.values())
    assert note(originals).startswith(
        f"{redacted} of {len(originals.files)} files were redacted: their originals' hashes"
    )
    assert "can only be checked by whoever holds the original" in note(originals)


def test_of_an_export_without_redactions_every_hash_is_checked(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    names = {p.relative_to(bundle.root).as_posix(): p for p in bundle.root.rglob("*") if p.is_file()}
    for path in names.values():
        if path.suffix != ".parquet":
            path.write_bytes(path.read_bytes().replace(b"somebody", b"root\x2fbody"))
    export(bundle, tmp_path / "e", "dir")
    originals = read_originals(tmp_path / "e")
    assert originals is not None
    told = f"Nothing was redacted: all {len(names)} files are the original's, and their hashes are checked."
    assert note(originals) == told


def test_a_changed_byte_of_any_file_is_named(whole: Path, tmp_path: Path) -> None:
    for number, path in enumerate(sorted(p for p in whole.rglob("*") if p.is_file())):
        copy = Path(shutil.copytree(whole, tmp_path / str(number)))
        damaged = copy / path.relative_to(whole)
        data = bytearray(damaged.read_bytes())
        data[len(data) // 2] ^= 1
        damaged.write_bytes(data)
        try:
            assert laid_out(copy, tmp_path / f"out-{number}")[1], path
        except BundleError as e:
            assert path.name.removesuffix(".zst") in str(e)  # noqa: PT017  # either is an answer


def test_a_changed_file_that_was_sealed_again_is_not_its_original(copy: Path, tmp_path: Path) -> None:
    (copy / "run.json").write_bytes((copy / "run.json").read_bytes().replace(b"a CPU", b"a GPU"))
    reseal(copy)
    [found] = laid_out(copy, tmp_path / "out")[1]
    assert (found.file, found.field) == ("run.json", "SHA-256")


def test_a_longer_or_shorter_redacted_log_is_not_its_original(copy: Path, tmp_path: Path) -> None:
    plain = zstandard.ZstdDecompressor().stream_reader((copy / f"{LOG}.zst").read_bytes()).read()
    (copy / f"{LOG}.zst").write_bytes(zstandard.compress(plain[:-1]))
    reseal(copy)
    [found] = laid_out(copy, tmp_path / "out")[1]
    assert found == Mismatch(LOG, "size", f"{len(plain)} bytes", f"{len(plain) - 1} bytes")


@pytest.mark.parametrize("name", ["run.json", f"{LOG}.zst", "EXTRA"])
def test_a_file_that_is_missing_or_added_is_named(copy: Path, tmp_path: Path, name: str) -> None:
    if name == "EXTRA":
        (copy / name).write_text("x")
    else:
        (copy / name).unlink()
    assert any(name.removesuffix(".zst") in x for x in mismatches(copy, tmp_path / "one"))
    reseal(copy)
    assert any(name.removesuffix(".zst") in x for x in mismatches(copy, tmp_path / "two"))


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../out.txt", "/etc/x", "a/../../x", "a\\b", "C:/x", "a//b", "", "a\x00b", "n" * 300])
def test_a_name_that_leads_elsewhere_is_refused(copy: Path, tmp_path: Path, name: str) -> None:
    edit(copy, lambda tree: tree["files"].update({name: tree["files"]["run.json"]}))
    with pytest.raises(RefusedBundle, match=r"the name "):
        laid_out(copy, tmp_path / "deep" / "out")
    assert {p.name for p in tmp_path.iterdir()} <= {"e", "deep"}


def test_two_names_that_some_systems_take_for_one_are_refused(copy: Path, tmp_path: Path) -> None:
    edit(copy, lambda tree: tree["files"].update({"RUN.json": tree["files"]["run.json"]}))
    with pytest.raises(RefusedBundle, match=r"differs from run\.json only in case"):
        laid_out(copy, tmp_path / "out")


@pytest.mark.parametrize("target", ["/etc/passwd", "run.json", "launches"])
def test_a_link_is_refused(copy: Path, tmp_path: Path, target: str) -> None:
    (copy / "a-link").symlink_to(target)
    with pytest.raises(RefusedBundle, match="a-link: is no plain file"):
        laid_out(copy, tmp_path / "out")


def test_a_bomb_is_refused_at_the_size_that_was_said(copy: Path, tmp_path: Path) -> None:
    (copy / f"{LOG}.zst").write_bytes(zstandard.compress(b"\0" * (64 << 20)))
    reseal(copy)
    with pytest.raises(RefusedBundle, match=r"server\.log: unpacks to more than the [\d,]+ bytes"):
        laid_out(copy, tmp_path / "out")
    assert (tmp_path / "out" / LOG).stat().st_size < 1 << 20


def test_a_bundle_that_would_be_too_large_is_refused_before_a_byte_is_written(copy: Path, tmp_path: Path) -> None:
    edit(copy, lambda tree: tree["files"][LOG].update(size=9 << 30))
    with pytest.raises(RefusedBundle, match=r"the bundle would have"):
        laid_out(copy, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_frame_that_wants_more_memory_than_ours_is_refused(copy: Path, tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=27, write_content_size=False)
    chunker = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    (copy / f"{LOG}.zst").write_bytes(chunker.compress(b"x" * 1000) + chunker.flush())
    reseal(copy)
    with pytest.raises(RefusedBundle, match=r"server\.log\.zst: cannot be unpacked"):
        laid_out(copy, tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema_version": 2}, "schema_version"),
        ({"files": []}, "files"),
        ({"files": {"x": {"sha256": "0", "size": 1, "form": "raw"}}}, "files.x.sha256"),
        ({"files": {"x": {"sha256": "0" * 64, "size": -1, "form": "raw"}}}, "files.x.size"),
        ({"files": {"x": {"sha256": "0" * 64, "size": 1, "form": "exe"}}}, "files.x.form"),
        ({"root_sha256": None}, "root_sha256"),
        ({"more": 1}, "more"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_list_of_originals_that_is_none_is_named_by_its_field(
    copy: Path, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    edit(copy, lambda tree: tree.update(change))
    with pytest.raises(BundleError, match=f"`{told}`"):
        laid_out(copy, tmp_path / "out")


@pytest.mark.parametrize("name", [ORIGINALS, EXPORT_SUMS])
def test_lists_that_are_missing_or_endless_are_refused(copy: Path, tmp_path: Path, name: str) -> None:
    with (copy / name).open("r+b") as stream:
        stream.truncate(LARGEST_BYTES + 1)
    with pytest.raises(BundleError, match=re.escape(name)):
        laid_out(copy, tmp_path / "one")
    (copy / name).unlink()
    with pytest.raises(RefusedBundle, match=re.escape(name)):
        laid_out(copy, tmp_path / "two")
