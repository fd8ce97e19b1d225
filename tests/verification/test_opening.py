"""From a folder or an archive to a bundle that may be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.errors import BundleError, RefusedBundle
from harness.evidence.unpack import Limits
from harness.verification.opening import Opened, files_of, opened

from .hostile import tar_member, tar_zst


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "plan.json").write_text("{}", "utf-8")
    return folder


def test_a_folder_is_read_where_it_lies(root: Path) -> None:
    with opened(str(root)) as bundle:
        assert bundle.root == root


def test_a_link_to_a_folder_may_be_given(root: Path, tmp_path: Path) -> None:
    """As `results/latest` is."""
    (tmp_path / "latest").symlink_to(root.name)
    with opened(str(tmp_path / "latest")) as bundle:
        assert bundle.root == root.resolve()


@pytest.mark.parametrize("prefix", ["", "./", "a-session/"])
def test_an_archive_may_hold_the_files_or_the_folder(tmp_path: Path, prefix: str) -> None:
    archive = tar_zst(tmp_path / "a.tar.zst", [tar_member(f"{prefix}plan.json", b"{}"), tar_member(f"{prefix}x/y")])
    with opened(str(archive)) as bundle:
        assert files_of(bundle.root) == {"plan.json": 2, "x/y": 1}
        place = bundle.root
    assert not place.exists(), "gone afterwards"


def test_another_form_is_laid_out_before_it_is_looked_at(root: Path, tmp_path: Path) -> None:
    (root / "plan.json").rename(root / "plan.json.zst")

    @contextmanager
    def layout(folder: Path) -> Iterator[Opened]:
        assert folder == root
        (tmp_path / "laid").mkdir()
        (tmp_path / "laid" / "plan.json").touch()
        yield Opened(tmp_path / "laid", ("an export",))

    with opened(str(root), layout) as bundle:
        assert (bundle.root, bundle.notes) == (tmp_path / "laid", ("an export",))


def test_an_archive_without_a_plan_is_no_bundle(tmp_path: Path) -> None:
    archive = tar_zst(tmp_path / "a.tar.zst", [tar_member("a"), tar_member("b")])
    with pytest.raises(BundleError, match="no bundle"), opened(str(archive)):
        pass


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../secret", "plan.json", "/nowhere"], ids=["absolute", "out", "inside", "dangling"]
)
def test_a_link_inside_is_refused_wherever_it_points(root: Path, target: str) -> None:
    (root / "server.log").symlink_to(target)
    with pytest.raises(RefusedBundle, match=r"^server.log: is a symbolic link"), opened(str(root)):
        pass


def test_a_linked_folder_is_refused_and_not_entered(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (root / "launches").symlink_to(tmp_path / "secrets")
    with pytest.raises(RefusedBundle, match=r"^launches: is a symbolic link"), opened(str(root)):
        pass


def test_a_pipe_is_refused_and_not_opened(root: Path) -> None:
    os.mkfifo(root / "server.log")
    with pytest.raises(RefusedBundle, match="is no plain file"), opened(str(root)):
        pass


@pytest.mark.parametrize("name", ["a\nb", "a\\b", "a.", "\x1b[31mred", "\udcff"], ids=ascii)
def test_a_name_that_no_bundle_has_is_refused_in_print(root: Path, name: str) -> None:
    (root / name).write_text("", "utf-8")
    with pytest.raises(RefusedBundle) as caught, opened(str(root)):
        pass
    assert str(caught.value).isprintable()


def test_names_that_differ_in_case_alone_are_refused(root: Path) -> None:
    (root / "PLAN.json").write_text("{}", "utf-8")
    with pytest.raises(RefusedBundle, match="only in case"), opened(str(root)):
        pass


def test_too_many_files_are_refused(root: Path) -> None:
    for number in range(10):
        (root / str(number)).touch()
    with pytest.raises(RefusedBundle, match="more than 10 files"):
        files_of(root, Limits(members=10))
