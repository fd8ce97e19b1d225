"""Whatever is changed in a bundle is caught, and the file is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.evidence.manifest import MANIFEST, evidence_files
from harness.verification.verify import CHECKS

from .tampering import AGREEING, changed, edit, edit_line, files, looked_at, one_byte, rejudge, reseal, restored, told

pytestmark = pytest.mark.xdist_group("verification")


@pytest.fixture
def root(session: Path, tmp_path: Path) -> Any:
    """The session, to be changed at will."""
    with restored(session, tmp_path / "kept") as found:
        yield found


def launches(root: Path) -> list[str]:
    return sorted(p.name for p in (root / "launches").iterdir())


def evidence(root: Path) -> list[str]:
    return [p.relative_to(root).as_posix() for p in evidence_files(root)]


def test_an_untouched_bundle_verifies_and_says_what_was_checked(session: Path) -> None:
    outcome = looked_at(session)
    assert outcome.mismatches == ()
    assert outcome.verifies
    assert outcome.verdict is not None
    assert [name for name, _ in outcome.found] == [name for name, _ in CHECKS]
    assert all(found.told for _, found in outcome.found)


def test_the_session_has_every_kind_of_evidence(session: Path) -> None:
    """Or the mutations below would prove little."""
    endings = {Path(name).name for name in files(session)}
    assert {"server.log", "gpu.parquet", "host.parquet", "gpu.jsonl", "timeline.jsonl", "001.prom"} <= endings
    assert any("/trace/" in name for name in files(session))
    assert len(launches(session)) == 4


def plan_told(root: Path) -> list[str]:
    return told(root, "completeness")


def derivation(name: str) -> tuple[str, ...]:
    """The checks that can see a change of a derived file."""
    known = {"verdict.json": ("verdict",), MANIFEST: ("manifest", "root")}
    return known.get(name, ("report",) if name.startswith("report/") else ())


class TestOneByte:
    def test_of_any_evidence_is_caught_by_the_manifest(self, session: Path) -> None:
        missed = []
        for name in evidence(session):
            path = session / name
            with changed(path, one_byte(path.read_bytes())):
                if not any(m.file == name and m.field == "SHA-256" for m in looked_at(session, "manifest").mismatches):
                    missed.append(name)
        assert missed == []

    def test_is_caught_though_a_forger_mends_the_manifest(self, session: Path) -> None:
        """The root hash stands in verdict and report, and in what is signed."""
        missed = []
        for name in evidence(session):
            path = session / name
            with changed(path, one_byte(path.read_bytes())), changed(session / MANIFEST, b""):
                reseal(session)
                if not any(m.field == "evidence_root_sha256" for m in looked_at(session, "root").mismatches):
                    missed.append(name)
        assert missed == []

    def test_of_what_is_derived_is_caught_by_deriving_it_again(self, session: Path) -> None:
        missed = []
        for name in (n for n in files(session) if n not in evidence(session)):
            path = session / name
            with changed(path, one_byte(path.read_bytes())):
                if not any(t.startswith(f"{name}: ") or f"({name})" in t for t in told(session, *derivation(name))):
                    missed.append(name)
        assert missed == []

    def test_at_the_very_end_of_a_file_is_caught_too(self, session: Path) -> None:
        for name in ("verdict.json", "report/report.html", MANIFEST):
            path = session / name
            for data in (path.read_bytes() + b"\n", path.read_bytes()[:-1]):
                with changed(path, data):
                    assert any(name in t for t in told(session, *derivation(name))), name


class TestFiles:
    def test_a_removed_one_is_named(self, session: Path) -> None:
        missed, raw = [], evidence(session)
        for name in (n for n in files(session) if n != "plan.json"):  # without that it is no bundle; see test_command
            with changed(session / name, None):
                checks = ("manifest",) if name in raw else derivation(name)
                if not any(m.file == name and m.found is None for m in looked_at(session, *checks).mismatches):
                    missed.append(name)
        assert missed == []

    @pytest.mark.parametrize(
        "name", ["note.txt", "launches/{first}/extra.json", "locks/other.json", "report/more.html", ".x.tmp", "looks/a"]
    )
    def test_an_added_one_is_named(self, root: Path, name: str) -> None:
        name = name.format(first=launches(root)[0])
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("{}", "utf-8")
        assert [t for t in told(root, "manifest", "report") if t.startswith(f"{name}: ") and "says nothing" in t]

    def test_a_file_in_the_place_of_a_folder_is_named(self, root: Path) -> None:
        shutil.rmtree(root / "report")
        (root / "report").write_text("pass", "utf-8")
        assert any(t.startswith("report/report.html: file: ") for t in told(root, "report"))


class TestLaunches:
    def test_a_removed_one_is_named_by_the_manifest(self, root: Path) -> None:
        gone = launches(root)[1]
        shutil.rmtree(root / "launches" / gone)
        assert any(t.startswith(f"launches/{gone}/server.log: SHA-256: ") for t in told(root, "manifest"))

    def test_a_removed_one_is_named_by_the_plan_whatever_the_forger_mends(self, root: Path) -> None:
        gone = launches(root)[1]
        shutil.rmtree(root / "launches" / gone)
        rejudge(root)
        assert told(root, *AGREEING) == [
            f"launches/{gone}/launch.json: file: says planned, and nothing says why it was not run, is missing"
        ]

    def test_one_without_its_record_is_named(self, root: Path) -> None:
        gone = launches(root)[1]
        (root / "launches" / gone / "launch.json").unlink()
        reseal(root)
        assert any(t.startswith(f"launches/{gone}/launch.json: file: ") for t in plan_told(root))

    def test_an_interrupted_session_may_lack_its_last_ones(self, root: Path) -> None:
        shutil.rmtree(root / "launches" / launches(root)[3])
        edit(root / "run.json", lambda run: run.update(interrupted="stopped by the user"))
        rejudge(root)
        assert told(root, *AGREEING) == []
        assert "the others were not run: stopped by the user" in str(looked_at(root, "completeness").found)

    def test_one_that_nobody_planned_is_named(self, root: Path) -> None:
        stray = "005-candidate-mtp1-engine-cold"
        shutil.copytree(root / "launches" / launches(root)[0], root / "launches" / stray)
        reseal(root)
        assert any(t.startswith(f"launches/{stray}: folder: ") for t in plan_told(root))

    def test_swapped_logs_are_named(self, root: Path) -> None:
        logs = [root / "launches" / name / "server.log" for name in launches(root)[:2]]
        one, other = (log.read_bytes() for log in logs)
        assert one != other
        logs[0].write_bytes(other)
        logs[1].write_bytes(one)
        names = [log.relative_to(root).as_posix() for log in logs]
        assert all(any(t.startswith(f"{n}: SHA-256: ") for t in told(root, "manifest")) for n in names)
        rejudge(root)
        found = told(root)
        assert all(any(t.startswith(f"{n}: SHA-256 of what the server's pipe gave: ") for t in found) for n in names)

    def test_swapped_launches_are_named(self, root: Path) -> None:
        first, second, _, _ = (root / "launches" / name for name in launches(root))
        first.rename(root / "aside")
        second.rename(first)
        (root / "aside").rename(second)
        reseal(root)
        found = plan_told(root)
        for folder in (first, second):
            assert any(t.startswith(f"launches/{folder.name}/launch.json: launch.id: ") for t in found)

    def test_launches_that_ran_in_another_order_are_named(self, root: Path) -> None:
        records = [root / "launches" / name / "launch.json" for name in launches(root)[:2]]
        begins = [json.loads(r.read_bytes())["begin_ns"] for r in records]
        for record, begin in zip(records, reversed(begins), strict=True):
            edit(record, lambda tree, begin=begin: tree.update(begin_ns=begin))  # type: ignore[misc]
        reseal(root)
        assert any(t.startswith(f"launches/{launches(root)[1]}/launch.json: begin_ns: ") for t in plan_told(root))


class TestPlan:
    def test_a_reordered_one_is_named(self, root: Path) -> None:
        edit(root / "plan.json", lambda plan: plan["launches"].reverse())
        reseal(root)
        assert any(t.startswith("plan.json: launches.0.ordinal: says 4, is 1 by its own ") for t in plan_told(root))

    def test_a_shortened_one_is_named(self, root: Path) -> None:
        gone = launches(root)[3]
        edit(root / "plan.json", lambda plan: plan["launches"].pop())
        shutil.rmtree(root / "launches" / gone)
        rejudge(root)
        assert told(root, *AGREEING) == ["plan.json: launches.length: says 3, is 4 by its own profile and seed"]

    def test_a_metric_that_is_to_decide_no_more_is_named(self, root: Path) -> None:
        edit(root / "plan.json", lambda plan: plan.update(primary_metrics=["mtp1 decode 64"]))
        reseal(root)
        assert any(t.startswith("plan.json: primary_metrics.") for t in plan_told(root))

    def test_a_lock_of_another_stack_is_named(self, root: Path) -> None:
        edit(root / "locks" / "candidate.json", lambda lock: lock.update(stack="another"))
        reseal(root)
        assert any(t.startswith("locks/candidate.json: stack: says another, is ") for t in plan_told(root))

    def test_a_missing_lock_is_named(self, root: Path) -> None:
        (root / "locks" / "control.json").unlink()
        reseal(root)
        assert any(t.startswith("locks/control.json: file: ") for t in plan_told(root))


class TestFigures:
    def test_an_edited_figure_of_the_verdict_is_named_with_where_it_comes_from(self, root: Path) -> None:
        verdict = json.loads((root / "verdict.json").read_bytes())
        [place] = [n for n, r in enumerate(verdict["rows"]) if r["name"] == "KV tokens"]
        edit(root / "verdict.json", lambda v: v["rows"][place].update(candidate="2,097,153"))
        for mend in (lambda _: None, reseal):
            mend(root)
            [found] = told(root, "manifest", "root", "verdict")
            assert found.startswith(
                f'verdict.json: rows.{place}.candidate: says "2,097,153", is "2,097,152" (KV tokens, from launches/'
            )

    def test_a_verdict_that_was_turned_into_a_pass_is_named(self, root: Path) -> None:
        edit(root / "verdict.json", lambda v: v.update(verdict="fail", exit_code=1))
        assert [t.partition(": says")[0] for t in told(root, "verdict")] == [
            "verdict.json: verdict",
            "verdict.json: exit_code",
        ]

    def test_a_dropped_row_is_named(self, root: Path) -> None:
        rows = json.loads((root / "verdict.json").read_bytes())["rows"]
        edit(root / "verdict.json", lambda v: v["rows"].pop(3))
        [line] = told(root, "verdict")
        assert line.startswith("verdict.json: rows.3: says nothing, is ")
        assert rows[3]["name"] in line

    def test_other_bytes_of_the_same_figures_are_named(self, root: Path) -> None:
        tree = json.loads((root / "verdict.json").read_bytes())
        (root / "verdict.json").write_text(json.dumps(tree), "utf-8")
        assert any(t.startswith("verdict.json: line 1: ") for t in told(root, "verdict"))

    def test_an_edited_raw_figure_gives_another_verdict(self, root: Path) -> None:
        name = next(n for n in launches(root) if "-candidate-" in n and "trace" not in n)
        scrape = root / "launches" / name / "metrics" / "001.prom"
        text = scrape.read_text("utf-8")
        scrape.write_text(text.replace('kv_cache_size_tokens="2097152"', 'kv_cache_size_tokens="2097280"'), "utf-8")
        reseal(root)
        found = told(root, "root", "verdict")
        assert any(t.startswith("verdict.json: evidence_root_sha256: ") for t in found)
        [row] = [t for t in found if ".candidate: " in t]
        assert 'says "2,097,152", is "2,097,280" (KV tokens, from launches/' in row
        assert "metrics/001.prom: vllm:cache_config_info kv_cache_size_tokens" in row

    @pytest.mark.parametrize("name", ["report.html", "report.md"])
    def test_an_edited_figure_of_the_report_is_named_by_its_line(self, root: Path, name: str) -> None:
        path = root / "report" / name
        text = path.read_text("utf-8")
        path.write_text(text.replace("2,097,152", "2,097,153", 1), "utf-8")
        line = text[: text.index("2,097,152")].count("\n") + 1
        [found] = told(root, "report")
        assert found.startswith(f"report/{name}: line {line}: says ")
        assert "2,097,153" in found
        assert "2,097,152" in found

    @pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"\xff", b"{}"], ids=ascii)
    def test_what_is_no_verdict_is_named(self, session: Path, data: bytes) -> None:
        with changed(session / "verdict.json", data):
            found = told(session, "root", "schema", "verdict")
        assert found
        assert all(t.startswith("verdict.json: ") for t in found)


class TestSchema:
    def test_a_field_that_no_record_has_is_named_by_line(self, root: Path) -> None:
        name = f"launches/{launches(root)[0]}/requests.jsonl"
        edit_line(root / name, 2, lambda r: r.update(surprise=1))
        assert [t.partition(", is")[0] for t in told(root, "schema")] == [f"{name}: line 3: says RequestRecord"]

    @pytest.mark.parametrize(
        ("value", "why"),
        [("NaN", "NaN is no JSON value"), ("Infinity", "Infinity"), ("9" * 5000, "5000"), ("[" * 100_000, "nested")],
        ids=["nan", "infinity", "long-integer", "deep"],
    )
    def test_what_is_no_json_is_named(self, root: Path, value: str, why: str) -> None:
        path = root / "run.json"
        path.write_text(path.read_text("utf-8").replace('"cores": ', f'"cores": {value}, "x": ', 1), "utf-8")
        [found] = told(root, "schema")
        assert found.startswith("run.json: content: says Run, is ")
        assert why in found or "digits" in found

    def test_a_key_that_stands_twice_is_named(self, root: Path) -> None:
        path = root / "locks" / "control.json"
        path.write_text(path.read_text("utf-8").replace("{", '{"stack": "other",', 1), "utf-8")
        assert any("key 'stack' stands there twice" in t for t in told(root, "schema"))


class TestManifest:
    @pytest.mark.parametrize(
        ("change", "field"),
        [
            (lambda lines: [*lines[1:], lines[0]], "line"),
            (lambda lines: [*lines, lines[-1]], "line"),
            (lambda lines: [lines[0], lines[0].replace("junit", "../junit"), *lines[1:]], "line 2"),
            (lambda lines: [lines[0].replace("  ", " *"), *lines[1:]], "line 1"),
            (lambda lines: [*lines[:-1], lines[-1].rstrip("\n")], "end"),
            (lambda lines: ["\ufeff", *lines], "line 1"),
        ],
        ids=["unsorted", "twice", "leads-out", "binary-mark", "torn", "bom"],
    )
    def test_one_that_sha256sum_did_not_write_is_named(self, root: Path, change: Any, field: str) -> None:
        path = root / MANIFEST
        path.write_text("".join(change(path.read_text("utf-8").splitlines(keepends=True))), "utf-8")
        assert told(root, "manifest")[0].startswith(f"{MANIFEST}: {field}")

    def test_one_that_is_no_text_is_named(self, root: Path) -> None:
        (root / MANIFEST).write_bytes(b"\xff\xfe")
        assert told(root, "manifest")[0].startswith(f"{MANIFEST}: encoding: ")
