"""The judge reads the bundle and nothing else, and says the same each time."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BundleError, QualifyError
from harness.evidence.bundle import Bundle, write_record
from harness.evidence.manifest import manifest_text, root_hash, seal
from harness.judge.verdict import judge

from .bundles import WARM, WARM_TOO, Judged, Session, stack


class _Opened:
    """Paths that Python opens or lists while it is on. An audit hook cannot be removed, only be silent."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in ("open", "os.listdir", "os.scandir"):
            self.seen.append(os.fsdecode(arguments[0]) if not isinstance(arguments[0], int) else "")
        elif event in ("subprocess.Popen", "socket.connect", "os.system", "os.exec"):
            self.seen.append(event)


opened = _Opened()


def verdict_bytes(bundle: Bundle) -> bytes:
    write_record(bundle.verdict_file, judge(bundle))
    return bundle.verdict_file.read_bytes()


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """One in which nearly every row has something to say."""
    session = Session(tmp_path, WARM_TOO, candidate=stack("changed", {"changed_successor": True, "wrong_drafts": 0.5}))
    session.both(armed=True).candidate(late_kernels=("a_kernel",), late_compiles=1, kv_tokens=2_000_000)
    return session.candidate(where=WARM, faults={"decode/96/0": "foreign"}, errors=("x",)).build()


def test_twice_gives_the_same_bytes(bundle: Bundle) -> None:
    assert verdict_bytes(bundle) == verdict_bytes(bundle)


def test_a_copy_in_another_place_gives_the_same_bytes(bundle: Bundle, tmp_path: Path) -> None:
    first = verdict_bytes(bundle)
    copy = tmp_path / "elsewhere" / "renamed"
    shutil.copytree(bundle.root, copy)
    shutil.rmtree(bundle.root)
    assert verdict_bytes(Bundle(copy)) == first


def test_the_working_directory_and_the_environment_say_nothing(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = verdict_bytes(bundle)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    for name in [*os.environ]:
        if name.startswith("QUALIFY_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("QUALIFY_SEED", "99")
    monkeypatch.setenv("QUALIFY_PAIRS", "8")
    assert verdict_bytes(bundle) == first


def test_nothing_outside_the_bundle_is_opened(bundle: Bundle) -> None:
    judge(bundle)  # what is imported on the way is imported now
    opened.seen.clear()
    opened.on = True
    try:
        judge(bundle)
    finally:
        opened.on = False
    seen = {os.path.realpath(p) for p in opened.seen if p}
    assert {p for p in seen if not Path(p).is_relative_to(bundle.root.resolve())} == set()
    assert len(seen) > 20, "the hook heard nothing"


def test_the_verdict_names_the_evidence_by_its_root_hash(bundle: Bundle) -> None:
    verdict = judge(bundle)
    assert verdict.evidence_root_sha256 == root_hash(bundle.root) == seal(bundle.root)
    assert verdict.evidence_root_sha256 == hashlib.sha256(manifest_text(bundle.root).encode()).hexdigest()


def test_an_earlier_verdict_changes_nothing(bundle: Bundle) -> None:
    first = verdict_bytes(bundle)
    bundle.verdict_file.write_text("{}", "utf-8")
    bundle.report_dir.mkdir()
    (bundle.report_dir / "report.md").write_text("PASS", "utf-8")
    assert verdict_bytes(bundle) == first


def test_every_source_of_a_row_is_a_file_of_the_bundle(bundle: Bundle) -> None:
    seal(bundle.root)
    for row in Judged.of(bundle).verdict.rows:
        for source in row.sources:
            file = source.split(": ")[0]
            file, colon, line = file.partition(":")
            file, _, last = file.partition("..")
            path = bundle.root / file
            assert path.is_file(), source
            assert not last or (path.parent / last).is_file(), source
            assert not colon or int(line) <= len(path.read_bytes().splitlines()), source


# --- bundles that cannot be read ---------------------------------------------------------------------


@pytest.mark.parametrize("file", ["plan.json", "run.json", "locks/control.json"])
def test_a_bundle_without_one_of_its_files_is_refused_by_name(bundle: Bundle, file: str) -> None:
    (bundle.root / file).unlink()
    with pytest.raises(BundleError, match=rf"{file}: cannot be read \(No such file"):
        judge(bundle)


@pytest.mark.parametrize("file", ["plan.json", "launches/001-candidate-mtp1-engine-cold/launch.json"])
def test_a_newer_bundle_is_refused(bundle: Bundle, file: str) -> None:
    path = bundle.root / file
    path = path if path.exists() else next(bundle.root.glob("launches/001-*/launch.json"))
    text = path.read_text("utf-8")
    path.write_text(text.replace('"schema_version": 1', '"schema_version": 2', 1), "utf-8")
    with pytest.raises(BundleError, match="schema 2 is newer than this harness knows"):
        judge(bundle)


@pytest.mark.parametrize(
    ("name", "line"),
    [("requests.jsonl", '{"request": "0001"}\n'), ("timeline.jsonl", "no JSON\n"), ("windows.jsonl", "[]\n")],
)
def test_a_broken_line_is_refused_by_file_and_number(bundle: Bundle, name: str, line: str) -> None:
    path = next(bundle.root.glob(f"launches/001-*/{name}"))
    number = len(path.read_text("utf-8").splitlines()) + 1
    with path.open("a", encoding="utf-8") as stream:
        stream.write(line)
    with pytest.raises(BundleError, match=rf"{name}:{number}: not a "):
        judge(bundle)


def test_cache_listings_that_are_no_json_are_refused_by_name(bundle: Bundle) -> None:
    path = next(bundle.root.glob("launches/001-*/caches.json"))
    path.write_text("{", "utf-8")
    with pytest.raises(QualifyError, match=r"caches\.json: not valid JSON"):
        judge(bundle)


@pytest.mark.parametrize("name", ["timeline.jsonl", "requests.jsonl", "outputs.jsonl", "windows.jsonl", "checks.jsonl"])
def test_a_torn_last_line_is_left_out_and_nothing_passes_for_it(tmp_path: Path, name: str) -> None:
    session = Session(tmp_path)
    bundle = session.candidate(ended=False, interrupted=True).build()
    path = next(bundle.root.glob(f"launches/*-candidate-*/{name}"))
    path.write_bytes(path.read_bytes()[:-20])
    judged = Judged.of(bundle)
    assert judged.verdict.verdict == "void"


def test_a_torn_time_of_the_log_is_left_out(tmp_path: Path) -> None:
    bundle = Session(tmp_path).candidate(ended=False, interrupted=True).build()
    path = next(bundle.root.glob("launches/*-candidate-*/server.log.times.jsonl"))
    path.write_bytes(path.read_bytes()[:-5])
    assert Judged.of(bundle).verdict.verdict == "void"
