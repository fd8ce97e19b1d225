"""What a visit's plan may say, and that the shipped ones fit the machines that they are for."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterable
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.beside_vllm_bench import BEYOND, FAILED, STOPPED
from harness.config.load import load_profile
from harness.config.options import SETTINGS, from_arguments
from harness.errors import ConfigError
from harness.paths import PROJECT
from tools.visit.plan import Step, VisitPlan, read_plan, read_plans

VISITS = sorted((PROJECT / "tools" / "visits").glob("*.toml"))
PLACES = {"reference": f"127.0.0.1:5000/vllm-base@sha256:{'0' * 64}", "stacks": "/stacks", "out": "/out", "large": "/m"}
BEYOND_IDLE_S = 30.0

every_visit = pytest.mark.parametrize("file", VISITS, ids=[file.stem for file in VISITS])


def step(**changes: object) -> Step:
    return Step.model_validate({"name": "one", "seconds": 10, "why": "to see", "run": ("--smoke",), **changes})


def write(folder: Path, text: str) -> Path:
    file = folder / "plan.toml"
    file.write_text(text, "utf-8")
    return file


def test_a_session_is_the_projects_own_command_with_places_filled_in() -> None:
    made = step(run=("--set", "image.reference={reference}")).argv("python3", PLACES)
    assert made == ["python3", "-m", "harness.cli", "run", "--set", f"image.reference={PLACES['reference']}"]


def test_another_program_is_pythons() -> None:
    assert step(run=(), program=("b.py", "{out}")).argv("python3", PLACES) == ["python3", "b.py", "/out"]


def test_a_place_that_nobody_made_is_named() -> None:
    with pytest.raises(ConfigError, match=r"step one: nobody made the place \{nowhere\}"):
        step(run=("{nowhere}",)).argv("python3", PLACES)


@pytest.mark.parametrize("changes", [{"run": ()}, {"program": ("b.py",)}], ids=["neither", "both"])
def test_a_step_is_one_thing(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="give `run` or `program`"):
        step(**changes)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"results": [0]}, "a session's are verdicts"),
        ({"run": (), "program": ("b.py",), "results": []}, "at least 1 item"),
        ({"run": (), "program": ("b.py",), "results": [0, 4, 4]}, "names a code twice"),
        ({"run": (), "program": ("b.py",), "results": [0, 1]}, "1 is how Python ends a program that raised"),
        ({"run": (), "program": ("b.py",), "results": [256]}, "less than or equal to 255"),
        ({"run": (), "program": ("b.py",), "results": ["0"]}, "valid integer"),
        ({"run": (), "program": ("b.py",), "results": [False]}, "valid integer"),
    ],
    ids=["of-a-session", "none", "twice", "a-crash", "no-code", "a-text", "a-bool"],
)
def test_results_are_exit_codes_that_only_a_program_says(changes: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        step(**changes)


def test_a_plans_results_are_as_strict_in_a_file(tmp_path: Path) -> None:
    text = 'description = "x"\n[[steps]]\nname = "x"\nseconds = 1\nwhy = "x"\nprogram = ["b.py"]\nresults = {}\n'
    assert read_plan(write(tmp_path, text.format("[0, 4]"))).steps[0].results == (0, 4)
    with pytest.raises(ConfigError, match=r"steps\.0\.results\.0: Input should be a valid integer"):
        read_plan(write(tmp_path, text.format('["4"]')))


def test_a_finding_beside_vllms_own_tool_is_a_result_and_an_asker_that_failed_is_none() -> None:
    steps = {one.name: one for one in read_plan(PROJECT / "tools" / "visits" / "h200.toml").steps}
    assert set(steps["bench-serve"].results) == {0, BEYOND}
    assert not {FAILED, STOPPED} & set(steps["bench-serve"].results)


def test_two_steps_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="names something twice: one"):
        VisitPlan(description="twice", steps=(step(), step()))


@pytest.mark.parametrize(
    ("text", "told"),
    [("steps = 1", "description"), ("description = [", "plan.toml"), ('description = "x"\nsteps = []', "steps")],
    ids=["no-list", "no-toml", "empty"],
)
def test_a_file_that_is_no_plan_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_plan(write(tmp_path, text))


def test_plans_follow_one_another(tmp_path: Path) -> None:
    text = 'description = "{0}"\n[[steps]]\nname = "{0}"\nseconds = 1\nwhy = "to see"\nrun = ["--smoke"]\n'
    files = [tmp_path / f"{name}.toml" for name in ("a", "b")]
    for file in files:
        file.write_text(text.format(file.stem), "utf-8")
    both = read_plans(files)
    assert (both.description, [one.name for one in both.steps]) == ("a; b", ["a", "b"])
    with pytest.raises(ConfigError, match=r"a\.toml, .*a\.toml: .*names something twice: a"):
        read_plans(files[:1] * 2)


def test_the_shipped_plans_of_one_and_two_gpus_go_together() -> None:
    read_plans([PROJECT / "tools" / "visits" / f"{name}.toml" for name in ("h200", "h200x2")])


@every_visit
def test_a_shipped_plan_can_be_read_and_its_places_are_made(file: Path) -> None:
    for one in read_plan(file).steps:
        one.argv("python3", PLACES)


@every_visit
def test_a_steps_estimate_is_not_below_its_launches(file: Path) -> None:
    """A step that is begun too late is cut off, and its bundle proves nothing."""
    from harness.session.plan import make_plan
    from tests.judge.bundles import stack

    for one in read_plan(file).steps:
        if not one.run:
            continue
        given = one.argv("python3", PLACES)[4:]
        options = dict(zip(given[::2], given[1::2], strict=True))
        sets = [b for a, b in zip(given[::2], given[1::2], strict=True) if a == "--set"]
        chosen = {s.dest: options.get(s.option) for s in SETTINGS}
        profile = load_profile(options["--profile"], overrides=list(from_arguments(chosen, sets))).model
        assert profile.host.gpus * profile.host.lanes == one.gpus, one.name
        planned = make_plan("s", profile, stack("a"), stack("b"))
        assert one.seconds >= planned.estimate_s, one.name


@pytest.mark.parametrize("script", sorted((PROJECT / "tools" / "visit").glob("*.sh")), ids=lambda script: script.name)
def test_a_script_of_the_visit_is_one(script: Path) -> None:
    """On the machine there is no time to find out."""
    shell = script.read_text("utf-8").partition("\n")[0].removeprefix("#!")
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


HELD = frozenset(
    re.findall(
        r"\S+",
        """certifi charset-normalizer contourpy cycler execnet filelock fonttools idna iniconfig jinja2 kiwisolver
        markupsafe matplotlib numpy nvidia-ml-py packaging pandas pillow pluggy prometheus-client
        psutil pyarrow pygments pyparsing python-dateutil requests safetensors scipy six typing-extensions
        urllib3""",
    )
)
"""Packages of the machine's image that serve the harness as they are."""


def needed(lines: Iterable[str], found: set[str]) -> set[str]:
    """Add to `found` each distribution that these requirements name, and what it needs where it is installed here."""
    for need in map(Requirement, lines):
        name = canonicalize_name(need.name)
        if name not in found and (need.marker is None or need.marker.evaluate({"extra": ""})):
            found.add(name)
            needed(requires(name) or [], found)
    return found


def test_what_the_harness_imports_and_the_machine_lacks_is_packed() -> None:
    """There a missing wheel costs the whole visit."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    script = (PROJECT / "tools" / "visit" / "pack.sh").read_text("utf-8").replace("\\\n", " ")
    [packed] = re.findall(r"for name in ([^;]+);", script)
    assert needed(project["dependencies"], set()) - HELD == set(packed.split())


GIT = "#!/bin/sh\nfor last; do :; done\nmkdir -p $last\n"
PIP = '#!/bin/sh\nwhile [ "$1" != -d ]; do shift; done\ntouch "$2/new.whl"\n'


def pack(folder: Path, kit: Path) -> None:
    for name, text in (("git", GIT), ("docker-registry", GIT), ("python-stub", PIP)):
        (folder / name).write_text(text, "utf-8")
        (folder / name).chmod(0o755)
    script = PROJECT / "tools" / "visit" / "pack.sh"
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    subprocess.run(["sh", script, kit, "python-stub"], env=environment, check=True, capture_output=True)


def test_what_an_earlier_pack_left_does_not_travel(tmp_path: Path) -> None:
    """Its wheels may lack one that the harness needs since."""
    old = tmp_path / "kit" / "run" / "whl" / "old.whl"
    old.parent.mkdir(parents=True)
    old.touch()
    pack(tmp_path, tmp_path / "kit")
    assert [wheel.name for wheel in old.parent.iterdir()] == ["new.whl"]
    assert (tmp_path / "kit" / "run" / "arrive.sh").exists()


def test_the_other_parts_travel_as_one_archive_in_such_pieces(tmp_path: Path) -> None:
    kit, mib = tmp_path / "kit", 1 << 20
    files = {"part-1/vllm.part-00": 1, "part-3/a.whl": 43, "part-4/deps.tar.xz": 2, "part-5/docker.tar.xz": 45}
    for number, (name, size) in enumerate(files.items()):
        (kit / name).parent.mkdir(parents=True)
        (kit / name).write_bytes(bytes([number]) * size * mib)
    pack(tmp_path, kit)
    pieces = sorted(kit.glob("rest-*/rest.part-*"))
    assert [(piece.parent.name, piece.stat().st_size <= 40 * mib) for piece in pieces] == [
        (f"rest-{number}", True) for number in range(3)
    ]
    subprocess.run(["tar", "-xf", "-", "-C", tmp_path], input=b"".join(p.read_bytes() for p in pieces), check=True)
    for name in list(files)[1:]:
        assert (tmp_path / Path(name).name).read_bytes() == (kit / name).read_bytes()


def test_vllm_is_cut_so_that_a_call_carries_a_piece_and_the_checkout(tmp_path: Path) -> None:
    kit, mib = tmp_path / "kit", 1 << 20
    whole = b"".join(bytes([n]) * mib for n in range(54)) * 2
    for number, part in enumerate((whole[: 54 * mib], whole[54 * mib :]), 1):
        (kit / f"part-{number}").mkdir(parents=True)
        (kit / f"part-{number}" / f"vllm.part-0{number - 1}").write_bytes(part)
    (kit / "part-3").mkdir()
    (kit / "part-3" / "a.whl").touch()
    for _ in range(2):  # once more over its own pieces
        pack(tmp_path, kit)
    pieces = sorted(kit.glob("vllm-*/vllm.part-*"))
    assert [piece.parent.name for piece in pieces] == ["vllm-0", "vllm-1", "vllm-2"]
    assert b"".join(piece.read_bytes() for piece in pieces) == whole
    assert max(piece.stat().st_size for piece in pieces) == 40 * mib
