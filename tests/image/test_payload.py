"""The build context: the same bytes for the same lock, and nothing in it that no copy or build needs."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError
from harness.image import payload
from harness.image.names import tag_of
from harness.image.payload import is_built, watched, write_context
from harness.paths import PROJECT
from harness.stack.lock import Outcome
from tests.stack.bench import Bench, component, lines, lock, sha256
from tests.stack.origin import link

SOURCE = 'build = { mode = "source", installs = ["/venv/bin"] }'


def context(outcome: Outcome) -> tuple[bytes, str]:
    target = io.BytesIO()
    digest = write_context(outcome.lock, outcome.folder, target)
    return target.getvalue(), digest


def unpacked(outcome: Outcome) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(context(outcome)[0])) as archive:
        streams = {member.name: archive.extractfile(member) for member in archive}
        return {name: stream.read() for name, stream in streams.items() if stream}


def manifest(outcome: Outcome) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(unpacked(outcome)["payload/manifest.json"])
    return tree


def changed(bench: Bench, **how: Any) -> Outcome:
    head = bench.pull(
        1,
        {
            "vllm/a.py": lines(l5="five = 5"),
            "vllm/same.py": lines(l5="five = 5"),
            "vllm/l.py": link("a.py"),
            "vllm/b.py": None,
            "tests/test_a.py": "test\n",
            "README.md": "new\n",
        },
    )
    return lock(bench.stack(bench.head(1, head), **how))


def test_the_same_lock_gives_the_same_bytes_wherever_it_lies(bench: Bench) -> None:
    outcome = changed(bench)
    moved = bench.root / "elsewhere"
    outcome.folder.rename(moved)
    again = changed(bench)
    data, digest = context(again)
    assert context(Outcome(again.lock, moved, "unchanged")) == (data, digest)
    assert digest == sha256(data)


def test_no_entry_tells_who_made_it_or_when(bench: Bench) -> None:
    with tarfile.open(fileobj=io.BytesIO(context(changed(bench))[0])) as archive:
        facts = {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode, m.isreg()) for m in archive}
    assert facts == {(0, 0, 0, "", "", 0o644, True)}


def test_it_holds_dockerfile_program_manifest_and_each_content_once(bench: Bench) -> None:
    files = unpacked(changed(bench))
    assert files["Dockerfile"] == (PROJECT / "Dockerfile").read_bytes()
    assert {name for name in files if name.startswith("payload/files/")} == {
        f"payload/files/{sha256(lines(l5='five = 5').encode())}"
    }
    assert all(sha256(data) == name.rpartition("/")[2] for name, data in files.items() if "/files/" in name)
    assert "payload/program/__main__.py" in files
    assert {name.split("/")[0] for name in files} == {"Dockerfile", "payload"}


def test_the_manifest_names_each_installed_file_with_before_after_and_copies(bench: Bench) -> None:
    old, new = sha256(lines().encode()), sha256(lines(l5="five = 5").encode())
    tree = manifest(changed(bench))
    assert tree["builds"] == []
    by_path = {file["path"]: file for file in tree["files"]}
    assert list(by_path) == ["vllm/a.py", "vllm/b.py", "vllm/l.py", "vllm/same.py"]
    assert by_path["vllm/a.py"] == {
        "component": "vllm",
        "path": "vllm/a.py",
        "before": {"mode": "100644", "sha256": old},
        "after": {"mode": "100644", "sha256": new, "link": ""},
        "places": ["/opt/vllm/vllm/a.py", "/venv/site-packages/vllm/a.py"],
    }
    assert by_path["vllm/b.py"]["after"] is None
    assert by_path["vllm/same.py"]["before"] is None
    assert by_path["vllm/l.py"]["after"] == {"mode": "120000", "sha256": sha256(b"a.py"), "link": "a.py"}


def test_a_build_gets_all_that_it_may_read_and_no_tests(bench: Bench) -> None:
    tree = manifest(changed(bench, top=SOURCE, source="/src/vllm", build_command="make install"))
    (build,) = tree["builds"]
    assert tree["files"] == []
    assert (build["source"], build["command"]) == ("/src/vllm", "make install")
    assert {item["places"][0] for item in build["sources"]} == {
        "/src/vllm/README.md",
        *(f"/src/vllm/vllm/{name}.py" for name in ("a", "b", "l", "same")),
    }
    assert len(build["installed"]) == 4


def test_the_source_of_an_extension_need_not_be_installed(bench: Bench) -> None:
    head = bench.pull(1, {"vllm/x.cu": "x\n", "vllm/n.py": "n\n"})
    stack = bench.stack(bench.head(1, head), top=SOURCE, source="/src/vllm", build_command="make install")
    (build,) = manifest(lock(stack))["builds"]
    assert {item["path"]: item["optional"] for item in build["installed"]} == {"vllm/n.py": False, "vllm/x.cu": True}


def test_of_a_source_folder_that_is_a_copy_only_the_packages_are_kept(bench: Bench) -> None:
    """A build leaves its objects beside them."""
    outcome = changed(bench, top=SOURCE, source="/opt/vllm", build_command="make install")
    assert watched(outcome.lock, component(outcome)) == ("/opt/vllm/vllm", "/venv/site-packages", "/venv/bin")


def test_what_changes_nothing_installed_is_built(bench: Bench) -> None:
    outcome = lock(bench.stack(bench.head(1, bench.pull(1, {"tests/test_a.py": "x\n", "README.md": "x\n"}))))
    assert not is_built(outcome.lock)
    assert is_built(changed(bench, name="other").lock)


def test_a_build_that_nothing_changed_for_does_not_run(bench: Bench) -> None:
    how = {"top": SOURCE, "source": "/src/vllm", "build_command": "make install"}
    assert not is_built(lock(bench.stack(**how)).lock)


def test_the_tag_names_lock_and_context(bench: Bench) -> None:
    outcome = changed(bench)
    digest = context(outcome)[1]
    assert tag_of(outcome.lock, digest) == f"qualify/stack:{outcome.lock.sha256[:16]}-{digest[:16]}"


def test_another_program_or_dockerfile_makes_another_context(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that another version of this harness made is not taken for one of this version."""
    outcome = changed(bench)
    before = context(outcome)[1]
    program = bench.root / "program"
    shutil.copytree(payload.PROGRAM, program)
    (program / "main.py").write_text("# another\n", "utf-8")
    monkeypatch.setattr(payload, "PROGRAM", program)
    other_program = context(outcome)[1]
    dockerfile = bench.root / "Dockerfile"
    dockerfile.write_bytes(payload.DOCKERFILE.read_bytes() + b"# another\n")
    monkeypatch.setattr(payload, "DOCKERFILE", dockerfile)
    assert len({before, other_program, context(outcome)[1]}) == 3


def test_another_build_command_makes_another_image(bench: Bench) -> None:
    how = {"top": SOURCE, "source": "/src/vllm"}
    one = changed(bench, **how, build_command="make install", name="one")
    two = changed(bench, **how, build_command="make install-again", name="two")
    commands = [manifest(outcome)["builds"][0]["command"] for outcome in (one, two)]
    assert commands == ["make install", "make install-again"]
    assert one.lock.sha256 != two.lock.sha256
    assert context(one)[1] != context(two)[1]


def test_a_project_without_its_dockerfile_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "DOCKERFILE", bench.root / "Dockerfile")
    with pytest.raises(ConfigError, match=r"Dockerfile: cannot be read .*QUALIFY_PROJECT names the checkout"):
        context(changed(bench))


def test_a_stack_whose_name_no_repository_can_have_gets_another(bench: Bench) -> None:
    outcome = changed(bench, name="stack-")
    assert tag_of(outcome.lock, "0" * 64).startswith("qualify/stack:")


def test_the_project_s_dockerfile_is_found_from_anywhere(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert Path("Dockerfile").exists() is False
    assert "Dockerfile" in unpacked(changed(bench))
