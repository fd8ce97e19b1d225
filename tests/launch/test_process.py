"""The process launcher: what a server is started with, how it is stopped, and that nothing of it is left."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.launch import process
from harness.launch.launcher import LaunchFailed
from harness.launch.state import MARKER, marked_processes
from harness.records import Exit
from tests.launch.bench import PYTHON, Bench, Running, environment_of, lives, spec_in, until

SLEEP = "import time; time.sleep(60)"
READY = b"Application startup complete."


def child(code: str, how: str = "") -> str:
    """Code that starts a child, and prints its number."""
    command = f"[{sys.executable!r}, '-I', '-S', '-c', {code!r}]"
    return f"import subprocess; c = subprocess.Popen({command}{how}); print(c.pid, flush=True)\n"


def ended(running: Running) -> Exit:
    return until(running.server.ended)


# --- the log --------------------------------------------------------------------------------------------


def test_both_streams_reach_the_log_byte_for_byte_and_the_hash_is_the_files(bench: Bench) -> None:
    running = bench.script(r"import os; os.write(1, bytes(range(256))); os.write(2, b'\xff\xfe\r\n\x1b[31m\r'); 0")
    ended(running)
    running.server.stop(1)
    assert running.log == bytes(range(256)) + b"\xff\xfe\r\n\x1b[31m\r"
    assert running.server.log_digest() == (hashlib.sha256(running.log).hexdigest(), len(running.log))


def test_the_times_rise_from_the_first_output_to_the_logs_end(bench: Bench) -> None:
    begin = time.monotonic_ns()
    running = bench.script(
        "import os, time\n"
        "while not os.path.exists('../server.log'): time.sleep(0.001)\n"  # the pipe's thread may come second
        "for lines in range(1, 6):\n"
        "    os.write(1, b'12345678\\n')\n"
        "    while os.stat('../server.log').st_size < 9 * lines: time.sleep(0.001)"
    )
    ended(running)
    running.server.stop(1)
    offsets, times = zip(*running.times, strict=True)
    assert offsets == (9, 18, 27, 36, 45)
    assert len(running.log) == 45
    assert list(times) == sorted(set(times))
    assert begin < times[0] < times[-1] < time.monotonic_ns()


def test_a_server_that_writes_50_megabytes_does_not_stall(bench: Bench) -> None:
    running = bench.script("import os\nfor _ in range(50): os.write(1, b'x' * 999_999 + b'\\n')")
    assert ended(running).code == 0
    running.server.stop(1)
    assert running.spec.log_file.stat().st_size == running.server.log_digest()[1] == 50_000_000
    cpu_ns = running.server.log_cpu_ns()
    assert cpu_ns is not None
    assert cpu_ns > 10_000_000, "hashing so much takes some 30 ms of any core"
    assert running.times[-1][0] == 50_000_000
    running.spec.log_file.unlink()


@pytest.mark.parametrize("name", ["log_file", "log_times_file"])
def test_a_full_disk_does_not_block_the_server_and_is_reported(bench: Bench, name: str) -> None:
    spec = spec_in(bench.root / "full", (*PYTHON, "-c", "import os\nfor _ in range(9): os.write(1, b'x' * 100_000)"))
    full: Any = {name: Path("/dev/full")}
    running = bench.start(replace(spec, **full))
    assert ended(running).code == 0
    running.server.stop(1)
    assert "No space left" in str(running.server.log_write_error)
    assert running.server.log_digest() == (hashlib.sha256(b"x" * 900_000).hexdigest(), 900_000)


# --- what it is started with ----------------------------------------------------------------------------


def test_the_environment_is_the_specs_and_nothing_of_ours(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "VLLM_API_KEY"):
        monkeypatch.setenv(name, "planted")
    running = bench.script(SLEEP, {"GIVEN": "yes"})
    environment = environment_of(running.pid)
    # SPT_NOENV: without it, vLLM's process titles overwrite the environment, and the marker with it.
    assert environment == {"GIVEN": "yes", "SPT_NOENV": "1", MARKER: running.state["marker"]}


def test_it_leads_a_session_of_its_own_in_its_own_folder_and_hears_nobody(bench: Bench) -> None:
    running = bench.script(SLEEP)
    pid = running.pid
    assert (os.getsid(pid), os.getpgid(pid)) == (pid, pid)
    assert Path(f"/proc/{pid}/cwd").readlink() == running.spec.work_dir
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")


def test_the_system_is_asked_for_the_command_and_none_is_left_of_a_dead_one(bench: Bench) -> None:
    running = bench.script("input()")  # at /dev/null
    assert running.server.effective_argv() in (running.spec.argv, None)
    ended(running)
    assert running.server.effective_argv() is None


@pytest.mark.usefixtures("_impatient")
def test_memory_is_that_of_the_server_and_its_children(bench: Bench) -> None:
    running = bench.script(child(SLEEP) + SLEEP)
    grandchild = running.wait_for_line()
    found = until(lambda: u if len(u := running.server.usage()) == 2 else None)
    assert any(name.endswith(f":{grandchild}") for name in found)
    assert all(size > 1 << 20 for size, _ in found.values())
    running.server.stop(0)
    assert running.server.usage() == {}


@pytest.mark.usefixtures("_impatient")
def test_cpu_time_grows_with_what_a_process_computes_and_is_its_own(bench: Bench) -> None:
    """The child burns 0.2 s, and the server itself waits."""
    running = bench.script(child("import time\nwhile time.process_time() < 0.2: pass\n" + SLEEP) + SLEEP)
    child_pid = running.wait_for_line()

    def burnt() -> dict[str, int]:
        found = {name.rpartition(":")[2]: cpu or 0 for name, (_, cpu) in running.server.usage().items()}
        return found if found.get(str(child_pid), 0) >= 190_000_000 else {}

    times = until(burnt)
    assert times[str(running.pid)] < times[str(child_pid)]


# --- how it ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "exit_"),
    [
        ("0", Exit(code=0, signal=None, asked=False)),
        ("import sys; sys.exit(7)", Exit(code=7, signal=None, asked=False)),
        ("import os; os.kill(os.getpid(), 11)", Exit(code=None, signal="SIGSEGV", asked=False)),
        ("import os; os.kill(os.getpid(), 9)", Exit(code=None, signal="SIGKILL", asked=False)),
        ("import os; os.kill(os.getpid(), 40)", Exit(code=None, signal="SIGRTMIN+6", asked=False)),
    ],
)
def test_an_exit_code_and_a_signal_are_told_apart(bench: Bench, code: str, exit_: Exit) -> None:
    running = bench.script(code)
    assert ended(running) == exit_
    assert running.server.stop(1) == exit_
    assert running.server.ended() == exit_


def test_a_server_that_runs_has_not_ended(bench: Bench) -> None:
    assert bench.script(SLEEP).server.ended() is None


def test_it_is_asked_first_and_its_last_words_are_heard(bench: Bench) -> None:
    running = bench.script(
        "import os, signal, time\n"
        "def end(*_): os.write(1, b'bye\\n'); os._exit(3)\n"
        "signal.signal(signal.SIGTERM, end); os.write(1, b'ready\\n'); time.sleep(60)"
    )
    running.wait_for_line()
    assert running.server.stop(5) == Exit(code=3, signal=None, asked=True)
    assert running.log == b"ready\nbye\n"


def test_one_that_does_not_listen_is_killed_after_the_grace(bench: Bench, model: Path) -> None:
    running = bench.fake(model, "ignore-sigterm")
    running.wait_for_log(READY)
    begin = time.monotonic()
    assert running.server.stop(0.4) == Exit(code=None, signal="SIGKILL", asked=True)
    assert 0.4 <= time.monotonic() - begin < 10


def test_stopping_twice_says_the_same(bench: Bench) -> None:
    running = bench.script(SLEEP)
    assert running.server.stop(5) == running.server.stop(5) == Exit(code=None, signal="SIGTERM", asked=True)


def test_the_state_file_is_there_while_the_server_runs(bench: Bench) -> None:
    running = bench.script(SLEEP)
    assert running.state["launch"] == running.spec.launch
    assert running.state["owner_pid"] == os.getpid()
    running.server.stop(5)
    assert not running.state_file.exists()


# --- what outlives it -----------------------------------------------------------------------------------


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For workers that never end: the wait for them need not be the real one."""
    monkeypatch.setattr(process, "CHILDREN_END_S", 0.2)


@pytest.mark.usefixtures("_impatient")
def test_a_worker_that_outlives_the_server_is_counted_and_killed(bench: Bench, model: Path) -> None:
    running = bench.fake(model, "orphan-worker")
    log = running.wait_for_log(READY)
    marker = running.state["marker"]
    found = re.search(rb"VLLM::Worker pid (\d+)", log)
    assert found is not None
    assert lives(int(found[1]))
    assert running.server.stop(5) == Exit(code=0, signal=None, asked=True, survivors_killed=1)
    assert not lives(int(found[1]))
    assert marked_processes(marker) == []


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(
    "how",
    [
        ", stdout=-3, stderr=-3, start_new_session=True",
        ", stdout=-3, stderr=-3, start_new_session=True, env={}",
    ],
    ids=["in a session of its own", "and with an empty environment"],
)
def test_a_worker_that_left_session_and_log_is_found_all_the_same(bench: Bench, how: str) -> None:
    running = bench.script(child(SLEEP, how) + SLEEP)
    worker = int(running.wait_for_line())
    assert running.server.stop(5).survivors_killed == 1
    assert not lives(worker)


@pytest.mark.usefixtures("_impatient")
def test_workers_of_a_server_that_died_by_itself_are_killed(bench: Bench) -> None:
    running = bench.script(child(SLEEP, ", stdout=-3, stderr=-3") + "raise SystemExit(1)")
    worker = int(running.wait_for_line())
    ended(running)
    assert running.server.stop(5) == Exit(code=1, signal=None, asked=False, survivors_killed=1)
    assert not lives(worker)


def test_a_worker_that_ends_a_moment_later_is_no_survivor_and_is_heard(bench: Bench) -> None:
    running = bench.script(child("import time; time.sleep(0.3); print('last')") + "import time; time.sleep(60)")
    running.wait_for_line()
    assert running.server.stop(5).survivors_killed == 0
    assert running.log.endswith(b"last\n")


def test_a_stranger_is_left_alone(bench: Bench) -> None:
    first, second = bench.script(SLEEP), bench.script(SLEEP)
    first.server.stop(0)
    assert second.server.ended() is None
    assert lives(second.pid)


# --- what cannot be started -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "env", "told"),
    [
        (("/nowhere/vllm", "serve"), {}, "cannot start /nowhere/vllm: No such file or directory"),
        (("vllm-that-is-not-there",), {"PATH": "/usr/bin"}, "cannot start vllm-that-is-not-there: No such file"),
        (("/etc/passwd",), {}, "cannot start /etc/passwd: Permission denied"),
        ((sys.executable,), {"NAME": "a\0b"}, "embedded null byte"),
    ],
)
def test_a_start_that_fails_says_what_mends_it_and_leaves_no_state(
    bench: Bench, argv: tuple[str, ...], env: dict[str, str], told: str
) -> None:
    with pytest.raises(LaunchFailed, match=f"^process: .*{re.escape(told)}.*; is the engine installed\\?$") as caught:
        bench.start(spec_in(bench.root / "failing", argv, env))
    assert caught.value.stage == "process"
    assert list(bench.state_files()) == []
