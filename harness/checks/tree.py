"""What a check gets of a component: which files its placeholders stand for, and a folder of what is not installed.

Tests are those of the candidate's lock for both arms, so that a test which fails on the control and
passes on the candidate shows what the patch does. Helpers that no patch touches are not in a lock: a
test that needs them runs with its working folder where the image holds them.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from harness.checks.record import Source
from harness.config.checks import FILES, TESTS, Check, Kind
from harness.config.image import OWN_FOLDER
from harness.errors import SetupFailure
from harness.stack.changes import SYMLINK
from harness.stack.record import LockedComponent, LockedFile
from harness.words import Arm

SOURCE = f"{OWN_FOLDER}/source"
INSTALLED = f"{OWN_FOLDER}/installed"
OUT = f"{OWN_FOLDER}/out"
WORK = f"{OWN_FOLDER}/work"

ADDED: dict[Kind, tuple[str, ...]] = {
    Kind.PYTEST: (
        f"--junitxml={OUT}/junit.xml",
        *("-o", "junit_family=xunit1"),  # the one that names each test's file
        *("-o", "junit_logging=no"),
        *("-p", "no:cacheprovider"),
        "--continue-on-collection-errors",
    ),
    Kind.RUFF: ("--output-format=json", f"--output-file={OUT}/ruff.json", "--no-cache"),
    Kind.MYPY: (
        "--show-absolute-path",
        "--no-pretty",
        "--no-color-output",
        "--hide-error-context",
        f"--cache-dir={WORK}/mypy",
    ),
    Kind.COMMAND: (),
}
"""Options that make a tool's answer readable, whatever the repository's own settings are."""

SITES = frozenset({"site-packages", "dist-packages"})

Locks = Mapping[Arm, LockedComponent | None]


def rootdir(component: str) -> str:
    """Where a component's files are that are not installed."""
    return f"{SOURCE}/{component}"


def source_of(check: Check, arm: Arm, locks: Locks) -> Source:
    """What the check gets in one arm.

    Args:
        check: the check.
        arm: the arm.
        locks: the component in both arms' locks, None where an arm has the base image's.
    """
    components = [c for c in (locks[Arm.CANDIDATE], locks[Arm.CONTROL]) if c is not None]
    files: dict[str, LockedFile] = {f.path: f for c in reversed(components) for f in c.files}
    candidate, control = (set(_present(locks[a], files)) for a in (Arm.CANDIDATE, Arm.CONTROL))
    here = candidate if arm is Arm.CANDIDATE else control
    ours = {f.path for f in _not_installed(locks[Arm.CANDIDATE])}
    theirs = {f.path for f in _not_installed(locks[Arm.CONTROL])}
    if TESTS not in check.command:  # then no test is this check's business
        ours, theirs = set(), set()
    root = rootdir(check.component)
    return Source(
        files=tuple(_place(check, files[p]) for p in sorted(here) if files[p].copies and _fits(p, check.files)),
        tests=tuple(f"{root}/{p}" for p in sorted(ours) if _fits(p, check.tests)),
        brought=tuple(p for p in sorted(ours - control) if _fits(p, check.tests)),
        gone=tuple(p for p in sorted(theirs - ours) if _fits(p, check.tests)),
        roots=_roots(components, root) | {f"{INSTALLED}/{check.component}": ""},
        packages=tuple(dict.fromkeys(PurePosixPath(p).name for c in components for p in c.packages)),
    )


def _place(check: Check, file: LockedFile) -> str:
    """Where a check reads an installed file.

    Mypy takes the folder above a package for source, and refuses site-packages as such. So a copy that
    stands elsewhere is preferred, which may have the repository's own settings above it, too; where there
    is none, the file is reached through a link to its package.
    """
    elsewhere = (copy for copy in file.copies if SITES.isdisjoint(PurePosixPath(copy).parts))
    return next(elsewhere, f"{INSTALLED}/{check.component}/{file.path}")


def command_of(check: Check, source: Source) -> tuple[str, ...]:
    """The command as it is started."""
    given = {FILES: source.files, TESTS: source.tests}
    command = [part for argument in check.command for part in given.get(argument, (argument,))]
    added = ADDED[check.kind]
    if check.kind is Kind.PYTEST:
        added = (f"--rootdir={rootdir(check.component)}", *added)
    return (*command, *added)


def nothing_to_run(check: Check, source: Source) -> str | None:
    """Why the command has nothing to look at, or None: without files most tools would look at everything."""
    for placeholder, found, globs in ((FILES, source.files, check.files), (TESTS, source.tests, check.tests)):
        if placeholder in check.command and not found:
            return f"no changed file of {check.component} fits {' or '.join(globs)}"
    return None


def write_tree(archive: Path, component: LockedComponent, target: Path) -> None:
    """Write what is not installed, as the lock's archive holds it, below a folder.

    Raises:
        SetupFailure: the archive cannot be read, or holds what must not be written.
    """
    wanted = {f.path for f in _not_installed(component, links=True)}
    try:
        with tarfile.open(archive) as composed:
            for member in composed:
                if member.name in wanted:
                    composed.extract(member, target, filter="data")
    except (tarfile.TarError, OSError) as e:
        raise SetupFailure(f"{archive}: {e}; lock the stack again") from None


def write_links(component: LockedComponent, target: Path) -> None:
    """Links below a folder to the component's packages as the image holds them; on this host they lead nowhere."""
    for package in component.packages:
        link = target / package
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"{component.install[0]}/{PurePosixPath(package).name}")


def _not_installed(component: LockedComponent | None, *, links: bool = False) -> tuple[LockedFile, ...]:
    """Files for the checks alone that the tree still has."""
    files = component.not_installed if component is not None else ()
    return tuple(f for f in files if f.mode_after is not None and (links or f.mode_after != SYMLINK))


def _present(component: LockedComponent | None, touched: Mapping[str, LockedFile]) -> Iterator[str]:
    """Of the files that either arm touches, those that this one has; what its lock does not name is the base's."""
    own = {f.path: f.mode_after for f in component.files} if component is not None else {}
    for path, file in touched.items():
        mode = own.get(path, file.mode_before)
        if mode is not None and mode != SYMLINK:
            yield path


def _roots(components: Sequence[LockedComponent], root: str) -> dict[str, str]:
    roots = {root: ""}
    for component in components:
        for folder in component.install:
            roots[folder] = ""
            for package in component.packages:
                # What is installed is the package's folder, whatever the repository has above it (src/...).
                roots[f"{folder.rstrip('/')}/{PurePosixPath(package).name}"] = package
    return roots


def _fits(path: str, globs: Sequence[str]) -> bool:
    return any(_matches(PurePosixPath(path).parts, PurePosixPath(glob).parts) for glob in globs)


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """`**` stands for any number of folders, as in every other tool."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return _matches(parts, pattern[1:]) or (bool(parts) and _matches(parts[1:], pattern))
    return bool(parts) and PurePosixPath(parts[0]).match(pattern[0]) and _matches(parts[1:], pattern[1:])
