"""A session on whose machine everything private shows, in each place where it can."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from harness.evidence.bundle import Bundle, append_record, read_lines, read_record, write_record
from harness.evidence.manifest import MANIFEST, seal
from harness.evidence.redaction.parquet import parquet_strings
from harness.records import CheckRecord, LaunchRecord, OutputRecord, RequestRecord
from harness.stack.record import LOCK_FILE, LockedBase, LockedComponent, StackLock
from harness.words import Arm
from tests.evidence.redaction.planted import PRIVATE_KEY, SHOWN
from tests.report.bundles import make_bundle, plan

LAUNCH = plan().launches[0].id

TEXT = "\n".join([*(text for _, text, _ in SHOWN.values()), PRIVATE_KEY])
"""Everything private, as one text."""

PRIVATE = tuple(sorted({private for _, _, private in SHOWN.values()} - {"jdoe", "rigel"}))
"""What must not be left; not the two words that are a part of others."""


def record_of(bundle: Bundle) -> LaunchRecord:
    return read_record(bundle.launch(LAUNCH).record_file, LaunchRecord)


def in_environment(bundle: Bundle) -> None:
    env = {f"VARIABLE_{n}": text for n, (_, text, _) in enumerate(SHOWN.values())} | {"PEM": PRIVATE_KEY}
    write_record(bundle.launch(LAUNCH).record_file, record_of(bundle).model_copy(update={"env": env}))


def in_argv(bundle: Bundle) -> None:
    argv = (*record_of(bundle).argv, *TEXT.split("\n"))
    write_record(bundle.launch(LAUNCH).record_file, record_of(bundle).model_copy(update={"argv": argv}))


def in_log(bundle: Bundle) -> None:
    import hashlib

    folder = bundle.launch(LAUNCH)
    log = folder.log_file.read_bytes() + f"{TEXT}\nand \xff\n".encode("latin-1", "replace")
    folder.log_file.write_bytes(log)
    last = folder.log_times_file.read_text("ascii").splitlines()[-1]
    with folder.log_times_file.open("a", encoding="ascii") as stream:
        stream.write(f"{json.dumps([len(log), json.loads(last)[1]])}\n")
    update = {"log_sha256": hashlib.sha256(log).hexdigest(), "log_bytes": len(log)}
    write_record(folder.record_file, record_of(bundle).model_copy(update=update))


def in_scrape(bundle: Bundle) -> None:
    scrape = next(iter(sorted(bundle.launch(LAUNCH).metrics_dir.iterdir())))
    with scrape.open("a", encoding="utf-8") as stream:
        stream.write("".join(f"# HELP x {line}\n" for line in TEXT.split("\n")))


def in_container(bundle: Bundle) -> None:
    tree = {"Config": {"Env": TEXT.split("\n"), "Labels": {"all": TEXT}}}
    bundle.launch(LAUNCH).container_file.write_text(json.dumps(tree, indent=1, ensure_ascii=False), "utf-8")


def in_lock(bundle: Bundle) -> None:
    for arm in Arm:
        write_record(bundle.stack_lock_dir(arm) / LOCK_FILE, stack_lock(TEXT))
        (bundle.stack_lock_dir(arm) / "build.log").write_text(TEXT, "utf-8")


def in_pytest_log(bundle: Bundle) -> None:
    (bundle.root / "pytest.log").write_text(f"===\n{TEXT}\n", "utf-8")


def in_junit(bundle: Bundle) -> None:
    (bundle.root / "junit.xml").write_text(f"<testsuites><failure>{TEXT}</failure></testsuites>", "utf-8")


def in_trace(bundle: Bundle) -> None:
    folder = bundle.launch(LAUNCH).trace_dir
    folder.mkdir()
    (folder / "7.jsonl").write_text(json.dumps({"record": "fault", "error": TEXT}, ensure_ascii=False) + "\n", "utf-8")


def in_check(bundle: Bundle) -> None:
    record = CheckRecord(name="a check", context_tokens=None, outcome="passed", message=TEXT)
    append_record(bundle.launch(LAUNCH).checks_file, record)


def in_outputs(bundle: Bundle) -> None:
    file = bundle.launch(LAUNCH).outputs_file
    first = next(read_lines(file, OutputRecord))
    append_record(file, first.model_copy(update={"request": "9999", "text": TEXT}))


def in_requests(bundle: Bundle) -> None:
    file = bundle.launch(LAUNCH).requests_file
    first = next(read_lines(file, RequestRecord))
    append_record(file, first.model_copy(update={"request": "9999", "window": "nobody's", "error": TEXT}))


def in_samples(bundle: Bundle) -> None:
    texts = [*(text for _, text, _ in SHOWN.values()), PRIVATE_KEY, None]
    table = pa.table({"gpu": texts, "mono_ns": list(range(len(texts)))})
    pq.write_table(table, bundle.launch(LAUNCH).gpu_samples_file)


PLACES: Mapping[str, Callable[[Bundle], None]] = {
    "environment": in_environment,
    "argv": in_argv,
    "server.log": in_log,
    "metrics": in_scrape,
    "container inspect": in_container,
    "git remote of a lock": in_lock,
    "pytest.log": in_pytest_log,
    "junit.xml": in_junit,
    "trace": in_trace,
    "check": in_check,
    "outputs": in_outputs,
    "requests": in_requests,
    "samples": in_samples,
}


def private_bundle(root: Path, *places: str) -> Bundle:
    """A sealed session with everything private in these places."""
    bundle = make_bundle(root)
    for place in places:
        PLACES[place](bundle)
    (root / MANIFEST).unlink()
    seal(root)
    return bundle


def stack_lock(remote: str) -> StackLock:
    """A lock whose component was fetched from that remote."""
    component = LockedComponent(
        name="vllm",
        repository=remote,
        base_commit="a" * 40,
        base_tree="b" * 40,
        integration=None,
        tree_before="b" * 40,
        heads=(),
        patches=(),
        tree="c" * 40,
        packages=("vllm",),
        install=(),
        patch_sha256="d" * 64,
        composed_sha256="e" * 64,
        files=(),
    )
    return StackLock(
        stack="patched",
        without=(),
        base=LockedBase(reference="a/b", digest=f"sha256:{'f' * 64}", release=""),
        build_mode="overlay",
        components=(component,),
        claims=(),
        inputs_sha256="0" * 64,
    ).sealed()


def every_byte(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of a folder as whoever gets it can read it, its name too."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        data = path.read_bytes()
        yield name, name.encode()
        yield name, data
        if path.suffix == ".zst":
            yield name, zstandard.ZstdDecompressor().stream_reader(data).read()
        if path.suffix == ".parquet":
            yield name, b"\n".join(parquet_strings(path))


def left_in(folder: Path) -> list[tuple[str, str]]:
    """Everything private that is still to be found, with its file."""
    private = [p.encode() for p in PRIVATE]
    return [(name, p.decode()) for name, data in every_byte(folder) for p in private if p in data]
