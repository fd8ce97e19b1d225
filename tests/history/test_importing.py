"""From bundles to the index: once each, only what is what it says, and the others go on."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.errors import BundleError, ConfigError, SetupFailure
from harness.evidence.bundle import Bundle, write_record
from harness.evidence.manifest import MANIFEST, root_hash
from harness.history import entry, importing
from harness.history.importing import bundles_in, import_bundle, import_bundles, opened
from harness.history.index import Index, open_index
from harness.history.schema import SCHEMA
from harness.judge.verdict import Judged, judged
from harness.paths import history_file
from harness.records import ArmImage, Lock
from harness.stack.record import Disposition, LockedHead
from harness.words import Arm, ExitCode, Word
from tests.image import toy

from .bench import HERE, Metric, count, remembered, seal_again, session


def rows(index: Index, sql: str) -> list[Any]:
    return index.sql.execute(sql).fetchall()


# --- what is kept ------------------------------------------------------------------------------------


def test_a_session_is_kept_with_its_host_its_arms_and_the_ratio_of_every_pair(results: Path, index: Index) -> None:
    bundle = session(results, "one", (1.01, 0.99, 1.02, 0.98), judged=True)
    assert import_bundles(index, [results])[-1] == "1 imported, 0 known already, 0 left out"
    [s] = rows(index, "SELECT s.*, h.host_id FROM sessions s JOIN hosts h ON h.id = s.host")
    assert (s["root_sha256"], s["session"], s["kind"], s["host_id"]) == (root_hash(bundle.root), "one", "A/A", HERE)
    assert (s["profile"], s["measurement"], s["started_wall"]) == ("cpu-forged", 1, "2026-11-01T01:00:00+00:00")
    assert {r["arm"]: r["engine_version"] for r in rows(index, "SELECT * FROM arms")} == {
        "control": "0.32.0",
        "candidate": "0.32.0",
    }
    [steps] = rows(index, "SELECT * FROM metrics WHERE name = 'decode steps' AND context_tokens = 96")
    row = next(
        r for r in bundle.verdict().rows if r.name == "decode steps" and r.cache == "warm" and r.context_tokens == 96
    )
    assert row.tested is not None
    assert steps["word"] == row.word
    assert steps["own_sd"] == row.tested.own_sd
    ratios = [r[0] for r in rows(index, f"SELECT log_ratio FROM ratios WHERE metric = {steps['id']} ORDER BY place")]
    assert ratios == pytest.approx([math.log(x) for x in (1.01, 0.99, 1.02, 0.98)], abs=1e-6)
    assert steps["mean"] == pytest.approx(sum(ratios) / 4)


def test_arms_that_run_the_same_are_a_a_and_others_a_b(results: Path, index: Index) -> None:
    session(results, "same")
    session(results, "flag", flags={"max_num_seqs": 3})
    import_bundles(index, [results])
    kinds = {r["session"]: r["kind"] for r in rows(index, "SELECT session, kind FROM sessions")}
    assert kinds == {"same": "A/A", "flag": "A/B"}


def test_only_warm_metrics_that_the_plan_names_are_primary(results: Path, index: Index) -> None:
    import_bundle(index, session(results, "one"))
    primary = rows(index, "SELECT name, cache FROM metrics WHERE is_primary ORDER BY name, context_tokens")
    assert [tuple(r) for r in primary] == [
        ("decode steps", "warm"),
        ("decode steps", "warm"),
        ("prefill", "warm"),
        ("prefill", "warm"),
        ("start-up", "warm"),
    ]


def test_a_single_pair_has_a_ratio_and_no_spread(results: Path, index: Index) -> None:
    import_bundle(index, session(results, "one", (0.9,), overrides={"plan.pairs": 1}))
    [steps] = rows(index, "SELECT * FROM metrics WHERE name = 'decode steps' AND context_tokens = 96")
    assert steps["own_sd"] is None
    assert (steps["pairs"], steps["mean"]) == (1, pytest.approx(math.log(0.9), abs=1e-6))


def test_locks_trees_and_heads_are_kept_for_whoever_bisects(
    results: Path, index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = session(results, "one")
    head = LockedHead(
        pr=271,
        ref="refs/pull/271/head",
        title="prewarm",
        strategy="merge",
        expected="b" * 12,
        head="b" * 40,
        moved=False,
        disposition=Disposition.MERGED,
        replaces=None,
        note="",
        tree="4" * 40,
    )
    plain = toy.lock()
    [component] = plain.components
    lock = plain.model_copy(update={"components": (component.model_copy(update={"heads": (head,)}),)}).sealed()
    toy.write_lock(bundle.stack_lock_dir(Arm.CANDIDATE), lock)
    image = ArmImage(name="i", image_id="sha256:" + "9" * 64, base_reference="toy@sha256:0", lock_sha256=lock.sha256)
    candidate: Lock = bundle.lock(Arm.CANDIDATE)
    write_record(bundle.lock_file(Arm.CANDIDATE), candidate.model_copy(update={"image": image}))
    seal_again(bundle.root)
    import_bundle(index, bundle)
    [arm] = rows(index, "SELECT * FROM arms WHERE arm = 'candidate'")
    assert (arm["lock_sha256"], arm["image_id"]) == (lock.sha256, "sha256:" + "9" * 64)
    [tree] = rows(index, "SELECT * FROM components")
    assert (tree["component"], tree["base_commit"], tree["tree"]) == ("toy", "1" * 40, "3" * 40)
    [kept] = rows(index, "SELECT * FROM heads")
    assert (kept["pr"], kept["head"], kept["disposition"], kept["tree"]) == (271, "b" * 40, "merged", "4" * 40)
    assert rows(index, "SELECT kind FROM sessions")[0][0] == "A/B", "a lock is not an engine of the host"
    assert main(["history", "show", "one"]) == ExitCode.PASS
    assert f"toy #271 {'b' * 40} merged" in capsys.readouterr().out


# --- once, and only what is what it says -------------------------------------------------------------


def test_the_same_bundles_again_change_nothing(results: Path, index: Index) -> None:
    for name in ("one", "two"):
        session(results, name)
    import_bundles(index, [results])
    before = [count(index, t) for t in ("sessions", "arms", "metrics", "ratios", "hosts")]
    assert import_bundles(index, [results, results / "one"]) == ["0 imported, 2 known already, 0 left out"]
    assert [count(index, t) for t in ("sessions", "arms", "metrics", "ratios", "hosts")] == before


def _changed(bundle: Bundle) -> str:
    with next(bundle.root.glob("launches/*/server.log")).open("ab") as log:
        log.write(b"one line more\n")
    return "/server.log has another SHA-256"


def _added(bundle: Bundle) -> str:
    (bundle.root / "launches" / "extra.txt").write_text("x", "utf-8")
    return "launches/extra.txt was added"


def _removed(bundle: Bundle) -> str:
    (bundle.root / "locks" / "control.truth.json").unlink()
    return "locks/control.truth.json is missing"


def _unfinished(bundle: Bundle) -> str:
    (bundle.root / MANIFEST).unlink()
    return "the session was never finished"


def _measured_otherwise(bundle: Bundle) -> str:
    text = bundle.plan_file.read_text("utf-8")
    bundle.plan_file.write_text(text.replace('"measurement": 1', '"measurement": 2'), "utf-8")
    seal_again(bundle.root)
    return "measurement version 2, and this harness measures by 1"


def _newer(bundle: Bundle) -> str:
    text = bundle.run_file.read_text("utf-8")
    bundle.run_file.write_text(text.replace('"schema_version": 1', '"schema_version": 99'), "utf-8")
    seal_again(bundle.root)
    return "schema 99 is newer than this harness knows"


@pytest.mark.parametrize("spoil", [_changed, _added, _removed, _unfinished, _measured_otherwise, _newer])
def test_a_bundle_that_cannot_be_taken_is_named_with_its_reason_and_the_others_go_on(
    results: Path, index: Index, spoil: Any
) -> None:
    told = spoil(session(results, "bad"))
    session(results, "good")
    lines = import_bundles(index, [results])
    [left] = [line for line in lines if line.startswith("left out: bad: ")]
    assert told in left
    assert lines[-1] == "1 imported, 0 known already, 1 left out"
    assert [r[0] for r in rows(index, "SELECT session FROM sessions")] == ["good"]


def test_a_name_stands_for_one_piece_of_evidence(results: Path, index: Index) -> None:
    first = session(results, "one")
    import_bundle(index, first)
    first.run_file.write_text(first.run_file.read_text("utf-8").replace('"cores": 2', '"cores": 3'), "utf-8")
    seal_again(first.root)
    with pytest.raises(BundleError, match="session one is there with other evidence"):
        import_bundle(index, first)


def test_a_link_to_a_bundle_is_no_second_one(results: Path) -> None:
    session(results, "one")
    (results / "latest").symlink_to("one")
    assert bundles_in([results]) == [(results / "one").resolve()]


def test_a_bundle_is_in_the_index_whole_or_not_at_all(
    results: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = session(results, "one")
    insert = Index.insert

    def fails(self: Index, table: str, row: Any) -> int:
        if table == "ratios":
            raise sqlite3.OperationalError("disk full")
        return insert(self, table, row)

    monkeypatch.setattr(Index, "insert", fails)
    with pytest.raises(sqlite3.OperationalError):
        import_bundle(index, bundle)
    assert [count(index, t) for t in ("sessions", "arms", "metrics", "hosts")] == [0, 0, 0, 0]
    monkeypatch.setattr(Index, "insert", insert)
    assert import_bundle(index, bundle) is not None


def test_of_two_commands_that_import_the_same_the_later_one_finds_it(
    results: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = session(results, "one")
    read = entry.read_entry

    def slow(at: Judged) -> Any:
        found = read(at)
        monkeypatch.setattr(importing, "read_entry", read)
        with opened() as other:
            assert import_bundle(other, at.case.bundle) is not None
        return found

    monkeypatch.setattr(importing, "read_entry", slow)
    assert import_bundle(index, bundle) is None
    assert count(index, "sessions") == 1


def test_what_was_judged_a_moment_ago_is_not_judged_again(
    results: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = session(results, "one")
    found = judged(bundle)
    monkeypatch.setattr(importing, "judged", lambda _: pytest.fail("judged twice"))
    told = import_bundle(index, bundle, found)
    assert told is not None
    assert told.startswith(f"one: A/A, {found.verdict.verdict}, ")
    [s] = rows(index, "SELECT * FROM sessions")
    assert s["root_sha256"] == root_hash(bundle.root) == found.verdict.evidence_root_sha256
    assert s["place"] == str(bundle.root)


def test_what_was_judged_of_other_evidence_is_not_taken(results: Path, index: Index) -> None:
    bundle = session(results, "one")
    found = judged(bundle)
    (bundle.root / "run.json").write_bytes((bundle.root / "run.json").read_bytes() + b"\n")
    with pytest.raises(BundleError, match=r"it is not what SHA256SUMS says: run\.json has another SHA-256"):
        import_bundle(index, bundle, found)
    seal_again(bundle.root)
    with pytest.raises(BundleError, match="its evidence changed while it was read"):
        import_bundle(index, bundle, found)
    assert import_bundle(index, bundle) is not None


def test_a_verdict_that_lies_in_the_bundle_is_never_taken(results: Path, index: Index) -> None:
    bundle = session(results, "one", judged=True)
    verdict = bundle.verdict()
    write_record(bundle.verdict_file, verdict.model_copy(update={"verdict": Word.FAIL, "exit_code": ExitCode.FAIL}))
    import_bundle(index, bundle)
    [s] = rows(index, "SELECT * FROM sessions")
    assert (s["verdict"], s["exit_code"]) == (verdict.verdict, verdict.exit_code) != ("fail", ExitCode.FAIL)


def test_a_session_takes_everything_of_it_along_when_it_goes(index: Index) -> None:
    remembered(index, "one", Metric())
    index.sql.execute("DELETE FROM sessions")
    assert [count(index, t) for t in ("arms", "metrics", "ratios")] == [0, 0, 0]


# --- the file ----------------------------------------------------------------------------------------


def test_a_broken_index_is_moved_aside_and_made_again_from_the_bundles(results: Path) -> None:
    session(results, "one")
    with opened() as index:
        import_bundles(index, [results])
    file = history_file()
    file.write_bytes(b"not a database at all, " * 400)
    notes: list[str] = []
    with opened(notes) as index:
        assert [r[0] for r in rows(index, "SELECT session FROM sessions")] == ["one"]
    assert "was broken or of an older schema" in notes[0]
    assert notes[-1] == "1 imported, 0 known already, 0 left out"
    assert [p.read_bytes()[:5] for p in file.parent.glob("*.aside-*")] == [b"not a"]


def test_an_index_of_an_older_schema_is_made_again(results: Path) -> None:
    session(results, "one")
    file = history_file()
    file.parent.mkdir(parents=True)
    with sqlite3.connect(file) as old:
        old.execute("CREATE TABLE sessions (x)")
    with opened() as index:
        assert count(index, "sessions") == 1


def test_an_index_of_a_newer_harness_is_refused_and_left_as_it_is(results: Path) -> None:
    assert not list(results.iterdir())
    file = history_file()
    with open_index(file) as index:
        remembered(index, "one")
        index.sql.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    with pytest.raises(ConfigError, match=f"schema {SCHEMA + 1} is newer than this harness knows"), open_index(file):
        pass
    with sqlite3.connect(file) as left:
        assert left.execute("SELECT count(*) FROM sessions").fetchone()[0] == 1


def test_a_place_that_cannot_be_written_is_told_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with (
        pytest.raises(SetupFailure, match="name another place with QUALIFY_HISTORY"),
        open_index(tmp_path / "file" / "history.sqlite"),
    ):
        pass


# --- commands ----------------------------------------------------------------------------------------


def test_the_commands_import_list_and_show(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = session(results, "one")
    assert main(["history", "import"]) == ExitCode.PASS
    assert "one: A/A, pass, " in capsys.readouterr().out
    assert main(["history", "list"]) == ExitCode.PASS
    listed = capsys.readouterr().out
    assert "host aaaaaaaa  a CPU, 2 cores, 16 GiB, no GPU, Linux" in listed
    assert "judges speed: false alarms: 0 of 5 rows in 1 A/A sessions" in listed
    assert "too few to tell below 20" in listed
    assert main(["history", "show", root_hash(bundle.root)[:8]]) == ExitCode.PASS
    assert "mtp1 engine warm 96 decode steps: primary, pass, " in capsys.readouterr().out
    assert main(["history", "show", "two"]) == ExitCode.USAGE
    assert "`two` is not in the index" in capsys.readouterr().err


def test_listing_an_empty_history_says_so(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not list(results.iterdir())
    assert main(["history", "list"]) == ExitCode.PASS
    assert capsys.readouterr().out == "0 sessions\n"
