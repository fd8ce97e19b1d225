"""Text prompts end to end: rendered once, the same ids for both arms, and needles in long ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.client.texts import DEPTHS, needles, rendered_sha256, texts
from harness.config.load import load_profile
from harness.errors import ConfigError
from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from harness.judge.case import read_case
from harness.judge.verdict import judge
from harness.words import Arm, ExitCode, Step, Word

from .sessions import Finished, fake_profile, run, stack

SEED = 3
"""Of the fake profile's plan."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forge(tmp_path_factory.mktemp("texts") / "model", Recipe(seed=1))


def session(folder: Path, model: Path, *arguments: str, control: str = "", candidate: str = "") -> Finished:
    """A profile that serves a folder: the fake's tokenizer knows words, which the forged model's does not."""
    path = fake_profile(folder)
    text = path.read_text("utf-8").replace("forge = { seed = 1 }", f'path = "{model}"')
    path.write_text(text.replace("[course]\n", '[course]\nprompts = "text"\n'), "utf-8")
    stacks = [stack(folder, n, QUALIFY_FAKE_FAULTS=f) for n, f in (("one", control), ("other", candidate))]
    arms = ("--control", str(stacks[0]), "--candidate", str(stacks[1]))
    return run(folder / "results", "--profile", str(path), *arms, *arguments)


def test_texts_are_rendered_once_and_both_arms_are_asked_the_same_ids(tmp_path: Path, model: Path) -> None:
    done = session(tmp_path, model, "-k", "identity or decode or acceptance")
    assert done.code == ExitCode.PASS, done.out
    case = read_case(done.bundle)
    assert case.prompts is not None
    assert list(case.prompts.ids) == [text.name for text in texts()]
    assert case.prompts.launch == case.plan.launches[0].id
    asked = {
        arm: [(r.window, r.index, r.prompt_sha256) for w in x.windows for r in w.requests if r.prompt_class == "text"]
        for x in case.launches.values()
        if x.record is not None
        for arm in (x.record.launch.arm,)
    }
    assert asked[Arm.CONTROL] == asked[Arm.CANDIDATE] != []
    row = done.row("text prompts")
    assert (row.word, row.control) == (Word.PASS, rendered_sha256(case.prompts.ids)[:12])
    assert done.row("known answers").word is Word.PASS
    assert "prompts.json" in (done.bundle.root / "SHA256SUMS").read_text("utf-8")


def test_the_class_of_the_prompts_stands_beside_every_figure_of_mtp(tmp_path: Path, model: Path) -> None:
    done = session(tmp_path, model, "-k", "identity or decode")
    for name in ("accepted / drafted, decode", "decode", "decode steps", "tokens per step"):
        assert {r.unit.partition(", ")[2] for r in done.rows(name)} == {"text prompts"}, name
    page = (done.bundle.report_dir / "report.html").read_text("utf-8")
    assert "decode 2K, tok/s, text prompts" in page
    assert "text prompts" in (done.bundle.report_dir / "report.md").read_text("utf-8")


def test_a_prompt_that_is_not_what_was_frozen_voids(tmp_path: Path, model: Path) -> None:
    done = session(tmp_path, model, "-k", "identity")
    file = done.bundle.root / "prompts.json"
    tree = json.loads(file.read_text("utf-8"))
    name = next(iter(tree["ids"]))
    tree["ids"][name][0] += 1
    file.write_text(json.dumps(tree), "utf-8")
    [row] = [r for r in judge(done.bundle).rows if r.name == "text prompts"]
    assert row.word is Word.VOID, row.reason
    assert "is not what prompts.json gives" in row.reason


def test_another_tokenizer_in_one_arm_is_said(tmp_path: Path, model: Path) -> None:
    done = session(tmp_path, model, "-k", "identity", candidate="other-tokenizer")
    row = done.row("text prompts")
    assert row.word is Word.WARN
    assert row.control != row.candidate
    assert "the arms' tokenizers differ: all were asked the ids that 00" in row.reason
    assert done.row("identity, candidate vs control").word is Word.PASS


class TestNeedles:
    """Alone after readiness, they are completions 2 to 6."""

    def answers(self, *missing: int) -> str:
        found = enumerate(needles(SEED))
        return ",".join(f"says= {n.answer}.@{2 + place}" for place, n in found if place not in missing)

    def test_every_depth_of_the_longest_context_is_asked(self, tmp_path: Path, model: Path) -> None:
        done = session(tmp_path, model, "-k", "needles", control=self.answers(), candidate=self.answers())
        assert done.code == ExitCode.PASS, done.out
        row = done.row("needles")
        assert (row.word, row.control, row.candidate, row.context_tokens) == (Word.PASS, "5 of 5", "5 of 5", 32_768)
        for launch in read_case(done.bundle).launches.values():
            [window] = launch.windows_in(Step.NEEDLE)
            assert [r.prompt_tokens for r in window.requests] == [32_768] * len(DEPTHS)

    def test_a_fact_that_only_the_control_finds_fails(self, tmp_path: Path, model: Path) -> None:
        done = session(tmp_path, model, "-k", "needles", control=self.answers(), candidate=self.answers(1, 3))
        row = done.row("needles")
        assert (row.word, row.control, row.candidate) == (Word.FAIL, "5 of 5", "3 of 5")
        assert row.reason.endswith("at 30 %, 70 % of the prompt")
        assert done.code == ExitCode.FAIL

    def test_a_model_that_finds_none_is_not_tested(self, tmp_path: Path, model: Path) -> None:
        done = session(tmp_path, model, "-k", "needles")
        assert done.row("needles").word is Word.NOT_TESTED
        assert done.row("needles").control == "0 of 5"


def test_a_forged_models_prompts_are_ids() -> None:
    with pytest.raises(ConfigError, match="a forged model has none"):
        load_profile("cpu-forged", overrides=[("course.prompts", "text", "test")])


@pytest.mark.parametrize("name", ["rtx5090", "rtxpro6000x4"])
def test_gpu_profiles_ask_texts(name: str) -> None:
    assert load_profile(name).model.course.prompts == "text"
