"""The examples in deploy/: they parse, and nothing of a stranger's can start on a self-hosted runner."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from harness.cli import _parser
from harness.config.load import load_profile
from harness.paths import PROJECT

DEPLOY = PROJECT / "deploy"
WORKFLOWS = sorted((DEPLOY / "github").glob("*.yml"), key=lambda p: p.name)
SAFE = {"schedule", "workflow_dispatch"}
every_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=[p.name for p in WORKFLOWS])


def workflow(name: str | Path) -> dict[str, Any]:
    tree = yaml.safe_load((DEPLOY / "github" / name).read_text("utf-8"))
    assert isinstance(tree, dict)
    return {("on" if key is True else key): value for key, value in tree.items()}  # YAML 1.1 reads `on` as true


def steps(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in tree["jobs"].values():
        yield from job["steps"]


def test_the_nightly_starts_by_the_clock_or_by_hand_and_by_nothing_else() -> None:
    assert set(workflow("nightly.yml")["on"]) == SAFE


def test_a_pull_request_starts_by_a_label_under_the_base_branchs_own_workflow() -> None:
    assert workflow("pull-request.yml")["on"] == {"pull_request_target": {"types": ["labeled"]}}


def test_a_pull_request_of_a_fork_or_a_stranger_is_refused() -> None:
    [job] = workflow("pull-request.yml")["jobs"].values()
    conditions = {part.strip() for part in job["if"].split("&&")}
    assert conditions == {
        "github.event.label.name == 'qualify'",
        "github.event.pull_request.head.repo.full_name == github.repository",
        """contains(fromJSON('["OWNER", "MEMBER", "COLLABORATOR"]'), github.event.pull_request.author_association)""",
    }


def test_what_is_checked_out_on_the_runner_is_never_the_pull_requests() -> None:
    refs = [s["with"]["ref"] for s in steps(workflow("pull-request.yml")) if "checkout" in s.get("uses", "")]
    assert refs == ["${{ github.event.pull_request.base.sha }}"]


@every_workflow
def test_a_token_may_read_and_no_secret_is_used(path: Path) -> None:
    tree = workflow(path)
    assert set(tree["permissions"].values()) == {"read"}
    assert not [job for job in tree["jobs"].values() if "permissions" in job]
    assert "secrets." not in path.read_text("utf-8")
    assert all(s["with"]["persist-credentials"] is False for s in steps(tree) if "checkout" in s.get("uses", ""))


@every_workflow
def test_no_text_of_an_event_becomes_part_of_a_script(path: Path) -> None:
    """`${{ ... }}` is put into a script before the shell reads it: a branch's name could be a command."""
    assert not [s for s in steps(workflow(path)) if "${{" in s.get("run", "")]


@every_workflow
def test_actions_are_pinned_and_one_job_runs_at_a_time(path: Path) -> None:
    tree = workflow(path)
    used = [s["uses"] for s in steps(tree) if "uses" in s]
    assert used
    assert all(re.fullmatch(r"actions/[a-z\-]+@[0-9a-f]{40}", u) for u in used)
    assert tree["concurrency"]["cancel-in-progress"] is False
    assert all("self-hosted" in job["runs-on"] for job in tree["jobs"].values())


def test_the_stack_that_a_labelled_head_is_written_into_is_a_valid_one(tmp_path: Path) -> None:
    """The step's own script, with a stack of this project in place of MY-STACK."""
    from harness.config.load import load_stack

    [script] = [s["run"] for s in steps(workflow("pull-request.yml")) if "TOML" in s.get("run", "")]
    (tmp_path / "stacks").mkdir()
    for name in ("gg-v20-r31-258-270", "gg-v20-r31-pr271"):
        shutil.copy(PROJECT / "stacks" / f"{name}.toml", tmp_path / "stacks")
    environment = {"PATH": "/usr/bin:/bin", "STACK": "gg-v20-r31-258-270", "COMPONENT": "vllm", "PR": "271"}
    for head, code in (("b" * 40, 0), ("$(touch /tmp/x)", 1)):
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=tmp_path,
            env={**environment, "HEAD": head},
            capture_output=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
    stack = load_stack(str(tmp_path / "stacks" / "gg-v20-r31-258-270-pr271.toml")).model
    [vllm] = [c for c in stack.components if c.name == "vllm"]
    assert (vllm.heads[-1].pr, vllm.heads[-1].head) == (271, "b" * 40)


# --- systemd -----------------------------------------------------------------------------------------


def unit(name: str) -> str:
    return (DEPLOY / "systemd" / name).read_text("utf-8")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_accepts_both_units(tmp_path: Path) -> None:
    qualify = tmp_path / "qualify"
    qualify.write_text("#!/bin/sh\n", "utf-8")
    qualify.chmod(0o755)
    paths = []
    for name in ("qualify-nightly.service", "qualify-nightly.timer"):
        path = tmp_path / name
        path.write_text(unit(name).replace("/opt/qualify/.venv/bin/qualify", str(qualify)), "utf-8")
        paths.append(str(path))
    done = subprocess.run(["systemd-analyze", "verify", *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in done.stderr, "not even a warning about them"


def test_a_missed_night_is_caught_up_with() -> None:
    assert "\nPersistent=true\n" in unit("qualify-nightly.timer")
    assert re.search(r"^OnCalendar=\*-\*-\* \d\d:\d\d:\d\d$", unit("qualify-nightly.timer"), re.MULTILINE)


def test_a_night_of_the_service_ends_as_ctrl_c_does_and_keeps_its_state() -> None:
    text = unit("qualify-nightly.service")
    assert "\nKillSignal=SIGINT\n" in text
    assert "\nStateDirectory=qualify\n" in text
    assert "\nSuccessExitStatus=1 10\n" in text, "an answer is no fault of the service"
    assert not re.search(r"^Restart=", text, re.MULTILINE), "nothing is retried into green"


def test_every_qualify_command_in_the_examples_is_one() -> None:
    files = [*WORKFLOWS, *(DEPLOY / "systemd").iterdir()]
    text = "\n".join(p.read_text("utf-8").replace("\\\n", " ") for p in files)
    found = re.findall(r"\.venv/bin/qualify ([a-z].*)", text)
    assert len(found) >= 6
    for line in found:
        words = re.sub(r"\$\{NIGHT:\+--night \"\$NIGHT\"\}", "--night 2026-11-30", line).replace('"', "").split()
        _parser().parse_args(words)


def test_the_keys_that_the_readme_shows_are_keys_with_these_defaults() -> None:
    block = (DEPLOY / "README.md").read_text("utf-8").partition("    [nightly]\n")[2].partition("\n\n")[0]
    shown = [re.sub(r"\s+#.*", "", line).strip() for line in block.splitlines()]
    settings = [
        ("nightly." + k.strip(), yaml.safe_load(v), "README") for k, _, v in (line.partition("=") for line in shown)
    ]
    nightly = load_profile("cpu-forged", overrides=settings).model.nightly
    assert (nightly.pairs, nightly.smallest_change_pct, nightly.keep, nightly.delete) == (4, 1.0, 60, False)
