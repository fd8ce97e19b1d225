"""The folder of one session: written atomically, read back with a clear word for what is wrong."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from harness.config.model import FROZEN
from harness.errors import BundleError
from harness.evidence import pipe
from harness.evidence.names import name_fault
from harness.evidence.stream import whole
from harness.evidence.undivided import uninterrupted
from harness.records import SCHEMA_VERSION, FrozenPrompts, LaunchRecord, Lock, Plan, Run, Verdict
from harness.records.client import SelfTest
from harness.words import Arm

R = TypeVar("R", bound=BaseModel)


class Bundle:
    """`results/<session>/`: every file's place, and the only way in which records get there."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def run_file(self) -> Path:
        """Identity of the session."""
        return self.root / "run.json"

    @property
    def plan_file(self) -> Path:
        """What the session was to do."""
        return self.root / "plan.json"

    @property
    def prompts_file(self) -> Path:
        """The text prompts as ids; absent where ids are asked."""
        return self.root / "prompts.json"

    @property
    def verdict_file(self) -> Path:
        """The judge's answer."""
        return self.root / "verdict.json"

    @property
    def selftest_file(self) -> Path:
        """The client's self-test; absent where it was switched off."""
        return self.root / "selftest.json"

    @property
    def ledger_file(self) -> Path:
        """The session's place in the host's ledger when it began; absent in bundles of before there was one."""
        return self.root / "ledger.json"

    @property
    def ledger_end_file(self) -> Path:
        """Its place when it ended; beside the evidence, whose root hash it names."""
        return self.root / "ledger.end.json"

    @property
    def report_dir(self) -> Path:
        """What people read."""
        return self.root / "report"

    def lock_file(self, arm: Arm) -> Path:
        """What the arm resolved to."""
        return self.root / "locks" / f"{arm}.json"

    def stack_lock_dir(self, arm: Arm) -> Path:
        """The lock of the arm's stack, as `qualify lock` wrote it; absent for a stack without patches."""
        return self.root / "locks" / str(arm)

    def build_log(self, arm: Arm) -> Path:
        """What the build of the arm's image printed; absent where nothing was built."""
        return self.stack_lock_dir(arm) / "build.log"

    def truth_file(self, arm: Arm) -> Path:
        """The rule of the arm's forged model; absent for other models."""
        return self.root / "locks" / f"{arm}.truth.json"

    def look_file(self, mode: str) -> Path:
        """What the first look at a mode came to; absent where no second one was planned."""
        return self.root / "looks" / f"{mode}.json"

    def rerun_file(self, launch_id: str) -> Path:
        """What a pair came to, by its second launch; absent where nobody asked."""
        return self.root / "reruns" / f"{launch_id}.json"

    @property
    def checks_dir(self) -> Path:
        """Source checks, CHECK/ARM/; absent where none was planned."""
        return self.root / "checks"

    def launch(self, launch_id: str) -> LaunchDir:
        """The folder of one launch."""
        return LaunchDir(self.root / "launches" / launch_id)

    def plan(self) -> Plan:
        """The plan as it was frozen.

        Raises:
            BundleError: missing, newer or broken, or it names a launch as no folder can be.
        """
        plan = read_record(self.plan_file, Plan)
        for launch in plan.launches:
            if "/" in launch.id or name_fault(launch.id):
                raise BundleError(f"{self.plan_file}: {launch.id[:80]!r} is no name of a launch's folder")
            if launch.mode not in plan.profile.modes:
                raise BundleError(f"{self.plan_file}: {launch.id}: its mode is none of the profile's")
        return plan

    def run(self) -> Run:
        """The session's identity.

        Raises:
            BundleError: missing, newer or broken.
        """
        return read_record(self.run_file, Run)

    def selftest(self) -> SelfTest | None:
        """The client's self-test, None where there is none.

        Raises:
            BundleError: newer or broken.
        """
        return read_record(self.selftest_file, SelfTest) if self.selftest_file.is_file() else None

    def verdict(self) -> Verdict:
        """The verdict, if the judge has spoken.

        Raises:
            BundleError: missing, newer or broken.
        """
        return read_record(self.verdict_file, Verdict)

    def prompts(self) -> FrozenPrompts | None:
        """The text prompts, or None where none were rendered.

        Raises:
            BundleError: newer or broken.
        """
        return read_record(self.prompts_file, FrozenPrompts) if self.prompts_file.is_file() else None

    def lock(self, arm: Arm) -> Lock:
        """What the arm resolved to.

        Raises:
            BundleError: missing, newer or broken.
        """
        return read_record(self.lock_file(arm), Lock)


class LaunchDir:
    """Folder of one launch: evidence only, nothing derived."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def id(self) -> str:
        """Name of the launch."""
        return self.root.name

    @property
    def record_file(self) -> Path:
        """How the launch went."""
        return self.root / "launch.json"

    @property
    def container_file(self) -> Path:
        """The engine's own description of the container; absent for a server that was a process."""
        return self.root / "container.json"

    @property
    def image_file(self) -> Path:
        """What was found in the running container, against what its lock says; absent for a process."""
        return self.root / "image.json"

    @property
    def log_file(self) -> Path:
        """The server's output, raw."""
        return self.root / "server.log"

    @property
    def log_times_file(self) -> Path:
        """When each piece of the log arrived: rows of [end offset, mono_ns]."""
        return self.root / "server.log.times.jsonl"

    @property
    def timeline_file(self) -> Path:
        """Every mark."""
        return self.root / "timeline.jsonl"

    @property
    def requests_file(self) -> Path:
        """Every request."""
        return self.root / "requests.jsonl"

    @property
    def outputs_file(self) -> Path:
        """Every output."""
        return self.root / "outputs.jsonl"

    @property
    def windows_file(self) -> Path:
        """Every window of requests between two scrapes."""
        return self.root / "windows.jsonl"

    @property
    def checks_file(self) -> Path:
        """Every check of the suites."""
        return self.root / "checks.jsonl"

    @property
    def caches_file(self) -> Path:
        """Cache folders at start, at readiness and at the end."""
        return self.root / "caches.json"

    @property
    def trace_dir(self) -> Path:
        """What the tracer wrote inside the server; absent for a launch that was not traced."""
        return self.root / "trace"

    @property
    def host_samples_file(self) -> Path:
        """Memory of the server's processes over time."""
        return self.root / "host.parquet"

    @property
    def gpu_samples_file(self) -> Path:
        """Readings of the lane's GPUs over time; absent for a launch on the CPU."""
        return self.root / "gpu.parquet"

    @property
    def gpu_events_file(self) -> Path:
        """What happened on those GPUs: processes, Xids, what could not be read."""
        return self.root / "gpu.jsonl"

    @property
    def metrics_dir(self) -> Path:
        """Raw scrapes."""
        return self.root / "metrics"

    def record(self) -> LaunchRecord | None:
        """How the launch went, or None where it never began.

        Raises:
            BundleError: newer or broken.
        """
        return read_record(self.record_file, LaunchRecord) if self.record_file.is_file() else None


def write_atomically(path: Path, data: bytes) -> None:
    """Write so that a reader, or a crash, finds the old file or the new one, never a part."""
    with whole(path) as stream:
        stream.write(data)


def write_piece(path: Path, data: bytes) -> None:
    """Write a new file in one go without waiting for the disk: a scrape between two windows, say."""
    pipe.put(path, hashlib.sha256(data).hexdigest(), len(data), lambda: path.write_bytes(data))


def write_once(path: Path, record: BaseModel) -> bool:
    """Write one record unless the file is there; of several processes that try, one does, and all know which."""
    data = _json_bytes(record.model_dump(mode="json"))
    return uninterrupted(lambda: _write_once(path, data))


def _write_once(path: Path, data: bytes) -> bool:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp") as mine:
        mine.write(data)
        mine.flush()
        os.fsync(mine.fileno())
        try:
            path.hardlink_to(mine.name)
        except FileExistsError:
            return False
    path.chmod(0o644)
    pipe.wrote(path, hashlib.sha256(data).hexdigest(), len(data))
    return True


def write_record(path: Path, record: BaseModel) -> None:
    """Write one record as JSON, its fields in the order of their definition."""
    write_json(path, record.model_dump(mode="json"))


def write_json(path: Path, value: object) -> None:
    """Write a JSON file that people can read and diff."""
    write_atomically(path, _json_bytes(value))


def _json_bytes(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def append_record(path: Path, record: BaseModel) -> None:
    """Append one record as a line. A crash loses at most the line being written."""
    line = json.dumps(record.model_dump(mode="json"), ensure_ascii=False) + "\n"
    pipe.append(path, line.encode())


def read_record(path: Path, kind: type[R]) -> R:
    """Read one record.

    Raises:
        BundleError: the file is missing, of a newer schema, or not such a record.
    """
    try:
        data = path.read_bytes()
        tree: Any = json.loads(data)
    except OSError as e:
        raise BundleError(f"{path}: cannot be read ({e.strerror}); is this a bundle of `qualify run`?") from None
    except (ValueError, RecursionError) as e:
        raise BundleError(f"{path}: not valid JSON ({e})") from None
    version = tree.get("schema_version") if isinstance(tree, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BundleError(
            f"{path}: schema {version} is newer than this harness knows ({SCHEMA_VERSION}); update the harness"
        )
    del tree  # a large record must not stand in memory twice
    return _validated(data, kind, str(path))


def read_lines(path: Path, kind: type[R]) -> Iterator[R]:
    """Records of a .jsonl file in order; a missing file has none, a torn last line is left out.

    Raises:
        BundleError: a whole line is not such a record.
    """
    if not path.is_file():
        return
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if line.endswith(b"\n"):
                yield _validated(line, kind, f"{path}:{number}")


def _validated(data: str | bytes, kind: type[R], where: str) -> R:
    try:
        return kind.model_validate_json(data, context=FROZEN)
    except ValidationError as e:
        fault = e.errors(include_url=False)[0]
        key = ".".join(map(str, fault["loc"]))
        raise BundleError(f"{where}: not a {kind.__name__}: `{key}`: {fault['msg']}") from None
