"""A reviewer's challenge seeds the prompts, and what was sent follows from it."""

from __future__ import annotations

import hashlib
import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.config.load import load_profile
from harness.errors import ConfigError
from harness.evidence.bundle import Bundle
from harness.evidence.challenge import check_challenge
from harness.session.selection import select
from harness.words import ExitCode
from tests.judge.bundles import Session

CHALLENGE = "https://forge.example/o/r/pull/126#issuecomment-1"


def plan(challenge: str, seed: int = 1) -> Any:
    return Session(Path("unused"), {"plan.challenge": challenge, "plan.seed": seed}).plan


def bundle(folder: Path, challenge: str = CHALLENGE) -> Bundle:
    return Session(folder, {"plan.challenge": challenge}).build()


def edit(path: Path, change: Callable[[list[Any]], None]) -> None:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


# --- the seed ----------------------------------------------------------------------------------------


def test_without_a_challenge_nothing_changes() -> None:
    assert plan("").prompt_seed == plan("").seed == 1


def test_the_prompts_follow_from_seed_and_challenge_through_sha256() -> None:
    digest = hashlib.sha256(f"challenge/1/1/{CHALLENGE}".encode()).digest()
    assert plan(CHALLENGE).prompt_seed == int.from_bytes(digest, "big")
    assert len({plan(CHALLENGE).prompt_seed, plan(CHALLENGE, 2).prompt_seed, plan("other").prompt_seed}) == 3


def test_the_order_of_the_launches_does_not_follow_from_it() -> None:
    assert plan(CHALLENGE).launches == plan("").launches


# --- what a challenge may be -------------------------------------------------------------------------


@pytest.mark.parametrize("text", [CHALLENGE, "4711", "a b", "x" * 200, "A-Z_0.9~!$&'()*+,;=%20?q=@me"])
def test_an_address_or_a_name_is_one(text: str) -> None:
    assert load_profile("cpu-forged", overrides=[("plan.challenge", text, "test")]).model.plan.challenge == text


@pytest.mark.parametrize(
    "text",
    ["x" * 201, " x", "x ", "a\nb", "a\tb", "a`b", "<b>", 'a"b', "a\\b", "ä", "\u0430", "a\u200bb", "a\x00"],
    ids=ascii,
)
def test_what_could_look_like_another_one_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write 1 to 200 characters that an address or a name has"):
        load_profile("cpu-forged", overrides=[("plan.challenge", text, "option --challenge")])


def test_a_refusal_is_a_fault_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--profile", "cpu-forged", "--challenge", "a`b"]) == ExitCode.USAGE
    assert "challenge: write 1 to 200 characters" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "origin"), [(["--challenge", "4711"], "option --challenge"), ([], "environment QUALIFY_CHALLENGE")]
)
def test_the_plan_shows_it_and_where_it_came_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], origin: str
) -> None:
    monkeypatch.setenv("QUALIFY_CHALLENGE", "4711")
    assert main(["plan", "-v", "--profile", "cpu-forged", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "challenge  4711" in lines
    [value] = [line for line in lines if line.startswith("  plan.challenge = ")]
    assert value.startswith(f"  plan.challenge = '4711'  ({origin}")


def test_pytest_alone_takes_it_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUALIFY_CHALLENGE", CHALLENGE)
    names = ("control", "candidate", "control_lock", "candidate_lock")
    chosen = select(Namespace(profile="cpu-forged", smoke=False, set=[], **dict.fromkeys(names, "")))
    assert chosen.profile.model.plan.challenge == CHALLENGE


# --- what was sent -----------------------------------------------------------------------------------


@pytest.mark.parametrize("challenge", ["", CHALLENGE])
def test_every_prompt_is_derived_again(tmp_path: Path, challenge: str) -> None:
    made = bundle(tmp_path, challenge)
    assert check_challenge(made.root) == []


def test_a_challenge_that_was_put_in_later_fits_no_prompt(tmp_path: Path) -> None:
    made = bundle(tmp_path, "")
    tree = json.loads(made.plan_file.read_bytes())
    tree["challenge"] = tree["profile"]["plan"]["challenge"] = CHALLENGE
    made.plan_file.write_text(json.dumps(tree), "utf-8")
    found = check_challenge(made.root)
    requests = sum(len(p.read_text("utf-8").splitlines()) for p in made.root.glob("launches/*/requests.jsonl"))
    assert len(found) == requests > 0
    assert {m.field for m in found} == {"prompt_sha256"}


def test_a_challenge_that_the_profile_does_not_have_is_named(tmp_path: Path) -> None:
    made = bundle(tmp_path, CHALLENGE)
    tree = json.loads(made.plan_file.read_bytes())
    tree["profile"]["plan"]["challenge"] = "another"
    made.plan_file.write_text(json.dumps(tree), "utf-8")
    assert [str(m) for m in check_challenge(made.root)] == [f"plan.json: challenge: says {CHALLENGE}, is another"]


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[2].update(prompt_sha256="0" * 64),
        lambda lines: lines[2].update(prompt_tokens=lines[2]["prompt_tokens"] + 1),
        lambda lines: lines[2].update(prompt_tokens=1 << 60),
        lambda lines: lines[2].update(prompt_tokens=-1),
        lambda lines: lines[2].update(index=lines[2]["index"] + 1),
        lambda lines: lines[2].update(prompt_class="text"),
        lambda lines: lines[2].update(prefix_tokens=3),
    ],
    ids=["hash", "longer", "huge", "negative", "another place", "text", "a follow-up"],
)
def test_a_prompt_that_does_not_follow_is_named_by_its_line(
    tmp_path: Path, change: Callable[[list[Any]], None]
) -> None:
    made = bundle(tmp_path)
    [path] = made.root.glob("launches/002-*/requests.jsonl")
    edit(path, change)
    [mismatch] = check_challenge(made.root)
    assert mismatch.file == f"{path.relative_to(made.root).as_posix()}:3"
    assert mismatch.field == "prompt_sha256"
