"""Stacks that extend others: what is taken over, what adds up, what replaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.config.load import load_stack
from harness.config.model import Stack
from harness.errors import ConfigError

COMMIT = "b" * 40
BASE = f"base = {{ reference = 'r/vllm@sha256:{'a' * 64}', release = 'r31' }}\n"
VLLM = f"""
[[components]]
name = "vllm"
repository = "https://forge.example/vllm.git"
base_commit = "{COMMIT}"
packages = ["vllm"]
install = ["/opt/vllm"]
heads = [{{ pr = 258, head = "{"1" * 40}", title = "first" }}, {{ pr = 270, head = "244d85a6fe99" }}]
"""
B12X = VLLM.replace("vllm", "b12x").replace("258", "130")


class Files:
    """Stack files in a folder, written and loaded by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str, extends: str = "") -> Path:
        top = f"name = '{Path(name).name}'\ndescription = 'd of {name}'\n"
        path = self.folder / f"{name}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(top + (f"extends = '{extends}'\n" if extends else "") + text, "utf-8")
        return path

    def load(self, name: str) -> Stack:
        return load_stack(str(self.folder / f"{name}.toml")).model

    def refusal(self, name: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load_stack(str(self.folder / f"{name}.toml"))
        return str(caught.value).replace(f"{self.folder}/", "")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A control with everything, and room for children."""
    made = Files(tmp_path)
    made.write("control", BASE + "serve.env = { A = '1', B = '1' }\n" + VLLM + B12X)
    return made


def heads(stack: Stack) -> dict[str, list[tuple[int, str]]]:
    return {c.name: [(h.pr, h.head[:3]) for h in c.heads] for c in stack.components}


def test_a_child_adds_heads_behind_its_parent_s_and_takes_over_the_rest(files: Files) -> None:
    more = "[[components]]\nname = 'vllm'\nheads = [{ pr = 271, head = '310c3ac9718f' }]\n"
    files.write("candidate", more, "control")
    control, candidate = files.load("control"), files.load("candidate")
    assert heads(candidate)["vllm"] == [*heads(control)["vllm"], (271, "310")]
    assert candidate.components[1] == control.components[1]
    assert candidate.components[0].model_copy(update={"heads": ()}) == control.components[0].model_copy(
        update={"heads": ()}
    )
    assert (candidate.base, candidate.serve) == (control.base, control.serve)
    assert (candidate.name, candidate.description, candidate.extends) == ("candidate", "d of candidate", "control")


def test_a_child_has_a_name_and_a_description_of_its_own(files: Files) -> None:
    (files.folder / "child.toml").write_text("extends = 'control'\n", "utf-8")
    assert files.refusal("child").splitlines() == [
        "child.toml: key `name`: Field required",
        "child.toml: key `description`: Field required",
    ]


def test_a_head_of_the_same_number_takes_the_parent_s_place(files: Files) -> None:
    files.write("child", "[[components]]\nname = 'vllm'\nheads = [{ pr = 258, head = '2222222' }]\n", "control")
    child = files.load("child")
    assert heads(child)["vllm"] == [(258, "222"), (270, "244")]
    assert child.components[0].heads[0].title == "first"


def test_a_child_may_supersede_a_head_of_its_parent(files: Files) -> None:
    more = "[[components]]\nname = 'vllm'\nheads = [{ pr = 300, head = '3333333', replaces = 270 }]\n"
    files.write("child", more, "control")
    assert files.load("child").components[0].superseded == {270: 300}


def test_a_child_may_bring_a_component_and_change_a_pin(files: Files) -> None:
    more = f"[[components]]\nname = 'vllm'\nbase_commit = '{'c' * 40}'\n{B12X.replace('b12x', 'lmcache')}"
    files.write("child", more, "control")
    child = files.load("child")
    assert [c.name for c in child.components] == ["vllm", "b12x", "lmcache"]
    assert (child.components[0].base_commit, len(child.components[0].heads)) == ("c" * 40, 2)


def test_local_patches_add_up_and_an_integration_patch_is_replaced_whole(files: Files) -> None:
    patch = "{{ path = '{0}.patch', sha256 = '{1}' }}"
    integration = "integration = {{ path = '{0}', sha256 = '{1}', tree = '{2}' }}\n"
    files.write(
        "parent",
        BASE + VLLM + f"patches = [{patch.format('one', '1' * 64)}]\n" + integration.format("r31", "3" * 64, "4" * 40),
    )
    more = f"[[components]]\nname = 'vllm'\npatches = [{patch.format('two', '2' * 64)}]\n"
    files.write("child", more + integration.format("r33", "5" * 64, "6" * 40), "parent")
    (vllm,) = files.load("child").components
    assert [p.path for p in vllm.patches] == ["one.patch", "two.patch"]
    assert vllm.integration is not None
    assert (vllm.integration.path, vllm.integration.tree) == ("r33", "6" * 40)


def test_it_goes_as_deep_as_it_must(files: Files) -> None:
    below = "control"
    for number in range(5):
        more = f"serve.env = {{ B = '{number}' }}\n[[components]]\nname = 'vllm'\n"
        files.write(f"s{number}", more + f"heads = [{{ pr = {number + 1}, head = '7777777' }}]\n", below)
        below = f"s{number}"
    stack = files.load("s4")
    assert [pr for pr, _ in heads(stack)["vllm"]] == [258, 270, 1, 2, 3, 4, 5]
    assert stack.serve.env == {"A": "1", "B": "4"}
    assert stack.extends == "s3"


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_circle_is_refused_with_all_its_members(files: Files, length: int) -> None:
    names = [f"c{number}" for number in range(length)]
    for name, parent in zip(names, (*names[1:], names[0]), strict=True):
        files.write(name, "", parent)
    told = files.refusal("c0")
    assert told == (f"c0.toml: key `extends`: a stack cannot extend itself ({' -> '.join((*names, 'c0'))})")


def test_a_circle_further_down_names_only_its_members(files: Files) -> None:
    files.write("a", "", "b")
    files.write("b", "", "c")
    files.write("c", "", "b")
    assert files.refusal("a").endswith("a stack cannot extend itself (b -> c -> b)")


@pytest.mark.parametrize(
    ("parent", "told"),
    [
        ("no-such-stack", "no such file in stacks/: `no-such-stack`. Give a path ending in .toml or one of: cpu-"),
        ("no-such-stack.toml", "there is no file no-such-stack.toml"),
        ("below/no.toml", "there is no file below/no.toml"),
    ],
)
def test_a_parent_that_is_not_there_is_named_with_the_file_that_wants_it(files: Files, parent: str, told: str) -> None:
    files.write("child", "", parent)
    assert files.refusal("child").startswith(f"child.toml: key `extends`: {told}")


def test_a_parent_is_seen_from_its_child_and_not_from_where_the_user_stands(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    Files(elsewhere).write("control", "")
    files.write("child", "", "control")
    files.write("by-path", "", "control.toml")
    monkeypatch.chdir(elsewhere)
    assert heads(files.load("child")) == heads(files.load("by-path")) == heads(files.load("control"))


def test_a_stack_of_the_project_can_be_extended_from_anywhere(files: Files) -> None:
    files.write("mine", "", "gg-v20-r31-258-270")
    assert heads(files.load("mine"))["b12x"] == [(130, "9ea")]


def test_paths_stay_those_of_the_file_that_names_them(files: Files) -> None:
    parent = (
        VLLM.replace("https://forge.example/vllm.git", "../mirrors/vllm.git")
        + f"patches = [{{ path = 'p/one.patch', sha256 = '{'1' * 64}' }}]\n"
        + f"integration = {{ path = 'r31.patch', sha256 = '{'1' * 64}', tree = '{'2' * 40}' }}\n"
    )
    files.write("base/parent", BASE + parent)
    files.write("mine/child", "", "../base/parent.toml")
    (vllm,) = files.load("mine/child").components
    assert vllm.integration is not None
    assert (vllm.patches[0].path, vllm.integration.path) == ("../base/p/one.patch", "../base/r31.patch")
    assert vllm.repository == "../mirrors/vllm.git"


# --- claims ----------------------------------------------------------------------------------------------


def claims(files: Files, parent: str, child: str) -> list[dict[str, Any]]:
    files.write("parent", f"claims = [{parent}]\n")
    files.write("child", f"claims = [{child}]\n", "parent")
    return [claim.model_dump(exclude_none=True) for claim in files.load("child").claims]


def test_claims_about_other_things_add_up(files: Files) -> None:
    found = claims(
        files, "{ type = 'free_mib_min', mib = 512.0 }", "{ type = 'kv_tokens_min_change', change_pct = -1.0 }"
    )
    assert [claim["type"] for claim in found] == ["free_mib_min", "kv_tokens_min_change"]


def test_a_claim_about_the_same_thing_replaces_the_parent_s(files: Files) -> None:
    found = claims(
        files,
        "{ type = 'kv_tokens_min_change', change_pct = -1.0 }",
        "{ type = 'kv_tokens_min_change', change_tokens = -192 }",
    )
    assert found == [{"type": "kv_tokens_min_change", "change_tokens": -192}]


def test_a_throughput_claim_is_about_its_metric_and_context(files: Files) -> None:
    one = "{ type = 'throughput_min_change', metric = 'prefill', context_tokens = 2048, change_pct = 1.0 }"
    found = claims(files, one, f"{one.replace('2048', '32768')}, {one.replace('1.0', '2.0')}")
    assert [(claim["context_tokens"], claim["change_pct"]) for claim in found] == [(2048, 2.0), (32768, 1.0)]


def test_kernels_that_are_no_longer_late_add_up(files: Files) -> None:
    late = "{{ type = 'late_jit_removed', kernels = {} }}"
    found = claims(files, late.format(["a", "b"]), late.format(["b", "c"]))
    assert found == [{"type": "late_jit_removed", "kernels": ("a", "b", "c")}]


# --- faults name both files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            "[[components]]\nname = 'vllm'\nheads = [{ pr = 1, head = 'x' }]",
            "control.toml and child.toml: key `components.0.heads.2.head`: String should match",
        ),
        (
            "[[components]]\nname = 'vllm'\nheads = [{ pr = 1, head = '1111111' }, { pr = 1, head = '2222222' }]",
            "control.toml and child.toml: key `components.0`: #1 stands twice in heads",
        ),
        (
            "[[components]]\nname = 'vllm'\nheads = [{ pr = 258, head = '1111111' }, { pr = 258, head = '2222222' }]",
            "control.toml and child.toml: key `components.0`: #258 stands twice in heads",
        ),
        ("[[components]]\nname = 'vlm'", "control.toml and child.toml: key `components.2.repository`: Field required"),
        ("components = 1", "control.toml and child.toml: key `components`: Input should be a valid array (got 1)"),
        ("claims = [1]", "child.toml: key `claims.0`: "),
        ("[[components]]\nname = ['vllm']", "control.toml and child.toml: key `components.2."),
    ],
)
def test_a_fault_in_what_two_files_make_names_both(files: Files, more: str, told: str) -> None:
    files.write("child", more + "\n", "control")
    assert files.refusal("child").startswith(told)


@pytest.mark.parametrize("extends", ["extends = 1", "extends = ['control']"])
def test_a_parent_is_one_name(files: Files, extends: str) -> None:
    files.write("child", extends + "\n")
    assert files.refusal("child").startswith("child.toml: key `extends`: Input should be a valid string")
