"""Which files a check gets in which arm, and the folder with what is not installed."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from harness.checks.record import Source
from harness.checks.tree import command_of, nothing_to_run, source_of, write_links, write_tree
from harness.config.checks import Check
from harness.errors import SetupFailure
from harness.stack.record import LockedComponent, LockedFile
from harness.words import Arm
from tests.checks.toy import INSTALL, SECOND, TEST_KEEP, Toy, locked_toy


def check(*arguments: str, kind: str = "pytest", **fields: object) -> Check:
    command = ("tool", *(arguments or ("{tests}",)))
    return Check.model_validate({"name": "c", "kind": kind, "command": command, "component": "toy", **fields})


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return locked_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def sources(toy: Toy) -> dict[Arm, Source]:
    return {arm: source_of(check("{files}", "{tests}"), arm, toy.components) for arm in Arm}


TESTS = tuple(f"/qualify/source/toy/tests/test_{name}.py" for name in ("extra", "half", "keep", "needs", "old"))


class TestTests:
    def test_are_the_candidates_for_both_arms(self, sources: dict[Arm, Source]) -> None:
        assert {arm: source.tests for arm, source in sources.items()} == dict.fromkeys(Arm, TESTS)

    def test_that_the_control_s_tree_lacks_are_brought(self, sources: dict[Arm, Source]) -> None:
        brought = ("tests/test_extra.py", "tests/test_half.py", "tests/test_needs.py")
        assert sources[Arm.CANDIDATE].brought == brought, "test_old.py is the base's, test_keep.py the control's"

    def test_that_only_the_control_s_lock_has_are_gone(self, sources: dict[Arm, Source]) -> None:
        assert sources[Arm.CANDIDATE].gone == ("tests/test_gone.py",)

    def test_a_check_without_them_has_none(self, toy: Toy) -> None:
        found = source_of(check("{files}"), Arm.CANDIDATE, toy.components)
        assert (found.tests, found.brought, found.gone) == ((), (), ())


class TestFiles:
    def test_are_those_that_are_there_in_the_arm(self, sources: dict[Arm, Source]) -> None:
        assert sources[Arm.CONTROL].files == ("/qualify/installed/toy/toy/mod.py",)
        assert sources[Arm.CANDIDATE].files == (
            "/qualify/installed/toy/toy/extra.py",
            "/qualify/installed/toy/toy/mod.py",
        )

    def test_a_control_without_patches_has_the_base_s(self, toy: Toy) -> None:
        locks = {Arm.CONTROL: None, Arm.CANDIDATE: toy.component(Arm.CANDIDATE)}
        assert source_of(check("{files}"), Arm.CONTROL, locks).files == ("/qualify/installed/toy/toy/mod.py",)
        assert source_of(check("{files}"), Arm.CANDIDATE, locks).files[0] == "/qualify/installed/toy/toy/extra.py"
        assert "tests/test_keep.py" in source_of(check(), Arm.CONTROL, locks).brought

    def test_a_candidate_that_leaves_a_patch_out_has_the_base_s(self, toy: Toy) -> None:
        locks = {Arm.CONTROL: toy.component(Arm.CANDIDATE), Arm.CANDIDATE: None}
        found = source_of(check("{files}"), Arm.CANDIDATE, locks)
        assert found.files == ("/qualify/installed/toy/toy/mod.py",)

    def test_a_file_that_the_candidate_removes_is_the_control_s_alone(self, toy: Toy) -> None:
        candidate = toy.component(Arm.CANDIDATE)
        files = tuple(
            f.model_copy(update={"mode_after": None, "sha256_after": None}) if f.path == "toy/mod.py" else f
            for f in candidate.files
        )
        locks = {**toy.components, Arm.CANDIDATE: candidate.model_copy(update={"files": files})}
        found = {arm: source_of(check("{files}"), arm, locks).files for arm in Arm}
        assert found == {
            Arm.CONTROL: ("/qualify/installed/toy/toy/mod.py",),
            Arm.CANDIDATE: ("/qualify/installed/toy/toy/extra.py",),
        }

    @pytest.mark.parametrize(
        ("glob", "fits"),
        [
            ("**/*.py", ["tests/a/test_x.py", "top.py", "toy/mod.py"]),
            ("toy/**", ["toy/mod.py"]),
            ("*.py", ["top.py"]),
            ("tests/**/test_*.py", ["tests/a/test_x.py"]),
            ("tests/*/test_?.py", ["tests/a/test_x.py"]),
            ("tests/*", []),
            ("**/test_*/*", []),
        ],
    )
    def test_globs_are_those_of_other_tools(self, glob: str, fits: list[str], toy: Toy) -> None:
        paths = ("tests/a/test_x.py", "toy/mod.py", "top.py", "toy.txt")
        example = next(f for f in toy.component(Arm.CANDIDATE).files if f.copies)
        files = tuple(example.model_copy(update={"path": p, "copies": (f"/opt/{p}",)}) for p in paths)
        locked = toy.component(Arm.CANDIDATE).model_copy(update={"files": files})
        found = source_of(check("{files}", files=[glob]), Arm.CANDIDATE, {Arm.CONTROL: None, Arm.CANDIDATE: locked})
        assert [f.removeprefix("/opt/") for f in found.files] == fits

    def test_paths_lead_back_to_the_repository(self, sources: dict[Arm, Source]) -> None:
        source = sources[Arm.CONTROL]
        assert source.roots == {
            "/qualify/source/toy": "",
            "/qualify/installed/toy": "",
            **dict.fromkeys(INSTALL, ""),
            **dict.fromkeys((f"{folder}/toy" for folder in INSTALL), "toy"),
        }
        assert source.packages == ("toy",)


class TestPlaces:
    def place(self, toy: Toy, *install: str) -> str:
        component = toy.component(Arm.CANDIDATE)
        files = tuple(
            f.model_copy(update={"copies": tuple(f"{folder}/{f.path}" for folder in install)})
            for f in component.files
            if f.path == "toy/mod.py"
        )
        locked = component.model_copy(update={"files": files, "install": install})
        [place] = source_of(check("{files}"), Arm.CANDIDATE, {Arm.CONTROL: None, Arm.CANDIDATE: locked}).files
        return place

    def test_a_copy_outside_site_packages_is_preferred(self, toy: Toy) -> None:
        assert self.place(toy, "/opt/toy") == "/opt/toy/toy/mod.py"
        assert self.place(toy, "/venv/site-packages", "/opt/toy") == "/opt/toy/toy/mod.py"

    @pytest.mark.parametrize("folder", ["/venv/lib/python3.12/site-packages", "/usr/lib/python3/dist-packages"])
    def test_one_in_it_is_reached_through_a_link(self, toy: Toy, folder: str) -> None:
        assert self.place(toy, folder) == "/qualify/installed/toy/toy/mod.py"

    def test_links_lead_to_the_image_s_packages(self, toy: Toy, tmp_path: Path) -> None:
        component = toy.component(Arm.CANDIDATE).model_copy(update={"packages": ("toy", "src/more")})
        write_links(component, tmp_path)
        links = {p.relative_to(tmp_path).as_posix(): str(p.readlink()) for p in tmp_path.rglob("*") if p.is_symlink()}
        assert links == {"toy": f"{INSTALL[0]}/toy", "src/more": f"{INSTALL[0]}/more"}


class TestCommand:
    def test_files_and_tests_stand_where_they_are_named(self, sources: dict[Arm, Source]) -> None:
        command = command_of(check("-x", "{tests}", "y", kind="command"), sources[Arm.CONTROL])
        assert command == ("tool", "-x", *TESTS, "y")

    @pytest.mark.parametrize(
        ("kind", "option"),
        [
            ("pytest", "--junitxml=/qualify/out/junit.xml"),
            ("pytest", "--rootdir=/qualify/source/toy"),
            ("ruff", "--output-file=/qualify/out/ruff.json"),
            ("mypy", "--no-pretty"),
        ],
    )
    def test_what_makes_the_answer_readable_is_added(self, kind: str, option: str) -> None:
        assert option in command_of(check("x", kind=kind), Source())

    def test_without_files_it_is_not_run(self, sources: dict[Arm, Source]) -> None:
        none = check("{files}", files=["csrc/**"], kind="ruff")
        assert nothing_to_run(none, Source()) == "no changed file of toy fits csrc/**"
        assert nothing_to_run(check("{files}", "{tests}"), sources[Arm.CONTROL]) is None
        assert nothing_to_run(check("tests/test_old.py"), Source()) is None


class TestFolder:
    def test_holds_what_is_not_installed_and_nothing_else(self, toy: Toy, tmp_path: Path) -> None:
        component = toy.component(Arm.CANDIDATE)
        write_tree(toy.folders[Arm.CANDIDATE] / component.composed_file, component, tmp_path)
        files = {p.relative_to(tmp_path).as_posix(): p.read_text("utf-8") for p in tmp_path.rglob("*.py")}
        tests = {path: text for path, text in SECOND.items() if path.startswith("tests/") and text is not None}
        assert files == {**tests, "tests/test_keep.py": TEST_KEEP}

    @pytest.mark.parametrize(
        "member",
        [
            {"name": "tests/up", "type": tarfile.SYMTYPE, "linkname": "../../../etc/passwd"},
            {"name": "tests/root", "type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
            {"name": "../escaped"},
            {"name": "tests/device", "type": tarfile.CHRTYPE},
        ],
        ids=["a link upwards", "an absolute link", "a path upwards", "a device"],
    )
    def test_an_archive_that_leads_out_of_it_is_refused(
        self, member: dict[str, object], toy: Toy, tmp_path: Path
    ) -> None:
        entry = tarfile.TarInfo()
        for name, value in member.items():
            setattr(entry, name, value)
        with tarfile.open(tmp_path / "composed.tar", "w") as archive:
            archive.addfile(entry, io.BytesIO())
        target = tmp_path / "target"
        target.mkdir()
        with pytest.raises(SetupFailure, match="lock the stack again"):
            write_tree(tmp_path / "composed.tar", _naming(toy, entry.name), target)
        assert list(target.rglob("*")) == []
        assert not (tmp_path / "escaped").exists()

    def test_an_archive_that_is_none_is_named(self, toy: Toy, tmp_path: Path) -> None:
        (tmp_path / "composed.tar").write_bytes(b"no archive")
        with pytest.raises(SetupFailure, match=r"composed\.tar"):
            write_tree(tmp_path / "composed.tar", toy.component(Arm.CANDIDATE), tmp_path)


def _naming(toy: Toy, path: str) -> LockedComponent:
    """A lock that names a file which no lock could name: the archive alone must not be trusted."""
    component = toy.component(Arm.CANDIDATE)
    example: LockedFile = component.not_installed[0]
    return component.model_copy(update={"files": (example.model_copy(update={"path": path}),)})
