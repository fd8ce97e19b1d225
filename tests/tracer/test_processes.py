"""The tracer in every process of a server: installed from the first moment, harmless, and never lost."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.launch.tracing import TRACER, VARIABLE

from .libraries import CUTLASS, TRITON, Traced, run, write

CUTE = (
    "cutlass.base_dsl.compiler",
    "cutlass.base_dsl.dsl",
    "cutlass.base_dsl.export.external_binary_module",
    "cutlass.cute",
)
FILES = sorted(TRACER.rglob("*.py"))
COMPILE = """
from triton.runtime.jit import JITFunction
def _kernel(): pass
def compile_():
    JITFunction(_kernel, ["SIZE"]).run(SIZE=4)
"""


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(TRACER)))
def test_the_code_is_python_3_9_and_imports_nothing_but_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 9))
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        for name in names:
            assert name.partition(".")[0] in {*sys.stdlib_module_names, "qualify_tracer"}, name


def test_it_says_what_is_there_before_anything_is_imported(tmp_path: Path) -> None:
    done = run(tmp_path, "import sys\nprint('triton' in sys.modules)", TRITON)
    assert (done.out, done.err) == ("False\n", "")
    assert done.hooks() == {
        "triton.compiler.compiler": "waiting",
        "triton.runtime.jit": "waiting",
        "triton.runtime.autotuner": "waiting",
        **dict.fromkeys(CUTE, "absent"),
        "tilelang.jit.kernel": "absent",
    }
    [process] = done.of("process")
    assert (process["format"], process["forked"]) == (1, False)


def test_a_library_that_is_imported_is_hooked(tmp_path: Path) -> None:
    done = run(tmp_path, "import triton, cutlass.cute", TRITON, CUTLASS)
    assert {k: v for k, v in done.hooks().items() if k != "tilelang.jit.kernel"} == {
        "triton.compiler.compiler": "hooked",
        "triton.runtime.jit": "hooked",
        "triton.runtime.autotuner": "hooked",
        **dict.fromkeys(CUTE, "hooked"),
    }
    [told] = done.of("hook", hook="triton.compiler.compiler", status="hooked")
    assert told["detail"].startswith("compile, ASTSource.make_ir, not IRSource.make_ir")


def test_without_its_variable_it_does_nothing(tmp_path: Path) -> None:
    program = "import sys\nprint('qualify_tracer' in sys.modules, len(sys.meta_path))"
    plain = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    done = run(tmp_path, program, QUALIFY_TRACE="")
    assert (done.out, done.records) == (plain.stdout, [])


def test_the_hidden_sitecustomize_runs_as_if_it_were_not_hidden(tmp_path: Path) -> None:
    own = {"sitecustomize.py": "import os\nos.environ['SEEN'] = __name__ + ' ' + __file__\n"}
    program = "import os, sitecustomize\nprint(os.environ['SEEN'])\nprint(sitecustomize.__file__)"
    done = run(tmp_path, program, own)
    file = str(tmp_path / "site" / "sitecustomize.py")
    assert done.out == f"sitecustomize {file}\n{file}\n"


def test_an_error_of_the_hidden_sitecustomize_is_reported_by_python_itself(tmp_path: Path) -> None:
    done = run(tmp_path, "print('runs')", {"sitecustomize.py": "raise RuntimeError('theirs')\n"})
    assert done.out == "runs\n"
    assert "RuntimeError: theirs" in done.err
    assert done.of("process")


@pytest.mark.parametrize("folder", ["missing", "a file"])
def test_a_folder_that_cannot_be_written_harms_nobody(tmp_path: Path, folder: str) -> None:
    place = tmp_path / folder
    if folder == "a file":
        place.write_text("")
    done = run(tmp_path, COMPILE + "compile_()\nprint('runs')", TRITON, QUALIFY_TRACE=str(place))
    assert (done.out, done.err) == ("runs\n", "")


def test_a_tracer_that_is_broken_harms_nobody(tmp_path: Path) -> None:
    write(tmp_path / "broken", {"qualify_tracer/__init__.py": "raise OSError('broken')\n"})
    path = os.pathsep.join([str(tmp_path / "broken"), str(TRACER)])
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path, VARIABLE: str(tmp_path)}
    # The first entry of the path wins, and sitecustomize is the tracer's own.
    done = subprocess.run(
        [sys.executable, "-c", "print('runs')"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "runs\n"
    assert done.stderr == "qualify tracer: not installed: OSError: broken\n"


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13", "3.14"])
def test_every_python_of_a_server_can_run_it(tmp_path: Path, version: str) -> None:
    python = shutil.which(f"python{version}") or ""
    if not python or subprocess.run([python, "-V"], capture_output=True, check=False).returncode:
        pytest.skip(f"no Python {version} here")
    done = run(tmp_path, COMPILE + "compile_()", TRITON, CUTLASS, python=python)
    assert (done.code, done.err, done.of("fault")) == (0, "", [])
    assert done.compiled() == [("_kernel", {"SIZE": 4})]


# --- fork, spawn, death -----------------------------------------------------------------------------


def test_a_fork_writes_a_file_of_its_own(tmp_path: Path) -> None:
    program = COMPILE + (
        "import os\ncompile_()\npid = os.fork()\nif not pid:\n    compile_()\n    os._exit(0)\n"
        "os.waitpid(pid, 0)\ncompile_()\nprint(pid)\n"
    )
    done = run(tmp_path, program, TRITON)
    child = int(done.out)
    assert len(list(done.folder.iterdir())) == 2
    [told] = done.of("process", pid=child)
    assert told["forked"]
    assert done.hooks() == {r["hook"]: r["status"] for r in done.of("hook", pid=child)}, "a fork keeps the hooks"
    assert len(done.of("kernel", event="compile", pid=child)) == 1
    assert len(done.of("kernel", event="compile")) == 3


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_workers_of_every_start_method_are_traced(tmp_path: Path, method: str) -> None:
    worker = write(tmp_path / "site", {"worker.py": COMPILE + "def main():\n    compile_()\n"})
    program = (
        "import multiprocessing as m, worker\nif __name__ == '__main__':\n"
        f"    p = m.get_context('{method}').Process(target=worker.main)\n    p.start()\n    p.join()\n"
        "    print(p.pid, p.exitcode)\n"
    )
    done = run(tmp_path, program, TRITON, behind=str(worker))
    pid, code = done.out.split()
    assert code == "0", done.err
    assert len(done.of("kernel", event="compile", pid=int(pid))) == 1


def test_what_was_written_survives_sigkill(tmp_path: Path) -> None:
    program = COMPILE + f"compile_()\nimport os\nos.kill(os.getpid(), {signal.SIGKILL:d})\n"
    done = run(tmp_path, program, TRITON)
    assert done.code == -signal.SIGKILL
    assert done.compiled() == [("_kernel", {"SIZE": 4})]


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    program = COMPILE + (
        "import threading\nthreads = [threading.Thread(target=lambda: [compile_() for _ in range(50)]) "
        "for _ in range(4)]\n[t.start() for t in threads]\n[t.join() for t in threads]\n"
    )
    done = run(tmp_path, program, TRITON)
    assert len(done.compiled()) == 200
    assert len({r["thread"] for r in done.of("kernel")}) == 4


HOSTILE = {"line": "a\nb", "quote": '"', "surrogate": "\u2028\ud800", "html": "</script>", "long": "x" * 70_000}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_whatever_a_kernel_is_called_its_line_is_one_line(tmp_path: Path, name: str) -> None:
    program = COMPILE + f"_kernel.__name__ = {name!r}\ncompile_()\n"
    done = run(tmp_path, program, TRITON)
    assert (done.code, done.err) == (0, "")
    assert len(done.compiled()) == 1


# --- memory and rank --------------------------------------------------------------------------------

TORCH = """
import os
class _Distributed:
    @staticmethod
    def is_available(): return True
    @staticmethod
    def is_initialized(): return True
    @staticmethod
    def get_rank(): return 3
class cuda:
    asked = 0
    @staticmethod
    def is_initialized(): return os.environ.get("CUDA") == "1"
    @staticmethod
    def is_current_stream_capturing(): return os.environ.get("CAPTURING") == "1"
    @staticmethod
    def current_device(): return 1
    @classmethod
    def mem_get_info(cls, device):
        assert cls.is_initialized(), "CUDA was initialised by the tracer"
        cls.asked += 1
        return (1000 - 100 * cls.asked, 2000)
    @staticmethod
    def max_memory_allocated(device): return 11
    @staticmethod
    def max_memory_reserved(device): return 22
"""


def memory_of(done: Traced) -> tuple[object, ...]:
    [told] = done.of("kernel", event="compile")
    names = ("device", "free_before_bytes", "free_after_bytes", "torch_allocated_peak_bytes")
    return (*(told[n] for n in names), told["torch_reserved_peak_bytes"], told["capturing"])


@pytest.mark.parametrize(
    ("environment", "memory"),
    [
        ({"CUDA": "1"}, (1, 800, 700, 11, 22, False)),
        ({}, (None, None, None, None, None, False)),
        ({"CUDA": "1", "CAPTURING": "1"}, (None, None, None, None, None, True)),
    ],
    ids=["in use", "not initialised", "capturing a graph"],
)
def test_the_devices_memory_is_asked_only_where_cuda_is_in_use(
    tmp_path: Path, environment: dict[str, Any], memory: tuple[object, ...]
) -> None:
    torch = {"torch/__init__.py": TORCH}
    done = run(tmp_path, "import torch\n" + COMPILE + "compile_()", TRITON, torch, **environment)
    assert memory_of(done) == memory


def test_torch_is_not_imported_for_it(tmp_path: Path) -> None:
    torch = {"torch/__init__.py": "raise SystemExit('torch was imported')\n"}
    done = run(tmp_path, COMPILE + "compile_()", TRITON, torch)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("program", "environment", "rank"),
    [
        ("import torch.distributed", {}, (3, "torch.distributed")),
        ("", {"RANK": "2", "LOCAL_RANK": "0"}, (2, "RANK")),
        ("", {"LOCAL_RANK": "1"}, (1, "LOCAL_RANK")),
        ("import multiprocessing as m\nm.current_process().name = 'VllmWork' + 'er-5'", {}, (5, "process name")),
        ("", {}, (None, "unknown")),
    ],
)
def test_the_rank_is_that_of_torch_or_of_the_environment(
    tmp_path: Path, program: str, environment: dict[str, Any], rank: tuple[int | None, str]
) -> None:
    distributed = "from torch import _Distributed as _d\n" + "".join(
        f"{n} = _d.{n}\n" for n in ("is_available", "is_initialized", "get_rank")
    )
    torch = {"torch/__init__.py": TORCH, "torch/distributed.py": distributed}
    done = run(tmp_path, f"{program}\n{COMPILE}compile_()", TRITON, torch, **environment)
    [told] = done.of("kernel", event="compile")
    assert (told["rank"], told["rank_from"]) == rank
