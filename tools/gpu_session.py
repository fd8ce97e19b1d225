"""One visit to a lent machine with GPUs: prepare it, run a plan's sessions, judge, report, take the bundles home.

    python -m tools.gpu_session begin  --plan tools/visits/NAME.toml ... --folder DIR --minutes N [--state FILE]
    python -m tools.gpu_session follow --folder DIR --out DIR --seconds N

`begin` returns at once; its worker goes on while one short call after the other follows it. What did not fit into
the time stays open in state.json: give that file to the next visit with --state.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tools.visit.state import State, Status

STATE, WORKER_LOG, OVER = "state.json", "worker.log", "over"
LARGE = "large"
"""Place of the model that --model makes."""
POLL_S = 0.5
RECENT_S, TAIL = 120, 700
"""Logs that were written to so lately are shown, this many characters of each."""
FILES, FILE_BYTES, ALL_BYTES = 8, 15 << 20, 60 << 20
"""What one call may bring back, state and log among the files; a mebibyte or more is left for those two."""


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, function in (("begin", begin), ("work", work)):
        command = commands.add_parser(name)
        command.add_argument("--plan", type=Path, required=True, nargs="+", help="steps of several follow one another")
        command.add_argument("--folder", type=Path, required=True, help="everything that the visit writes")
        command.add_argument("--kit", type=Path, default=Path("/nonexistent"), help="parts of ../shared/gpu-kit")
        command.add_argument("--site", type=Path, default=Path("/tmp/site"), help="folder with vLLM")  # noqa: S108
        command.add_argument("--minutes", type=float, required=True, help="from now to the last session's end")
        command.add_argument("--version", default="0.25.1", help="of vLLM, for the image's label")
        command.add_argument("--state", type=Path, help="of an earlier visit")
        command.add_argument("--profile", default="h200-forged", help="whose model is made before the first session")
        command.add_argument(
            "--model", metavar="KEY=VALUE", help="make the model of the profile so changed, beside them"
        )
        command.set_defaults(command=function)
    command = commands.add_parser("follow")
    command.add_argument("--folder", type=Path, required=True)
    command.add_argument("--out", type=Path, required=True, help="gets what is finished since the last call")
    command.add_argument("--seconds", type=float, required=True)
    command.set_defaults(command=follow)
    arguments = parser.parse_args(argv)
    return int(arguments.command(arguments))


def begin(arguments: argparse.Namespace) -> int:
    """Start the worker, which no call's end may end."""
    arguments.folder.mkdir(parents=True, exist_ok=True)
    given = [a for a in sys.argv[1:] if a != "begin"]
    with (arguments.folder / WORKER_LOG).open("wb") as log:
        subprocess.Popen(
            [sys.executable, "-m", "tools.gpu_session", "work", *given],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return 0


def work(arguments: argparse.Namespace) -> int:
    """Prepare the machine, then work through the plan."""
    began = time.monotonic()

    def tell(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:7.1f}  {line}\n")
        sys.stdout.flush()

    try:
        _work(arguments, began, tell)
    except BaseException:
        tell(traceback.format_exc())
        raise
    finally:
        (arguments.folder / OVER).touch()
        tell("over")
    return 0


def _work(arguments: argparse.Namespace, began: float, tell: Callable[[str], None]) -> None:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    from tools.visit.plan import read_plans  # noqa: PLC0415  # what `follow` does without
    from tools.visit.prepare import Machine, gpus  # noqa: PLC0415
    from tools.visit.queue import Queue  # noqa: PLC0415

    plan = read_plans(arguments.plan)
    folder: Path = arguments.folder
    if arguments.state:
        shutil.copyfile(arguments.state, folder / STATE)
    state = State.read(folder / STATE).resumed([step.name for step in plan.steps])
    state.write()
    machine = Machine(arguments.kit, arguments.site, folder, tell)
    machine.places |= {"folder": str(folder), "site": str(arguments.site), "out": str(folder / "out")}
    environment = {"QUALIFY_RESULTS": str(folder / "results"), "QUALIFY_LOCKS": str(folder / "locks")}
    os.environ.update(environment)
    with ThreadPoolExecutor() as pool, machine.ready(arguments.version, arguments.profile):
        large = pool.submit(machine.forge, arguments.profile, [arguments.model]) if arguments.model else None
        tell("sessions begin")

        def coming() -> frozenset[str]:
            if large is None or not large.done():
                return frozenset({LARGE} if large else ())
            machine.places.setdefault(LARGE, large.result())
            return frozenset()

        Queue(
            plan=plan,
            state=state,
            gpus=gpus(),
            places=machine.places,
            folder=folder,
            until=began + arguments.minutes * 60,
            python=sys.executable,
            environment=machine.environment,
            coming=coming,
        ).run()


def follow(arguments: argparse.Namespace) -> int:
    """Wait for a while, or until all is over; then hand out what was finished and not handed out yet."""
    folder, out = arguments.folder, arguments.out
    deadline = time.monotonic() + arguments.seconds
    while time.monotonic() < deadline and not (folder / OVER).exists():
        time.sleep(POLL_S)
    out.mkdir(parents=True, exist_ok=True)
    sent_file = folder / "sent"
    sent = set(sent_file.read_text("utf-8").split("\n")) if sent_file.exists() else set()
    ready = [p for p in sorted((folder / "out").glob("*")) if _as_it_is(p) not in sent and p.suffix != ".partial"]
    running = [one.name for one in State.read(folder / STATE).steps.values() if one.status is Status.RUNNING]
    left = ALL_BYTES
    small = [path for path in ready if not _too_large(path)]
    for path in small[: FILES - 2 - len(running)]:
        if path.stat().st_size > left:
            break  # the next call's
        left -= path.stat().st_size
        sent.add(_as_it_is(path))  # before it is copied: what changes meanwhile goes once more
        shutil.copyfile(path, out / path.name)
    folder.mkdir(parents=True, exist_ok=True)
    sent_file.write_text("\n".join(sorted(sent)), "utf-8")
    for name in running:
        left -= hand_out_partly(folder, out, name, left)
    for name in (STATE, WORKER_LOG):
        if (folder / name).exists():
            shutil.copyfile(folder / name, out / name)
    sys.stdout.write((folder / WORKER_LOG).read_text("utf-8", "replace")[-5000:])
    sys.stdout.write("".join(f"{line}\n" for line in State.read(folder / STATE).lines()))
    for path in sorted((folder / "logs").glob("*.log")):
        if time.time() - path.stat().st_mtime < RECENT_S:
            sys.stdout.write(f"--- {path.name}\n{path.read_text('utf-8', 'replace')[-TAIL:]}\n")
    return 0


def hand_out_partly(folder: Path, out: Path, step: str, left: int) -> int:
    """What a running session has so far: a machine may be gone before it ends. Not sealed, and named so; its bytes."""
    from tools.visit.queue import BUNDLE, pack  # noqa: PLC0415

    log = folder / "logs" / f"{step}.log"
    found = BUNDLE.findall(log.read_text("utf-8", "replace")) if log.exists() else []
    if not found or not Path(found[-1]).is_dir():
        return 0
    made = folder / f"{step}.unfinished.tgz"
    try:
        pack(Path(found[-1]), made)
    except OSError as e:  # it is being written: a file was replaced or cut while it was read
        sys.stdout.write(f"{made.name} comes with the next call: {e}\n")
        return 0
    if _too_large(made) or made.stat().st_size > left:
        return 0
    shutil.copyfile(made, out / made.name)
    return made.stat().st_size


def _as_it_is(path: Path) -> str:
    """A file that is written again, as a program's figures are after every scene, is handed out again."""
    status = path.stat()
    return f"{path.name} {status.st_size} {status.st_mtime_ns}"


def _too_large(path: Path) -> bool:
    size = path.stat().st_size
    if size > FILE_BYTES:
        sys.stdout.write(f"{path.name} is too large to be handed out: {size >> 20} MiB\n")
    return size > FILE_BYTES


if __name__ == "__main__":
    sys.exit(main())
