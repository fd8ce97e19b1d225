"""The release's integration patch and local patches: hashed, applied, held against the tree."""

from __future__ import annotations

import json

import pytest

from tests.stack.bench import Bench, component, heads, inline, lines, lock, refusal, sha256


def integration(bench: Bench, **more: str) -> tuple[str, str]:
    """A release that is the base and one change, as table of the stack; and the commit that it equals."""
    release = bench.origin.commit({"vllm/a.py": lines(l1="release = 1"), "vllm/r31.py": "r31 = 1\n"}, bench.base)
    patch = bench.patch_file(bench.origin.patch(bench.base, release), "release.patch")
    table = inline({**patch, "tree": bench.origin.tree(release), **more})
    return f"integration = {table}", release


def test_base_and_integration_patch_are_the_image_and_heads_go_onto_them(bench: Bench) -> None:
    table, release = integration(bench)
    head = bench.pull(5, {"vllm/a.py": lines(l15="fifteen = 15")})
    only = component(lock(bench.stack(bench.head(5, head), extra=table)))
    assert only.base_tree == bench.origin.tree(bench.base)
    assert only.tree_before == bench.origin.tree(release)
    assert only.integration is not None
    assert (only.integration.file, len(only.integration.sha256)) == ("release.patch", 64)
    # Only what the head adds differs from the image.
    assert [file.path for file in only.files] == ["vllm/a.py"]
    expected = bench.origin.tree_with({"vllm/a.py": lines(l1="release = 1", l15="fifteen = 15")}, release)
    assert only.tree == expected


def test_a_head_that_the_release_holds_already_is_in_base(bench: Bench) -> None:
    table, _ = integration(bench)
    head = bench.pull(5, {"vllm/a.py": lines(l1="release = 1")})
    assert heads(lock(bench.stack(bench.head(5, head), extra=table)))[5].disposition == "already in base"


def test_an_integration_patch_with_another_hash_is_refused_before_it_is_applied(bench: Bench) -> None:
    table, _ = integration(bench, source="github.com/x/y, patches/r31")
    data = (bench.stacks / "release.patch").read_bytes()
    edited = data + b"\n"
    (bench.stacks / "release.patch").write_bytes(edited)
    told = refusal(bench.stack(extra=table))
    assert told == (
        f"component vllm: patch {bench.stacks / 'release.patch'} has SHA-256 {sha256(edited)}, "
        f"the stack says {sha256(data)}; get it from github.com/x/y, patches/r31"
    )


def test_an_integration_patch_that_is_not_there_says_where_to_get_it(bench: Bench) -> None:
    table, _ = integration(bench, source="github.com/x/y, patches/r31")
    (bench.stacks / "release.patch").unlink()
    told = refusal(bench.stack(extra=table))
    assert "cannot be read (No such file or directory); get it from github.com/x/y, patches/r31" in told


def test_another_tree_than_the_image_s_is_refused_with_both(bench: Bench) -> None:
    table, release = integration(bench, tree="f" * 40)
    told = refusal(bench.stack(extra=table))
    assert told == (
        f"component vllm: base_commit and integration patch give tree {bench.origin.tree(release)}, but the image "
        f"holds {'f' * 40}; one of the three is of another release"
    )


def test_an_integration_patch_for_another_base_does_not_apply(bench: Bench) -> None:
    table, _ = integration(bench)
    other = bench.origin.branch("main", bench.origin.commit({"vllm/a.py": lines(l1="other = 1")}, bench.base))
    told = refusal(bench.stack(extra=table, base_commit=other))
    assert told.startswith("component vllm: integration patch release.patch does not apply: error: patch failed")


def local(*patches: dict[str, str]) -> str:
    return f"patches = [{', '.join(map(inline, patches))}]"


def test_local_patches_go_on_last_and_in_their_order(bench: Bench) -> None:
    first = bench.origin.commit({"vllm/a.py": lines(l5="first = 5")}, bench.base)
    second = bench.origin.commit({"vllm/a.py": lines(l5="second = 5")}, first)
    head = bench.pull(1, {"vllm/b.py": lines(l5="five = 5")})
    patches = [
        bench.patch_file(bench.origin.patch(*pair), f"{n}.patch")
        for n, pair in enumerate(((bench.base, first), (first, second)))
    ]
    only = component(lock(bench.stack(bench.head(1, head), extra=local(*patches))))
    expected = {"vllm/a.py": lines(l5="second = 5"), "vllm/b.py": lines(l5="five = 5")}
    assert only.tree == bench.origin.tree_with({**expected}, bench.base)
    assert [(p.file, p.sha256) for p in only.patches] == [(p["path"], p["sha256"]) for p in patches]
    told = refusal(bench.stack(bench.head(1, head), extra=local(*reversed(patches))), update=True)
    assert told.startswith("component vllm: patch 1.patch does not apply: ")


def test_a_binary_patch_is_applied(bench: Bench) -> None:
    data = bytes(range(256)) * 20
    after = bench.origin.commit({"vllm/table.bin": data}, bench.base)
    patch = bench.patch_file(bench.origin.patch(bench.base, after))
    only = component(lock(bench.stack(extra=local(patch))))
    assert only.tree == bench.origin.tree(after)
    assert only.files[0].sha256_after == sha256(data)


OUT = """diff --git a/{0} b/{0}
new file mode 100644
--- /dev/null
+++ b/{0}
@@ -0,0 +1 @@
+evil
"""


@pytest.mark.parametrize("path", ["../evil.py", "vllm/../../evil.py", "/tmp/evil.py", ".git/config", ".git/hooks/x"])
def test_a_patch_that_leaves_the_tree_is_refused(bench: Bench, path: str) -> None:
    told = refusal(bench.stack(extra=local(bench.patch_file(OUT.format(path).encode()))))
    assert "patch local.patch does not apply: error: invalid path" in told or "refusing the file name" in told


def test_a_patch_through_a_symbolic_link_is_refused(bench: Bench) -> None:
    link = "diff --git a/out b/out\nnew file mode 120000\n--- /dev/null\n+++ b/out\n@@ -0,0 +1 @@\n+/tmp\n"
    link += "\\ No newline at end of file\n"
    told = refusal(bench.stack(extra=local(bench.patch_file((link + OUT.format("out/evil.py")).encode()))))
    assert "does not apply" in told


def test_what_is_no_patch_is_refused(bench: Bench) -> None:
    told = refusal(bench.stack(extra=local(bench.patch_file(b"hello\n"))))
    assert "patch local.patch does not apply: error: No valid patches in input" in told


@pytest.mark.parametrize("path", ["/home/me/local.patch", "./local.patch", "-local.patch", "", "a\nb.patch", "a//b"])
def test_a_patch_is_named_relative_to_the_stack(bench: Bench, path: str) -> None:
    told = refusal(bench.stack(extra=f"patches = [{{ path = {json.dumps(path)}, sha256 = '{'a' * 64}' }}]"))
    assert "key `components.0.patches.0.path`: " in told
