"""From a lock to what is expected of an image, and from what was found to the differences. No container needed."""

from __future__ import annotations

import pytest

from harness.image.differences import compare
from harness.image.identity import (
    LINK,
    ExpectedImage,
    ExpectedPackage,
    FoundFile,
    FoundImage,
    FoundPackage,
    Probed,
    expected_image,
)
from harness.stack.record import LockedFile, StackLock
from tests.image import toy

A, B = "a" * 64, "b" * 64


def locked(path: str, mode: str | None, sha256: str | None) -> LockedFile:
    return LockedFile(
        path=path, mode_before=None, mode_after=mode, sha256_before=None, sha256_after=sha256, copies=("installed",)
    )


def lock_of(packages: tuple[str, ...], *files: LockedFile) -> StackLock:
    lock = toy.lock()
    [component] = lock.components
    changed = component.model_copy(update={"packages": packages, "files": files})
    return lock.model_copy(update={"components": (changed,)})


class TestExpected:
    def test_every_copy_of_every_installed_file(self) -> None:
        assert expected_image(toy.lock(), "sha256:1").files == {
            f"{toy.OPT}/toy/gone.py": None,
            f"{toy.OPT}/toy/kernel.py": toy.sha256(toy.NEW),
            f"{toy.DIST}/toy/gone.py": None,
            f"{toy.DIST}/toy/kernel.py": toy.sha256(toy.NEW),
        }

    def test_what_the_repository_has_above_a_package_is_not_installed(self) -> None:
        lock = lock_of(
            ("src/toy", "tools/helper"), locked("src/toy/a.py", "100644", A), locked("tools/helper/b.py", "100644", B)
        )
        packages = expected_image(lock, "sha256:1").packages
        assert {name: package.files for name, package in packages.items()} == {
            "toy": {"toy/a.py": A},
            "helper": {"helper/b.py": B},
        }

    def test_a_link_is_expected_by_where_it_points(self) -> None:
        lock = lock_of(("toy",), locked("toy/link.py", "120000", A), locked("toy/gone.py", None, None))
        assert expected_image(lock, "sha256:1").packages["toy"].files == {
            "toy/link.py": f"{LINK}{A}",
            "toy/gone.py": None,
        }

    def test_a_package_without_a_changed_file_is_not_looked_at(self) -> None:
        lock = lock_of(("toy", "other"), locked("toy/a.py", "100644", A))
        assert set(expected_image(lock, "sha256:1").packages) == {"toy"}


def found(file: FoundFile, **changes: object) -> FoundImage:
    """A container in which all is right but one file."""
    package = FoundPackage(
        origin="/r/toy/__init__.py",
        error=None,
        imported=("/r",),
        on_path=("/r",),
        real={"/r": "/r/toy"},
        files={"/r/toy/a.py": file},
    )
    probed = Probed(
        python="/usr/bin/python3",
        python_version="3.12.1",
        path=("/r",),
        servers=(),
        packages={"toy": package},
        cpu_s=0.1,
    )
    return FoundImage(container_id="c", image_id="sha256:1", restarts=0, probed=probed).model_copy(update=changes)


def told(expected: str | None, file: FoundFile, **changes: object) -> list[str]:
    image = ExpectedImage(
        image_id="sha256:1", packages={"toy": ExpectedPackage(roots=("/r",), files={"toy/a.py": expected})}
    )
    return [str(m) for m in compare(image, found(file, **changes))]


def file(sha256: str | None, link: str | None = None) -> FoundFile:
    return FoundFile(sha256=sha256, link_sha256=link, stale=None, shadows=())


class TestLinks:
    @pytest.mark.parametrize(
        ("expected", "there"),
        [(A, file(A)), (A, file(A, link=B)), (f"{LINK}{B}", file(A, link=B)), (None, file(None))],
        ids=["a file", "a file behind a link", "a link", "nothing"],
    )
    def test_as_expected(self, expected: str | None, there: FoundFile) -> None:
        assert told(expected, there) == []

    @pytest.mark.parametrize(
        ("expected", "there", "what"),
        [
            (f"{LINK}{A}", file(A), f"expected {LINK}{A}, found {A}"),
            (f"{LINK}{A}", file(A, link=B), f"expected {LINK}{A}, found {LINK}{B}"),
            (A, file(None, link=B), f"expected {A}, found no file"),
            (None, file(None, link=B), f"expected no file, found {LINK}{B}"),
        ],
        ids=["a copy of its target", "another target", "a link to nowhere", "a link where nothing should be"],
    )
    def test_a_difference(self, expected: str | None, there: FoundFile, what: str) -> None:
        assert told(expected, there) == [f"/r/toy/a.py: {what}"]


def test_restarts_that_nobody_could_read_are_no_zero() -> None:
    assert told(A, file(A), restarts=None) == ["restarts of the container: expected 0, found None"]


def test_files_that_were_not_looked_at_are_no_match() -> None:
    assert told(A, file(A), probed=None) == ["package toy: expected imported from /r, found not looked at"]
