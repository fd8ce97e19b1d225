"""The pytest plugin: a plan's launches become parameters, and its order becomes the order of the checks.

    pytest suites/ --qualify-profile cpu-forged -k first_prompt

`qualify run` starts pytest with the same options. Without them the plugin does nothing, so it is
harmless in any other pytest run of the same environment.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # a pytest run of somebody else must not pay for these
    from harness.checks.evidence import Checked
    from harness.config.checks import Check
    from harness.config.course import Context
    from harness.records import PlannedLaunch
    from harness.session.checking import SourceChecks
    from harness.session.conductor import Conductor
    from harness.session.live import LiveLaunch

CONDUCTOR: pytest.StashKey[Conductor] = pytest.StashKey()
SOURCE_CHECKS: pytest.StashKey[SourceChecks] = pytest.StashKey()
BUNDLE: pytest.StashKey[Path] = pytest.StashKey()
OWNER: pytest.StashKey[bool] = pytest.StashKey()
SUMMARY: pytest.StashKey[list[str]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of a session; each has its twin in `qualify run`."""
    group = parser.getgroup("qualify", "qualification of a vLLM server")
    group.addoption("--qualify-profile", metavar="NAME", help="profile in profiles/, or a path")
    group.addoption("--qualify-control", metavar="STACK", default="", help="stack of the control")
    group.addoption("--qualify-candidate", metavar="STACK", default="", help="stack of the candidate")
    for arm in ("control", "candidate"):
        group.addoption(f"--qualify-{arm}-lock", metavar="DIR", default="", help=f"lock of the {arm}'s stack")
    group.addoption("--qualify-smoke", action="store_true", help="the smallest honest subset")
    group.addoption("--qualify-set", metavar="KEY=VALUE", action="append", default=[], help="change a profile's value")
    group.addoption("--qualify-bundle", metavar="DIR", help="use a bundle that is open already")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Open the session, or join the one that the controller of xdist or `qualify run` opened."""
    config.addinivalue_line("markers", "course(step): the step of a launch's course that a check belongs to")
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    folder = worker.get("qualify_bundle") if worker else config.getoption("qualify_bundle")
    profile = config.getoption("qualify_profile")
    if not folder and not profile:
        return

    from harness.errors import QualifyError  # noqa: PLC0415
    from harness.evidence.bundle import Bundle  # noqa: PLC0415
    from harness.session.checking import SourceChecks  # noqa: PLC0415
    from harness.session.conductor import Conductor  # noqa: PLC0415
    from harness.session.launchers import launchers_of  # noqa: PLC0415

    try:
        bundle = Bundle(Path(folder)) if folder else _open(config, profile)
        config.stash[CONDUCTOR] = Conductor(bundle, launchers_of(bundle), _first_look, _void_pair)
        config.stash[SOURCE_CHECKS] = SourceChecks(bundle, bundle.plan())
    except QualifyError as e:
        raise pytest.UsageError(str(e)) from None
    config.stash[BUNDLE] = bundle.root
    config.stash[OWNER] = worker is None
    if worker is None:
        config.option.xmlpath = str(bundle.root / "junit.xml")
    # A service manager stops us with SIGTERM: servers must be stopped then as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def _first_look(bundle: Any, mode: str) -> Any:
    from harness.judge.looks import first_look  # noqa: PLC0415  # handed down: a session knows no judge

    return first_look(bundle, mode)


def _void_pair(bundle: Any, pair: Any) -> Any:
    from harness.judge.reruns import judge_pair  # noqa: PLC0415

    return judge_pair(bundle, pair)


def _open(config: pytest.Config, profile_name: str) -> Any:
    from argparse import Namespace  # noqa: PLC0415

    from harness.history.freezing import freeze  # noqa: PLC0415  # handed down: a session has no history
    from harness.session.opening import open_session  # noqa: PLC0415
    from harness.session.selection import select  # noqa: PLC0415
    from harness.workflow import seal_abandoned  # noqa: PLC0415

    names = ("control", "candidate", "control_lock", "candidate_lock", "smoke", "set")
    options = {name: config.getoption(f"qualify_{name}") for name in names}
    chosen = select(Namespace(profile=profile_name, **options))
    selection = " ".join(
        f"-{letter} {value!r}"
        for letter in ("k", "m")
        if (value := config.getoption({"k": "keyword", "m": "markexpr"}[letter]))
    )
    seal_abandoned()
    return open_session(chosen, checks=selection, freeze=freeze)[0]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist which bundle it works for."""
    if BUNDLE in node.config.stash:
        node.workerinput["qualify_bundle"] = str(node.config.stash[BUNDLE])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`launch` (and so `server`) runs over the plan's launches, `context` over its contexts.

    `source_check` (and so `checked`) runs over its source checks.
    """
    conductor = metafunc.config.stash.get(CONDUCTOR, None)
    if conductor is None and not {"launch", "source_check"}.isdisjoint(metafunc.fixturenames):
        raise pytest.UsageError("these checks need a server: give --qualify-profile NAME, or use `qualify run`")
    if "launch" in metafunc.fixturenames and conductor is not None:
        launches = conductor.plan.possible
        metafunc.parametrize("launch", launches, ids=[x.id for x in launches], scope="session")
    if "source_check" in metafunc.fixturenames and conductor is not None:
        checks = conductor.source_checks
        metafunc.parametrize("source_check", checks, ids=[c.name for c in checks], scope="session")
    if "context" in metafunc.fixturenames and conductor is not None:
        contexts = conductor.plan.profile.course.contexts
        metafunc.parametrize("context", contexts, ids=[str(c.prompt_tokens) for c in contexts])


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Put every lane into a group of its own, and the checks into the plan's order.

    Groups come first, since xdist reads them in its own hook; the order comes last, since pytest
    regroups checks by their parameters in its own.
    """
    if CONDUCTOR not in config.stash:
        yield
        return
    _leave_out_checks_of_nothing(config, items)
    for item in items:
        launch = _launch_of(item)
        item.add_marker(pytest.mark.xdist_group(f"lane-{launch.lane if launch else 0}"))
    yield
    from harness.words import Step  # noqa: PLC0415

    steps = list(Step)

    def place(item: pytest.Item) -> tuple[int, tuple[int, int], int, int]:
        launch, context = _launch_of(item), _params(item).get("context")
        if launch is None:
            return (-1, (0, 0), 0, 0)
        marker = item.get_closest_marker("course")
        step = Step(marker.args[0]) if marker else Step.PROBES
        return (launch.lane, launch.place, steps.index(step), context.prompt_tokens if context else 0)

    items.sort(key=place)  # stable: checks of one step keep the order of their file


def _leave_out_checks_of_nothing(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where no source check is planned, pytest would show one that is skipped; so for launches that do not settle."""
    from harness.session.settling import is_settling  # noqa: PLC0415
    from harness.words import Step  # noqa: PLC0415

    conductor = config.stash[CONDUCTOR]
    profile, launches = conductor.plan.profile, conductor.plan.launches
    gated = bool(profile.host.gpus) and profile.thermal.longest_s > 0

    def is_of_nothing(item: pytest.Item) -> bool:
        if "source_check" in _params(item):
            return not conductor.source_checks
        launch, marker = _launch_of(item), item.get_closest_marker("course")
        if launch is None or marker is None or marker.args[0] != Step.SETTLING:
            return False
        return not (gated and is_settling(launch, launches))

    empty = [item for item in items if is_of_nothing(item)]
    config.hook.pytest_deselected(items=empty)
    items[:] = [item for item in items if item not in empty]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Which source checks this run really has: every lane waits for these, and for no other."""
    if CONDUCTOR in session.config.stash:
        chosen = dict.fromkeys(_params(item).get("source_check") for item in session.items)
        session.config.stash[CONDUCTOR].awaited_checks = tuple(check for check in chosen if check is not None)


@pytest.fixture
def checked(request: pytest.FixtureRequest, source_check: Check) -> Checked:
    """A source check that has run in both arms."""
    from harness.checks.evidence import read_checked  # noqa: PLC0415

    request.config.stash[SOURCE_CHECKS].run(source_check)
    return read_checked(request.config.stash[CONDUCTOR].bundle, source_check)


@pytest.fixture
def server(request: pytest.FixtureRequest, launch: PlannedLaunch) -> LiveLaunch:
    """The running server of the launch. It starts with the launch's first check and stops after its last."""
    from harness.errors import QualifyError  # noqa: PLC0415
    from harness.session.conductor import AlreadyFailed, NotNeeded  # noqa: PLC0415

    try:
        return request.config.stash[CONDUCTOR].enter(launch)
    except AlreadyFailed as e:
        pytest.skip(f"the launch has failed: {e}")
    except NotNeeded as e:
        pytest.skip(f"not needed: {e}")
    except QualifyError as e:
        pytest.fail(f"{launch.id}: {e}", pytrace=False)


@pytest.fixture
def record(server: LiveLaunch) -> Path:
    """The launch's folder in the bundle: what a check writes below it is evidence."""
    return server.folder.root


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Stop the server once the launch's last check is over."""
    yield
    launch = _launch_of(item)
    if launch is not None and "record" in getattr(item, "fixturenames", ()):
        _adopt(item, launch)
    if launch is not None and (nextitem is None or _launch_of(nextitem) != launch):
        item.config.stash[CONDUCTOR].leave()


def _adopt(item: pytest.Item, launch: PlannedLaunch) -> None:
    """What a check wrote beside the harness's own evidence is evidence too, as it is once the check is over."""
    from harness.evidence.manifest import evidence_files  # noqa: PLC0415
    from harness.evidence.others import adopt  # noqa: PLC0415

    bundle = item.config.stash[CONDUCTOR].bundle
    adopt(bundle.root, evidence_files(bundle.root, bundle.launch(launch.id).root), f"after the check {item.name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write each check's outcome beside the evidence of its launch."""
    report = yield
    launch = _launch_of(item)
    if launch is None or CONDUCTOR not in item.config.stash or not _tells(report):
        return report
    from harness.evidence.bundle import append_record  # noqa: PLC0415
    from harness.records import CheckRecord  # noqa: PLC0415

    folder = item.config.stash[CONDUCTOR].bundle.launch(launch.id)
    if (launch.look > 1 or launch.again_of) and report.skipped and not folder.root.is_dir():
        return report  # not needed, and so nothing of it is evidence
    folder.root.mkdir(parents=True, exist_ok=True)
    context: Context | None = _params(item).get("context")
    append_record(
        folder.checks_file,
        CheckRecord(
            name=f"{item.location[0].rpartition('/')[2]}::{getattr(item, 'originalname', None) or item.name}",
            context_tokens=context.prompt_tokens if context else None,
            outcome=report.outcome,
            message="" if report.passed else _message(report),
        ),
    )
    return report


def pytest_sessionstart(session: pytest.Session) -> None:
    """From here on pytest's own collector of dropped errors is there, and must not have the interruptions."""
    if CONDUCTOR in session.config.stash:
        from harness.session.undisturbed import nothing_lost  # noqa: PLC0415

        stack = contextlib.ExitStack()
        stack.enter_context(nothing_lost())
        session.config.add_cleanup(stack.close)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Stop what runs; then, in the process that owns the session, judge and report."""
    config = session.config
    if CONDUCTOR not in config.stash:
        return
    from harness.session.undisturbed import INTERRUPTED, Stopped, undisturbed  # noqa: PLC0415

    heard = any(isinstance(plugin, Stopped) and plugin.stopped for plugin in config.pluginmanager.get_plugins())
    stopped = heard or exitstatus == pytest.ExitCode.INTERRUPTED
    interrupted = INTERRUPTED if stopped else None

    with undisturbed():  # a server whose stopping is interrupted would be left running
        config.stash[SOURCE_CHECKS].close()
        config.stash[CONDUCTOR].close(interrupted)
    if not config.stash[OWNER] or config.getoption("qualify_bundle"):
        return
    from harness.evidence.bundle import Bundle  # noqa: PLC0415
    from harness.workflow import finish, remember  # noqa: PLC0415

    with undisturbed():
        found, lines = finish(config.stash[BUNDLE], interrupted)
        lines = [*lines, *remember(Bundle(config.stash[BUNDLE]), found)]
    config.stash[SUMMARY] = lines
    if found.verdict.exit_code and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The verdict and where the report lies."""
    for line in config.stash.get(SUMMARY, []):
        terminalreporter.write_line(line)


def _params(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec is not None else {}


def _launch_of(item: pytest.Item) -> PlannedLaunch | None:
    launch: PlannedLaunch | None = _params(item).get("launch")
    return launch


def _tells(report: pytest.TestReport) -> bool:
    """One record per check: its call, or the set-up that kept it from being called."""
    return report.when == "call" or (report.when == "setup" and not report.passed)


def _message(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longrepr)[:2000]
