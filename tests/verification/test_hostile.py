"""Bundles that are made to hurt: each is refused in one line, and none takes more than 256 MiB."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.observe.gpu.journal import COLUMNS
from harness.paths import PROJECT
from tests.judge.bundles import Session

from .hostile import DIED, lethal, packed, zstd_bomb

pytestmark = pytest.mark.xdist_group("verification")

PEAK_MIB = 256
FIRST = "launches/001-"


def sparse(path: Path, size: int, head: bytes = b"") -> None:
    with path.open("wb") as stream:
        stream.write(head)
        stream.truncate(size)


def repeated(path: Path, text: bytes, size: int) -> None:
    """A file of this size that says one thing over and over."""
    piece = text * (1 + (1 << 20) // len(text))
    with path.open("wb") as stream:
        for _ in range(size // len(piece) + 1):
            stream.write(piece)


def samples(path: Path, rows: int, gpu: str) -> None:
    zeros, names = pa.array(np.zeros(rows, np.int64)), pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [gpu])
    table = {name: names if name == "gpu" else zeros for name in COLUMNS}
    pq.write_table(pa.table(table), path, compression="zstd", store_schema=False)


def columns(path: Path) -> None:
    pq.write_table(pa.table({f"c{n}": pa.array([0]) for n in range(8_000)}), path)


def one_long_text(path: Path) -> None:
    table = {name: pa.array(["a" * (80 << 20)] if name == "gpu" else [0]) for name in COLUMNS}
    pq.write_table(pa.table(table), path, compression="zstd", use_dictionary=False)


def killing(path: Path) -> None:
    pq.write_table(pa.table({"mono_ns": [1], "gpu": ["GPU-0"]}), path)
    lethal(path, {"mono_ns": "int64", "gpu": "string"})


REQUEST = b'{"request":"","window":"","step":"decode"},'
ERROR = b"(EngineCore pid=7) ERROR 11-29 18:00:00 [core.py:1] boom\n"

CASES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "huge document": ("plan.json", lambda p: sparse(p, 64 << 20, b"{"), "bytes, more than"),
    "many values": ("plan.json", lambda p: repeated(p, b"[],", 8 << 20), "values, more than"),
    "huge text": ("run.json", lambda p: repeated(p, b"a", 33 << 20), "bytes, more than"),
    "deep": ("plan.json", lambda p: p.write_bytes(b"[" * 200_000), "nested too deep"),
    "long line": (f"{FIRST}/requests.jsonl", lambda p: repeated(p, REQUEST, 24 << 20), "400,000 values"),
    "many lines": (f"{FIRST}/gpu.jsonl", lambda p: repeated(p, b"{}\n" * 100, 8 << 20), "MiB of memory"),
    "many cache files": (f"{FIRST}/caches.json", lambda p: repeated(p, b'"a":1,', 8 << 20), "values, more than"),
    "many log events": (f"{FIRST}/server.log", lambda p: repeated(p, ERROR, 20 << 20), "MiB of memory"),
    "many series": (f"{FIRST}/metrics/001.prom", lambda p: repeated(p, b"vllm:a 1\n", 6 << 20), "MiB of memory"),
    "huge scrape": (f"{FIRST}/metrics/001.prom", lambda p: sparse(p, 16 << 20), "more than a scrape has"),
    "many rows": (f"{FIRST}/gpu.parquet", lambda p: samples(p, 2_000_001, "GPU-0"), "rows, more than"),
    "a long text in many rows": (
        f"{FIRST}/gpu.parquet",
        lambda p: samples(p, 20_000, "a" * 60_000),
        "a text is longer",
    ),
    "a long text": (f"{FIRST}/gpu.parquet", one_long_text, "unpacks to more than"),
    "a death": (f"{FIRST}/gpu.parquet", killing, DIED),
    "many columns": (f"{FIRST}/gpu.parquet", columns, "its footer has"),
    "no parquet": (f"{FIRST}/gpu.parquet", lambda p: p.write_bytes(b"PAR1" + b"\xff" * 50 + b"PAR1"), "footer"),
    "huge manifest": (
        "SHA256SUMS",
        lambda p: repeated(p, b"a" * 64 + b"  b\n", 17 << 20),
        "bytes, more than",
    ),
    "huge verdict": ("verdict.json", lambda p: sparse(p, 64 << 20, b"{"), "bytes, more than"),
    "huge report": ("report/report.html", lambda p: repeated(p, b"<p>pass\n", 24 << 20), "line "),
    "link that leads out": ("pytest.log", lambda p: p.symlink_to("/etc/passwd"), "is a symbolic link"),
    "pipe": ("pytest.log", os.mkfifo, "is no plain file"),
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bundle, sealed and judged."""
    from harness.evidence.manifest import seal
    from harness.workflow import judge_and_report

    bundle = Session(tmp_path_factory.mktemp("honest")).build()
    seal(bundle.root)
    judge_and_report(bundle)
    return bundle.root


@pytest.fixture(scope="module")
def measured(honest: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What became of each case, with its peak."""
    places: dict[str, Path] = {"honest": honest}
    folder = tmp_path_factory.mktemp("hostile")
    for number, (name, (file, make, _)) in enumerate(CASES.items()):
        places[name] = folder / str(number)
        shutil.copytree(honest, places[name])
        path = places[name] / file
        if file.startswith(FIRST):
            path = next((places[name] / "launches").glob("001-*")) / file.removeprefix(f"{FIRST}/")
        path.unlink(missing_ok=True)
        make(path)
    for ending in ("zip", "tar.gz", "tar.zst"):
        places[ending] = packed(honest, folder / f"honest.{ending}")
    places["bomb"] = zstd_bomb(folder / "bomb.tar.zst", 1 << 30)
    command = [sys.executable, "-m", "tests.verification.measured", *map(str, places.values())]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=900, check=False)
    shutil.rmtree(folder)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(places), done.stderr
    return dict(zip(places, lines, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_in_one_line_within_the_memory(measured: dict[str, dict[str, Any]], name: str) -> None:
    found = measured[name]
    assert found["code"] == 5
    said = [text for text in found["said"] if CASES[name][2] in text]
    assert said, found["said"]
    assert all(text.isprintable() for text in found["said"])
    file = CASES[name][0].rpartition("/")[2]
    assert any(file in text for text in said)
    assert max(found["peak"], found["children"]) <= PEAK_MIB


def test_a_bomb_is_refused_within_the_memory(measured: dict[str, dict[str, Any]]) -> None:
    assert (measured["bomb"]["code"], len(measured["bomb"]["said"])) == (5, 1)
    assert measured["bomb"]["peak"] <= PEAK_MIB


@pytest.mark.parametrize("name", ["honest", "zip", "tar.gz", "tar.zst"])
def test_an_honest_one_verifies_within_the_memory(measured: dict[str, dict[str, Any]], name: str) -> None:
    assert (measured[name]["said"], measured[name]["code"]) == ([], 0)
    assert max(measured[name]["peak"], measured[name]["children"]) <= PEAK_MIB


def test_what_the_program_itself_takes_leaves_room(measured: dict[str, dict[str, Any]]) -> None:
    assert measured["honest"]["before"] <= PEAK_MIB * 2 // 3
