"""What may be deleted: what is old and what nothing refers to, and only after it was said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import BundleError
from harness.evidence.bundle import Bundle, write_record
from harness.evidence.manifest import MANIFEST, root_hash
from harness.history.anchors import accept, read_anchors
from harness.history.importing import import_bundles, opened
from harness.history.index import Index
from harness.history.published import note_published, published_file
from harness.history.retention import decide, delete
from harness.records import Plan, Run
from harness.records.history import Night, Point, Series
from harness.records.statistics import Past
from harness.words import Cache, ExitCode, Warmup

from .bench import count, seal_again, session


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """One judged bundle that all others are copies of."""
    return session(tmp_path_factory.mktemp("made"), "n00", judged=True)


def copied(made: Bundle, results: Path, name: str, *, night: Night | None = None, **plan: object) -> Bundle:
    bundle = Bundle(results / name)
    shutil.copytree(made.root, bundle.root)
    found: Plan = bundle.plan()
    run: Run = bundle.run()
    write_record(bundle.plan_file, found.model_copy(update={"session": name, "night": night, **plan}))
    write_record(bundle.run_file, run.model_copy(update={"session": name, "started_wall": f"2026-11-01T{name}"}))
    seal_again(bundle.root)
    return bundle


def night(number: int, series: tuple[Series, ...] = ()) -> Night:
    return Night(date=f"2026-11-{number:02d}", anchor=None, anchor_session=None, series=series)


def nights(made: Bundle, results: Path, number: int) -> list[Bundle]:
    return [copied(made, results, f"n{n:02d}", night=night(n)) for n in range(1, number + 1)]


def gone(index: Index, results: Path, keep: int = 2, nights_of: str | None = None) -> dict[str, str]:
    """Names of what would go; the reasons of what stays are in `kept`."""
    decided = decide(index, results, read_anchors(), keep=keep, nights_of=nights_of)
    return {d.root.name: d.why for d in decided if not d.keep}


def kept(index: Index, results: Path, keep: int = 2, nights_of: str | None = None) -> dict[str, str]:
    decided = decide(index, results, read_anchors(), keep=keep, nights_of=nights_of)
    return {d.root.name: d.why for d in decided if d.keep}


def test_the_newest_stay_and_what_nothing_refers_to_goes(made: Bundle, results: Path, index: Index) -> None:
    nights(made, results, 4)
    assert gone(index, results) == dict.fromkeys(("n01", "n02"), "nothing refers to it")
    assert kept(index, results) == dict.fromkeys(("n03", "n04"), "one of the 2 newest of cpu-forged")
    assert gone(index, results, keep=0) == {}


def test_an_anchor_stays_former_ones_too(made: Bundle, results: Path, index: Index) -> None:
    first, second, *_ = nights(made, results, 5)
    for bundle in (first, second):
        tree = bundle.verdict().model_copy(update={"evidence_root_sha256": root_hash(bundle.root)})
        write_record(bundle.verdict_file, tree)
        accept(bundle, reason="x", who="y", when="2026")
    assert list(gone(index, results)) == ["n03"]
    assert kept(index, results)["n01"] == "anchor 1 of cpu-forged"


def test_what_was_published_stays(made: Bundle, results: Path, index: Index) -> None:
    first, *_ = nights(made, results, 4)
    for where in ("a comment", "the comment of today"):
        note_published(root_hash(first.root), where, "2026-11-30T08:00:00+00:00")
    assert list(gone(index, results)) == ["n02"]
    assert kept(index, results)["n01"] == "published: the comment of today"


def test_nothing_is_deleted_while_it_is_unknown_what_was_published(made: Bundle, results: Path, index: Index) -> None:
    nights(made, results, 4)
    published_file().parent.mkdir(parents=True, exist_ok=True)
    published_file().write_text("{\n", "utf-8")
    with pytest.raises(BundleError, match=r"published\.jsonl:1: cannot be read; mend or remove that line"):
        gone(index, results)


def test_the_noise_that_a_kept_plan_was_frozen_with_stays_and_keeps_nothing_more(
    made: Bundle, results: Path, index: Index
) -> None:
    """Else every night would keep the one before it, for ever."""

    def past(source: Bundle) -> tuple[Past, ...]:
        where = {"mode": "mtp1", "warmup": Warmup.ENGINE, "cache": Cache.WARM, "name": "prefill"}
        return (Past(**where, sd=0.01, df=3, sources=(root_hash(source.root),)),)

    first = copied(made, results, "n01", night=night(1))
    second = copied(made, results, "n02", night=night(2), history=past(first))
    copied(made, results, "n03", night=night(3), history=past(second))
    assert kept(index, results, keep=1)["n02"] == "its noise stands in the plan of n03"
    assert list(gone(index, results, keep=1)) == ["n01"]


def test_the_first_nights_of_a_change_stay(made: Bundle, results: Path, index: Index) -> None:
    before = nights(made, results, 12)
    levels = [0.0] * 6 + [-0.03] * 6
    series = Series(
        mode="mtp1",
        warmup=Warmup.ENGINE,
        cache=Cache.WARM,
        name="decode steps",
        context_tokens=96,
        cell_sha256="c" * 64,
        points=tuple(
            Point(
                night=f"2026-11-{n:02d}",
                session=f"n{n:02d}",
                root_sha256=root_hash(bundle.root),
                mean=level,
                pairs=4,
                own_sd=0.002,
            )
            for n, (bundle, level) in enumerate(zip(before, levels, strict=True), 1)
        ),
    )
    copied(made, results, "n13", night=night(13, (series,)))
    found = kept(index, results)
    assert [name for name, why in found.items() if why == "first nights of a change point"] == ["n07", "n08"]
    assert "n06" in gone(index, results)


def test_a_nights_retention_touches_nights_of_its_profile_only(made: Bundle, results: Path, index: Index) -> None:
    nights(made, results, 4)
    copied(made, results, "a-pr")
    assert list(gone(index, results, nights_of="cpu-forged")) == ["n01", "n02"]
    assert kept(index, results, nights_of="cpu-forged")["a-pr"] == "no night of this profile"
    assert gone(index, results, nights_of="rtx5090") == {}


def test_what_was_never_finished_is_left_alone(made: Bundle, results: Path, index: Index) -> None:
    first, *_ = nights(made, results, 3)
    (first.root / MANIFEST).unlink()
    assert gone(index, results, keep=1).keys() == {"n02"}
    assert kept(index, results)["n01"] == "not looked into: it was never finished"


def test_deleting_says_each_root_hash_and_takes_it_from_the_index(made: Bundle, results: Path, index: Index) -> None:
    first, *_ = nights(made, results, 3)
    import_bundles(index, [results])
    root = root_hash(first.root)
    [line] = delete(index, decide(index, results, [], keep=2))
    assert line.startswith("deleted n01 (0 MiB, root hash ")
    assert root[:12] in line
    assert sorted(p.name for p in results.iterdir()) == ["n02", "n03"]
    assert count(index, "sessions") == 2


def test_the_command_only_says_it_until_it_is_told_to(
    made: Bundle, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nights(made, results, 2)
    assert main(["history", "prune", "--keep", "1"]) == ExitCode.PASS
    assert capsys.readouterr().out.splitlines() == [
        "delete  n01: nothing refers to it",
        "keep    n02: one of the 1 newest of cpu-forged",
        "1 of 2 would be deleted; --yes does it",
    ]
    assert (results / "n01").is_dir()
    assert main(["history", "prune", "--keep", "1", "--yes"]) == ExitCode.PASS
    assert not (results / "n01").exists()
    assert main(["history", "prune", "--keep", "0", "--yes"]) == ExitCode.USAGE
    with opened() as index:
        assert count(index, "sessions") == 0
