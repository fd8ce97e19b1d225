"""[[checks]] in profiles and stacks: what is accepted, how the rest is refused, and which ones a session runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.config.checks import Check
from harness.config.load import load_profile, load_stack
from harness.config.model import Profile, Stack, planned_checks
from harness.errors import ConfigError
from harness.session.plan import make_plan
from tests.judge.bundles import small_profile

FIELDS: dict[str, object] = {
    "name": "focused",
    "kind": "pytest",
    "component": "vllm",
    "command": ["python3", "-m", "pytest", "--noconftest", "{tests}"],
}
DIGEST = "sha256:" + "ab" * 32


def table(**changes: object) -> str:
    fields = {k: v for k, v in {**FIELDS, **changes}.items() if v is not None}
    return "\n[[checks]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


def stack(folder: Path, text: str, name: str = "s", extends: str = "") -> Stack:
    top = f"name = '{name}'\ndescription = 'd'\n" + (f"extends = '{extends}'\n" if extends else "")
    (folder / f"{name}.toml").write_text(top + text, "utf-8")
    return load_stack(str(folder / f"{name}.toml")).model


def docker_profile(*checks: Check) -> Profile:
    profile = small_profile({"launcher": "docker", "image.reference": f"r/vllm@{DIGEST}"})
    return profile.model_copy(update={"checks": checks})


def check(**changes: object) -> Check:
    return Check.model_validate_json(json.dumps({**FIELDS, **changes}))


class TestOneCheck:
    def test_defaults(self, tmp_path: Path) -> None:
        [found] = stack(tmp_path, table()).checks
        assert (found.files, found.tests) == (("**/*.py",), ("tests/**/test_*.py",))
        assert (found.folder, found.timeout_s) == ("", 600.0)

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"name": "A b"}, "key `checks.0.name`"),
            ({"name": None}, "key `checks.0.name`: Field required"),
            ({"kind": "unittest"}, "key `checks.0.kind`: Input should be 'pytest', 'ruff', 'mypy' or 'command'"),
            ({"command": "pytest tests"}, "key `checks.0.command`"),
            ({"command": []}, "key `checks.0.command`"),
            ({"command": [""]}, "command begins with the program to run"),
            ({"command": ["{tests}"]}, "command begins with the program to run"),
            ({"command": ["pytest", "-k={tests}"]}, "are arguments of their own, not a part of `-k={tests}`"),
            ({"command": ["pytest", "--junitxml=/x"]}, "`--junitxml` is set by the harness"),
            ({"command": ["pytest", "--rootdir", "/x"]}, "`--rootdir` is set by the harness"),
            ({"command": ["ruff", "-o", "/x"], "kind": "ruff"}, "`-o` is set by the harness"),
            ({"command": ["pytest", "--", "{tests}"]}, "`--` would turn the options that the harness adds into files"),
            ({"command": ["a\0b"]}, "key `checks.0.command.0`"),
            ({"component": "../x"}, "key `checks.0.component`"),
            ({"component": None}, "key `checks.0.component`: Field required"),
            ({"files": []}, "key `checks.0.files`"),
            ({"files": ["/opt/*.py"]}, "write a pattern of paths in the component's repository"),
            ({"tests": ["../tests/*.py"]}, "write a pattern of paths in the component's repository"),
            ({"folder": "tests"}, "write an absolute path inside the image"),
            ({"folder": "/opt/../etc"}, "write an absolute path inside the image"),
            ({"timeout_s": 0}, "key `checks.0.timeout_s`"),
            ({"timeout_s": "60"}, "key `checks.0.timeout_s`"),
            ({"install": ["pytest"]}, "unknown key"),
        ],
    )
    def test_what_cannot_be_used_is_named(self, tmp_path: Path, changes: dict[str, object], told: str) -> None:
        with pytest.raises(ConfigError) as caught:
            stack(tmp_path, table(**changes))
        assert told in str(caught.value)

    def test_a_name_stands_once_in_a_file(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="checks names something twice: focused"):
            stack(tmp_path, table() + table(kind="command"))

    def test_a_plain_command_may_have_any_argument(self) -> None:
        assert check(kind="command", command=["pre-commit", "run", "--", "{files}"]).command[-2] == "--"


class TestExtension:
    def test_a_child_adds_behind_its_parents(self, tmp_path: Path) -> None:
        stack(tmp_path, table(), "parent")
        child = stack(tmp_path, table(name="types", kind="mypy"), "child", "parent")
        assert [c.name for c in child.checks] == ["focused", "types"]

    def test_one_of_the_same_name_changes_its_values(self, tmp_path: Path) -> None:
        stack(tmp_path, table(), "parent")
        child = stack(tmp_path, "[[checks]]\nname = 'focused'\ntimeout_s = 9.0\n", "child", "parent")
        assert child.checks == (check(timeout_s=9.0),)

    def test_none_of_a_child_s_own_are_its_parents(self, tmp_path: Path) -> None:
        parent = stack(tmp_path, table(), "parent")
        assert stack(tmp_path, "", "child", "parent").checks == parent.checks


class TestPlanned:
    def arms(self, control: tuple[Check, ...], candidate: tuple[Check, ...], *own: Check) -> tuple[Check, ...]:
        sides = [
            Stack(name=name, description="d", checks=checks) for name, checks in (("one", control), ("two", candidate))
        ]
        return planned_checks(docker_profile(*own), sides[0], sides[1])

    def test_are_the_profiles_and_both_stacks_each_once(self) -> None:
        a, b, c = (check(name=name) for name in "abc")
        assert self.arms((a, b), (b, c), a) == (a, b, c)
        assert self.arms((), ()) == ()

    def test_two_of_one_name_must_be_the_same(self) -> None:
        with pytest.raises(ConfigError) as caught:
            self.arms((check(),), (check(timeout_s=9.0, folder="/opt"),))
        assert str(caught.value).startswith(
            "check `focused` is one thing in stack one and another in stack two (folder, timeout_s)"
        )

    def test_a_process_has_no_arm_s_source(self) -> None:
        arms = (Stack(name="one", description="d"), Stack(name="two", description="d", checks=(check(),)))
        with pytest.raises(ConfigError, match='launcher = "process" has one engine for both arms'):
            make_plan("s", small_profile(), *arms)

    def test_a_profile_of_processes_with_checks_is_refused_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "p.toml"
        head = "name = 'p'\ndescription = 'd'\nmodel.path = 'x'\nmodes = { mtp0 = {}, mtp1 = {} }\n"
        path.write_text(head + table(), "utf-8")
        with pytest.raises(ConfigError, match='Set launcher = "docker", or remove the checks'):
            load_profile(str(path))
