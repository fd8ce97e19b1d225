"""What a lock says about changed files, and the patch and the archive beside it."""

from __future__ import annotations

import re
import subprocess
import tarfile

import pytest

from tests.stack.bench import Bench, component, inline, lines, lock, refusal, sha256
from tests.stack.origin import ENVIRONMENT, Changes, Entry, link, program, submodule

BINARY = bytes(range(256)) * 40


def test_each_changed_file_has_modes_hashes_and_its_places_in_the_image(bench: Bench) -> None:
    changes: Changes = {
        "vllm/a.py": lines(l5="five = 5"),
        "vllm/b.py": program(lines()),
        "vllm/new.py": "new = 1\n",
        "README.md": None,
        "tests/test_a.py": lines(l1="one = 1"),
    }
    head = bench.pull(1, changes)
    only = component(lock(bench.stack(bench.head(1, head))))
    old = sha256(lines().encode())
    assert [(f.path, f.mode_before, f.mode_after, f.sha256_before, f.sha256_after) for f in only.files] == [
        ("README.md", "100644", None, sha256(b"hello\n"), None),
        ("tests/test_a.py", "100644", "100644", old, sha256(lines(l1="one = 1").encode())),
        ("vllm/a.py", "100644", "100644", old, sha256(lines(l5="five = 5").encode())),
        ("vllm/b.py", "100644", "100755", old, old),
        ("vllm/new.py", None, "100644", None, sha256(b"new = 1\n")),
    ]
    assert [f.path for f in only.not_installed] == ["README.md", "tests/test_a.py"]
    assert [f.copies for f in only.installed] == [
        (f"/opt/vllm/vllm/{name}", f"/venv/site-packages/vllm/{name}") for name in ("a.py", "b.py", "new.py")
    ]


def test_a_package_below_another_folder_is_installed_under_its_own_name(bench: Bench) -> None:
    head = bench.pull(1, {"src/b12x/moe.py": "x\n", "src/b12x_other/moe.py": "x\n", "b12x/moe.py": "x\n"})
    stack = bench.stack(bench.head(1, head), packages=["src/b12x"], install=["/site"])
    assert [(f.path, f.copies) for f in component(lock(stack)).files] == [
        ("b12x/moe.py", ()),
        ("src/b12x/moe.py", ("/site/b12x/moe.py",)),
        ("src/b12x_other/moe.py", ()),
    ]


def test_the_patch_takes_the_base_image_s_tree_to_the_result_binary_files_included(bench: Bench) -> None:
    base = bench.origin.commit({"vllm/table.bin": BINARY, "vllm/no_newline.py": "a = 1"}, bench.base)
    bench.base = bench.origin.branch("main", base)
    head = bench.pull(
        1,
        {
            "vllm/table.bin": BINARY[::-1],
            "vllm/no_newline.py": "a = 2",
            "vllm/ä b.py": "x = 1\n",
            "vllm/a.py": None,
            "vllm/run.sh": program("#!/bin/sh\n"),
            "vllm/link.py": link("b.py"),
        },
    )
    outcome = lock(bench.stack(bench.head(1, head)))
    only = component(outcome)
    patch = (outcome.folder / "vllm" / "integration.patch").read_bytes()
    assert only.patch_sha256 == sha256(patch)
    assert b"GIT binary patch" in patch
    # Whole object names: how many digits an abbreviated one has depends on the repository's size.
    names = [name for pair in re.findall(rb"^index (\w+)\.\.(\w+)", patch, re.MULTILINE) for name in pair]
    assert {len(name) for name in names} == {40}
    assert applied(bench, base, patch) == only.tree == bench.origin.tree(head)


def applied(bench: Bench, base: str, patch: bytes) -> str:
    """Tree after a patch, by git in a clone with a working directory: the way of somebody who has only the lock."""
    clone = bench.root / "clone"
    # Without --no-local the clone would share the origin's objects, and git apply would find the result there.
    bench.origin.git("clone", "--quiet", "--no-local", str(bench.origin.path), str(clone))
    for arguments in (["checkout", "--quiet", base], ["apply", "--index", "-"], ["write-tree"]):
        stdin = patch if "apply" in arguments else b""
        done = subprocess.run(
            ["git", *arguments], cwd=clone, env=ENVIRONMENT, input=stdin, capture_output=True, check=True
        )
    return done.stdout.decode().strip()


def test_the_archive_holds_every_changed_file_as_it_is_to_be(bench: Bench) -> None:
    changes: Changes = {
        "vllm/a.py": lines(l5="five = 5"),
        "vllm/run.sh": program("#!/bin/sh\n"),
        "vllm/link.py": link("b.py"),
        "README.md": None,
        "tests/test_a.py": "new\n",
        f"vllm/{'deep/' * 30}x.py": "deep\n",
    }
    outcome = lock(bench.stack(bench.head(1, bench.pull(1, changes))))
    path = outcome.folder / "vllm" / "composed.tar"
    assert component(outcome).composed_sha256 == sha256(path.read_bytes())
    with tarfile.open(path) as archive:
        members = {m.name: m for m in archive.getmembers()}
        assert list(members) == sorted(set(changes) - {"README.md"})
        assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members.values()} == {(0, 0, "", "", 0)}
        assert (members["vllm/a.py"].mode, members["vllm/run.sh"].mode) == (0o644, 0o755)
        assert (members["vllm/link.py"].issym(), members["vllm/link.py"].linkname) == (True, "b.py")
        for file in component(outcome).files:
            if file.mode_after in ("100644", "100755"):
                content = archive.extractfile(file.path)
                assert content is not None
                assert sha256(content.read()) == file.sha256_after


def test_a_large_file_is_carried_whole(bench: Bench) -> None:
    data = BINARY * 2000  # 20 MB
    outcome = lock(bench.stack(bench.head(1, bench.pull(1, {"vllm/weights.bin": data}))))
    assert component(outcome).files[0].sha256_after == sha256(data)
    with tarfile.open(outcome.folder / "vllm" / "composed.tar") as archive:
        content = archive.extractfile("vllm/weights.bin")
        assert content is not None
        assert content.read() == data


def test_a_file_that_becomes_a_folder_is_two_changes(bench: Bench) -> None:
    head = bench.pull(1, {"vllm/a.py": None, "vllm/a.py/inner.py": "x\n"})
    assert [(f.path, f.mode_after) for f in component(lock(bench.stack(bench.head(1, head)))).files] == [
        ("vllm/a.py", None),
        ("vllm/a.py/inner.py", "100644"),
    ]


# --- what a tree may not hold ------------------------------------------------------------------------


def test_a_submodule_is_refused_and_named(bench: Bench) -> None:
    head = bench.pull(1, {"third_party/cutlass": submodule(), ".gitmodules": "x\n"})
    told = refusal(bench.stack(bench.head(1, head)))
    assert told.startswith("component vllm: third_party/cutlass is a submodule, and a lock pins only its own")


def test_a_submodule_that_nobody_touches_is_no_obstacle(bench: Bench) -> None:
    bench.base = bench.origin.branch("main", bench.origin.commit({"third_party/cutlass": submodule()}, bench.base))
    head = bench.pull(1, {"vllm/n.py": "n\n"})
    assert component(lock(bench.stack(bench.head(1, head)))).files[0].path == "vllm/n.py"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../etc/passwd", "../.."])
def test_a_symbolic_link_out_of_the_tree_is_refused(bench: Bench, target: str) -> None:
    told = refusal(bench.stack(bench.head(1, bench.pull(1, {"vllm/x.py": link(target)}))))
    assert told == f"component vllm: vllm/x.py is a symbolic link out of the repository, to {target!r}"


@pytest.mark.parametrize("name", ["..", ".", ".git", ".GIT"])
def test_a_hostile_name_in_a_tree_is_refused(bench: Bench, name: str) -> None:
    """git makes no such tree itself, so it is written as bytes."""
    blob = bench.origin.git("hash-object", "-w", "--stdin", stdin=b"evil\n")
    inner = bench.origin.git(
        "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=b"100644 x.py\0" + bytes.fromhex(blob)
    )
    root = b"40000 " + name.encode() + b"\0" + bytes.fromhex(inner)
    tree = bench.origin.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=root)
    head = bench.origin.pull(1, bench.origin.git("commit-tree", tree, "-p", bench.base, "-m", "evil"))
    assert refusal(bench.stack(bench.head(1, head))) == f"component vllm: refusing the file name '{name}/x.py'"


@pytest.mark.parametrize("name", ["vllm/a\nb.py", "vllm/a\tb.py", "vllm/a\\b.py", "vllm/\x1b[31m.py"])
def test_a_name_that_would_forge_a_line_or_a_path_is_refused(bench: Bench, name: str) -> None:
    told = refusal(bench.stack(bench.head(1, bench.pull(1, {name: "x\n"}))))
    assert told == f"component vllm: refusing the file name {name!r}"


def test_a_name_that_is_no_text_is_refused(bench: Bench) -> None:
    blob = bench.origin.git("hash-object", "-w", "--stdin", stdin=b"x\n")
    tree = bench.origin.git(
        "hash-object", "-t", "tree", "-w", "--stdin", stdin=b"100644 \xff.py\0" + bytes.fromhex(blob)
    )
    head = bench.origin.pull(1, bench.origin.git("commit-tree", tree, "-p", bench.base, "-m", "latin"))
    assert "a file name is not UTF-8: b'\\xff.py'" in refusal(bench.stack(bench.head(1, head)))


# --- compiled sources ------------------------------------------------------------------------------------

COMPILED = [
    "csrc/x.cu",
    "vllm/ops/y.cpp",
    "setup.py",
    "CMakeLists.txt",
    "cmake/utils.cmake",
    "csrc/README.md",
    "a/b.CUH",
]
MEND = (
    'Set [build] mode = "source" in the stack, and `source` and `build_command` in the component, to have them '
    "built, or leave these heads out"
)
PLAIN = ["tests/kernels/x.cu", "benchmarks/b.cpp", "docs/setup.py", "vllm/csrc.py", "pyproject.toml", "vllm/x.pyi"]


@pytest.mark.parametrize("path", COMPILED)
def test_compiled_sources_in_an_overlay_are_refused_with_the_head_that_brings_them(bench: Bench, path: str) -> None:
    one = bench.pull(1, {"vllm/n.py": "n\n"})
    two = bench.pull(2, {path: "x\n"})
    told = refusal(bench.stack(bench.head(1, one), bench.head(2, two)))
    first, *rest = told.splitlines()
    assert first.startswith("component vllm: compiled sources change, and an overlay of files would leave ")
    assert rest == [
        f"  #2: {path}",
        MEND,
    ]


@pytest.mark.parametrize("path", PLAIN)
def test_what_no_build_reads_is_no_compiled_source(bench: Bench, path: str) -> None:
    assert component(lock(bench.stack(bench.head(1, bench.pull(1, {path: "x\n"}))))).files[0].path == path


def test_a_stack_that_is_built_from_source_may_touch_compiled_sources(bench: Bench) -> None:
    head = bench.pull(1, {"csrc/x.cu": "x\n"})
    how = {"source": "/src/vllm", "build_command": "make install"}
    outcome = lock(bench.stack(bench.head(1, head), top='build = { mode = "source" }', **how))
    assert outcome.lock.build_mode == "source"
    only = component(outcome)
    assert only.not_installed[0].path == "csrc/x.cu"
    assert (only.source, only.build_command) == ("/src/vllm", "make install")


def test_a_component_without_a_build_command_is_overlaid_all_the_same(bench: Bench) -> None:
    stack = bench.stack(bench.head(1, bench.pull(1, {"csrc/x.cu": "x\n"})), top='build = { mode = "source" }')
    assert "compiled sources change" in refusal(stack)


def test_a_build_command_of_a_stack_that_is_overlaid_is_no_part_of_its_lock(bench: Bench) -> None:
    how = {"source": "/src/vllm", "build_command": "make install"}
    only = component(lock(bench.stack(bench.head(1, bench.pull(1, {"vllm/n.py": "n\n"})), **how)))
    assert (only.source, only.build_command) == (None, "")


def test_compiled_sources_of_the_release_itself_are_in_the_image_already(bench: Bench) -> None:
    release = bench.origin.commit({"csrc/x.cu": "x\n"}, bench.base)
    patch = bench.patch_file(bench.origin.patch(bench.base, release), "release.patch")
    table = f"integration = {inline({**patch, 'tree': bench.origin.tree(release)})}"
    head = bench.pull(1, {"vllm/n.py": "n\n"})
    assert [f.path for f in component(lock(bench.stack(bench.head(1, head), extra=table))).files] == ["vllm/n.py"]


def test_local_patches_that_bring_compiled_sources_are_named_as_such(bench: Bench) -> None:
    after = bench.origin.commit({"csrc/x.cu": Entry("100644", "x\n")}, bench.base)
    patch = bench.patch_file(bench.origin.patch(bench.base, after))
    table = f"patches = [{inline(patch)}]"
    assert "\n  local patches: csrc/x.cu\n" in refusal(bench.stack(extra=table))
