"""The lock in its folder: never half, never silently another, and checked when it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.config.load import load_stack
from harness.errors import ConfigError, SetupFailure
from harness.stack.reading import inputs_sha256, parse_lock, read_lock
from tests.stack.bench import DIGEST, REFERENCE, Bench, inline, lines, lock, refusal, written


def small(bench: Bench, **more: Any) -> Path:
    return bench.stack(bench.head(1, bench.pull(1, {"vllm/n.py": "n\n"})), **more)


# --- content -----------------------------------------------------------------------------------------------


def test_the_lock_names_base_claims_and_its_own_hash(bench: Bench) -> None:
    claims = (
        '[[claims]]\ntype = "late_jit_removed"\nkernels = ["A", "B"]\n'
        '[[claims]]\ntype = "kv_tokens_min_change"\nchange_pct = -0.5\n'
    )
    outcome = lock(small(bench, extra=claims))
    tree = json.loads((outcome.folder / "lock.json").read_text("utf-8"))
    assert tree["schema_version"] == 1
    assert tree["base"] == {"reference": REFERENCE, "digest": DIGEST, "release": ""}
    assert [c["type"] for c in tree["claims"]] == ["late_jit_removed", "kv_tokens_min_change"]
    assert tree["sha256"] == outcome.lock.sha256 == outcome.lock.computed_sha256()
    assert len(tree["sha256"]) == 64


def test_a_lock_is_read_back_as_it_was_written(bench: Bench) -> None:
    outcome = lock(small(bench))
    assert read_lock(outcome.folder) == outcome.lock


def test_a_stack_with_only_a_base_pins_the_image(bench: Bench) -> None:
    text = f'name = "s"\ndescription = "d"\nbase = {{ reference = "{REFERENCE}", release = "r31" }}\n'
    outcome = lock(bench.write(text))
    assert (outcome.lock.components, outcome.lock.base.release) == ((), "r31")


def test_what_the_stack_says_of_its_image_is_hashed_and_nothing_else(bench: Bench) -> None:
    stack = small(bench)
    before = lock(stack).lock.inputs_sha256
    assert before == inputs_sha256(load_stack(str(stack)).model)
    text = stack.read_text("utf-8")
    stack.write_text(text.replace("a stack for tests", "another word"), "utf-8")
    assert inputs_sha256(load_stack(str(stack)).model) == before
    stack.write_text(text.replace("3230c25f", "3230c25e"), "utf-8")
    assert inputs_sha256(load_stack(str(stack)).model) != before


# --- another lock in the way ------------------------------------------------------------------------------


def test_another_lock_is_not_overwritten_and_the_difference_is_told(bench: Bench) -> None:
    first = lock(small(bench))
    before = written(first.folder)
    old = first.lock.components[0]
    new = bench.pull(1, {"vllm/n.py": "other\n"})
    stack = bench.stack(bench.head(1, new))
    told = refusal(stack)
    assert told.splitlines() == [
        f"{first.folder / 'lock.json'} is another lock",
        f"  component vllm: #1: {old.heads[0].head} there, {new} now",
        f"  component vllm: tree {old.tree} there, {bench.origin.tree(new)} now",
        "--update replaces it on purpose, --output keeps both",
    ]
    assert written(first.folder) == before
    assert lock(stack, output=bench.root / "both").state == "written"
    assert lock(stack, update=True).state == "replaced"
    assert read_lock(first.folder).components[0].heads[0].head == new


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("3230c25f", "3230c25e"), "  base: reference="),
        (('"vllm"\nrepository', '"other"\nrepository'), "  component vllm: only there\n  component other: only now"),
        (("/opt/vllm", "/opt/other"), "  other fields differ"),
        (("\n\n[base]", '\nclaims = [{ type = "free_mib_min", mib = 1.0 }]\n[base]'), "  claims"),
    ],
)
def test_what_differs_is_told_in_a_line(bench: Bench, change: tuple[str, str], told: str) -> None:
    stack = small(bench)
    lock(stack)
    text = stack.read_text("utf-8")
    assert change[0] in text
    stack.write_text(text.replace(*change), "utf-8")
    assert told in refusal(stack)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"schema_version": 2}'])
def test_a_file_that_is_no_lock_is_in_the_way_too(bench: Bench, content: bytes) -> None:
    folder = bench.root / "locks" / "stack"
    folder.mkdir(parents=True)
    (folder / "lock.json").write_bytes(content)
    assert "is another lock\n" in refusal(small(bench))
    assert (folder / "lock.json").read_bytes() == content
    assert lock(small(bench), update=True).state == "replaced"


def test_a_patch_that_was_edited_or_lost_is_put_right_when_the_lock_is_the_same(bench: Bench) -> None:
    stack = small(bench)
    first = lock(stack)
    before = written(first.folder)
    (first.folder / "vllm" / "integration.patch").write_bytes(b"edited")
    (first.folder / "vllm" / "composed.tar").unlink()
    assert lock(stack).state == "repaired"
    assert written(first.folder) == before


# --- failures while writing -------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_old_lock_whole(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lock(small(bench)).folder
    before = written(folder)
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 3:  # patch and archive are on disk, the lock is not
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.stack.placing.os.fsync", fsync)
    stack = bench.stack(bench.head(1, bench.pull(1, {"vllm/n.py": "new\n"})))
    with pytest.raises(SetupFailure, match="cannot be written: No space left on device; --output names a place"):
        lock(stack, update=True)
    assert written(folder) == before


def test_the_lock_gets_its_name_last_so_that_it_vouches_for_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lock(small(bench)).folder
    before = written(folder)
    replace = Path.replace

    def killed_before_the_lock(self: Path, target: Path) -> Path:
        if target.name == "lock.json":
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", killed_before_the_lock)
    with pytest.raises(KeyboardInterrupt):
        lock(bench.stack(bench.head(1, bench.pull(1, {"vllm/n.py": "new\n"}))), update=True)
    after = written(folder)
    assert after["lock.json"] == before["lock.json"]
    assert after["vllm/integration.patch"] != before["vllm/integration.patch"]
    assert "SHA-256 is" in reading_refusal(folder)


def test_a_folder_that_cannot_be_written_to_is_a_failure_of_the_environment(bench: Bench) -> None:
    (bench.root / "file").write_text("x")
    with pytest.raises(SetupFailure, match="cannot be written"):
        lock(small(bench), output=bench.root / "file" / "below")


def test_a_full_temporary_folder_is_a_failure_of_the_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.stack.component.write_patch", full)
    with pytest.raises(SetupFailure, match=r"cannot lock: /.*: No space left on device"):
        lock(small(bench))
    assert not (bench.root / "locks").exists()


def test_nothing_stays_in_the_temporary_folder(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = bench.root / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    lock(small(bench))
    refusal(bench.stack(bench.head(9, "a" * 40)))
    assert list(temporary.iterdir()) == []


# --- reading -------------------------------------------------------------------------------------------------


def reading_refusal(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_lock(folder)
    return str(caught.value)


def test_an_edited_lock_is_refused(bench: Bench) -> None:
    folder = lock(small(bench)).folder
    text = (folder / "lock.json").read_text("utf-8")
    (folder / "lock.json").write_text(text.replace("3230c25f", "3230c25e"), "utf-8")
    assert "was edited after it was written" in reading_refusal(folder)


@pytest.mark.parametrize("name", ["integration.patch", "composed.tar"])
def test_an_edited_or_missing_file_beside_the_lock_is_refused(bench: Bench, name: str) -> None:
    folder = lock(small(bench)).folder
    (folder / "vllm" / name).write_bytes(b"edited")
    assert "SHA-256 is " in reading_refusal(folder)
    (folder / "vllm" / name).unlink()
    assert "cannot be read (No such file or directory)" in reading_refusal(folder)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "not valid JSON"),
        (b'{"schema_version": 2}', "schema 2 is newer than this harness knows (1); update it"),
        (b'{"schema_version": 1}', "no lock: `stack`: Field required"),
        (b"[]", "no lock: ``: "),
    ],
)
def test_what_is_no_lock_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "lock.json").write_bytes(content)
    assert told in reading_refusal(tmp_path)


def test_a_lock_that_is_not_there_says_what_writes_it(tmp_path: Path) -> None:
    assert "`qualify lock STACK` writes it" in reading_refusal(tmp_path)


@pytest.mark.parametrize("name", ["../../etc", "/etc", "a/b", ""])
def test_a_hostile_lock_cannot_name_a_component_that_leads_elsewhere(bench: Bench, name: str) -> None:
    folder = lock(small(bench)).folder
    tree = json.loads((folder / "lock.json").read_text("utf-8"))
    tree["components"][0]["name"] = name
    (folder / "lock.json").write_text(json.dumps(tree), "utf-8")
    with pytest.raises(ConfigError, match=r"no lock: `components\.0\.name`"):
        parse_lock(folder / "lock.json")


def test_a_lock_with_every_kind_of_input_is_read_back(bench: Bench) -> None:
    after = bench.origin.commit({"vllm/b.py": lines(l2="two = 2")}, bench.base)
    patch = bench.patch_file(bench.origin.patch(bench.base, after))
    outcome = lock(small(bench, extra=f"patches = [{inline(patch)}]"), without=("1",))
    assert read_lock(outcome.folder) == outcome.lock
