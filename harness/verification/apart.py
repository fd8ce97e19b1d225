"""Files of samples are read in a process of their own before they are read in this one.

pyarrow is made for files that are whole. One whose footer was damaged can end the process that opens it (Parquet's
C++ exceptions pass through some of pyarrow's accessors uncaught), and nothing says that none can hold it for ever. The
first to open a stranger's file is therefore a child that may die of it.
"""

from __future__ import annotations

import json
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.verification.parquet import HostileParquetError, Shape, check_parquet

ANSWER_S = 60.0
"""The largest file that is let through, 64 MiB unpacked, is read in a second; the first answer waits for imports."""


class Reader:
    """A child that looks at one file after the other; a new one where it died."""

    def __init__(self, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._child: subprocess.Popen[str] | None = None

    def check(self, path: Path, types: Mapping[str, str], *, rows: int) -> Shape:
        """As `check_parquet`, and the file can be read to its end.

        Raises:
            HostileParquetError: it is none that a sampler writes, or whoever reads it dies or never ends.
        """
        child = self._child = self._child or self._begun()
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(BrokenPipeError):  # then there is nothing to be read either
            child.stdin.write(json.dumps({"path": str(path.resolve()), "types": dict(types), "rows": rows}) + "\n")
            child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], self._answer_s)
        line = child.stdout.readline() if ready else ""
        if not line:
            how = _ending(child) if ready else f"was not done after {self._answer_s:g} s"
            self.close()
            raise HostileParquetError(f"a process that read it {how}")
        answer = json.loads(line)
        if "refused" in answer:
            raise HostileParquetError(answer["refused"])
        return Shape(answer["rows"], tuple(answer["columns"]))

    def close(self) -> None:
        """End the child, whatever it does."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        with child, suppress(BrokenPipeError):  # closes the pipes, and waits
            pass

    @staticmethod
    def _begun() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "harness.verification.apart"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )


@contextmanager
def reader() -> Iterator[Reader]:
    """A reader whose child is gone afterwards."""
    made = Reader()
    try:
        yield made
    finally:
        made.close()


def _ending(child: subprocess.Popen[str]) -> str:
    """How one ended whose output is closed: it is on its way out, if not gone."""
    code = child.wait(ANSWER_S)
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def main() -> None:
    """Answer each line of stdin with one of stdout."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # its death is expected
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_looked(json.loads(line))) + "\n")
        sys.stdout.flush()


def _looked(asked: Mapping[str, Any]) -> dict[str, Any]:
    import pyarrow as pa  # noqa: PLC0415  # heavy

    from harness.judge.samples import table_of  # noqa: PLC0415

    path, types = Path(asked["path"]), asked["types"]
    try:
        shape = check_parquet(path, types, rows=asked["rows"])
        table_of(path, types).validate(full=True)
    except HostileParquetError as e:
        return {"refused": str(e)}
    except (pa.ArrowException, OSError, ValueError, LookupError):
        pass  # an error that can be caught: the judge catches it too, and says what it means
    return {"rows": shape.rows, "columns": shape.columns}


if __name__ == "__main__":
    main()
