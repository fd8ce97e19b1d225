"""A server in a container: its log to the last byte, and how it ended, told apart."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import docker
import pytest
from docker.errors import NotFound

from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from harness.launch.launcher import LaunchFailed
from harness.records import ENGINE_STAGE
from tests.containers.bench import SESSION, Bench, Running
from tests.containers.waiting import answers, until

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


def up(running: Running) -> Running:
    until(lambda: b"up" in running.log)
    return running


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forge(tmp_path_factory.mktemp("forged") / "model", Recipe())


class TestLog:
    def test_bytes_are_the_servers_own_whatever_their_encoding(self, containers: Bench) -> None:
        raw = bytes(range(256)) * 3 + b"\r 50%\r\x1b[31mred\x1b[0m no end of line"
        running = containers.start(f"import os; os.write(1, {raw!r})")
        assert running.ended().code == 0
        assert running.log == raw

    def test_both_streams_are_in_it(self, containers: Bench) -> None:
        running = containers.start("import os, time; os.write(1, b'out\\n'); time.sleep(0.2); os.write(2, b'err\\n')")
        running.ended()
        # The engine reads them by themselves, and on a busy machine hands over the later one first.
        assert sorted(running.log.splitlines()) == [b"err", b"out"]

    def test_a_burst_is_complete_and_hashed_as_it_came(self, containers: Bench) -> None:
        script = (
            "import os\n"
            "for n in range(100):\n"
            "    for fd in (1, 2):\n"
            "        block = memoryview(bytes([n + 100 * (fd - 1)]) * 50_000)\n"
            "        while block: block = block[os.write(fd, block):]\n"
        )
        running = containers.start(script)
        assert running.ended().code == 0
        running.stop()
        assert sorted(running.log) == sorted(bytes(range(200)) * 50_000)
        assert running.server.log_digest() == (hashlib.sha256(running.log).hexdigest(), 10_000_000)

    def test_every_piece_has_the_time_of_its_arrival(self, containers: Bench) -> None:
        running = containers.start("import os, time\nfor _ in range(3): os.write(1, b'x\\n'); time.sleep(0.1)")
        running.ended()
        running.stop()
        offsets, times = zip(*running.times, strict=True)
        assert (offsets[-1], len(offsets)) == (6, 3)
        assert running.server.started_ns < times[0]
        assert all(b - a > 50_000_000 for a, b in pairwise(times))

    def test_a_full_disk_does_not_stop_the_server_and_is_reported(self, containers: Bench, tmp_path: Path) -> None:
        launcher, spec = containers.prepare("import os\nfor _ in range(9): os.write(1, b'x' * 100_000)")
        full = tmp_path / "full.log"
        full.symlink_to("/dev/full")
        server = launcher.start(replace(spec, log_file=full, container_file=Path("/dev/full/container.json")))
        exit_ = until(server.ended)
        assert exit_ is not None
        assert (exit_.code, server.stop(1)) == (0, exit_)
        assert server.log_write_error is not None
        assert server.log_digest()[1] == 900_000

    def test_output_that_breaks_off_is_no_end_of_the_server(
        self, containers: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As after an engine that was started anew under running containers."""
        monkeypatch.setattr("harness.launch.docker.server.SETTLE_S", 0.2)
        running = up(containers.start(SLEEP))
        running.server._output.close()  # noqa: SLF001  # what the engine would do
        told = "the container runs, and the engine has stopped sending its output"
        with pytest.raises(LaunchFailed, match=told):
            until(running.server.ended)
        exit_ = running.stop()
        assert (exit_.asked, exit_.error) == (True, told)

    def test_silence_is_no_end_of_the_log(self, containers: Bench) -> None:
        running = containers.start("import time; time.sleep(1.5); print('late')")
        assert running.server.ended() is None
        running.ended()
        assert running.log == b"late\n"


class TestEnd:
    def test_an_exit_code_is_the_servers_own(self, containers: Bench) -> None:
        exit_ = containers.start("raise SystemExit(3)").ended()
        assert (exit_.code, exit_.signal, exit_.asked, exit_.oom_killed, exit_.error) == (3, None, False, False, None)

    @pytest.mark.parametrize("code", [137, 143])
    def test_a_code_that_looks_like_a_signal_is_none(self, containers: Bench, code: int) -> None:
        exit_ = containers.start(f"raise SystemExit({code})").ended()
        assert (exit_.code, exit_.signal) == (code, None)

    def test_asked_to_stop_it_ends_in_its_own_way(self, containers: Bench) -> None:
        exit_ = up(containers.start(f"import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); {SLEEP}")).stop()
        assert (exit_.code, exit_.signal, exit_.asked) == (7, None, True)

    def test_a_server_without_a_handler_dies_of_sigterm(self, containers: Bench) -> None:
        exit_ = up(containers.start(SLEEP)).stop()
        assert (exit_.code, exit_.signal, exit_.asked) == (None, "SIGTERM", True)

    def test_after_the_grace_it_is_killed(self, containers: Bench) -> None:
        exit_ = up(containers.start(DEAF)).stop(grace_s=0.5)
        assert (exit_.code, exit_.signal, exit_.asked) == (None, "SIGKILL", True)

    def test_stopping_twice_tells_the_same(self, containers: Bench) -> None:
        running = up(containers.start(SLEEP))
        assert running.stop() == running.stop() == running.server.ended()

    def test_out_of_memory_is_named(self, containers: Bench) -> None:
        exit_ = containers.start("print('up'); x = b'x' * (200 << 20)", mem_limit_mib=64).ended()
        assert exit_.oom_killed
        assert exit_.how.startswith("out of memory: killed by the kernel's OOM killer")

    def test_what_cannot_be_executed_is_named(self, containers: Bench) -> None:
        exit_ = containers.start(command=("/no/such/vllm",)).ended()
        assert exit_.error == "exec /no/such/vllm failed: No such file or directory"

    def test_stopped_by_another_hand_is_no_fault_of_the_servers(
        self, containers: Bench, client: docker.DockerClient
    ) -> None:
        running = up(containers.start(SLEEP))
        client.api.kill(running.id)
        with pytest.raises(LaunchFailed, match="somebody told the engine to send SIGKILL") as caught:
            until(running.server.ended)
        assert caught.value.stage == ENGINE_STAGE
        assert not running.stop().asked

    def test_removed_by_another_hand_is_said(self, containers: Bench, client: docker.DockerClient) -> None:
        running = up(containers.start(SLEEP))
        client.api.remove_container(running.id, force=True)
        with pytest.raises(LaunchFailed, match="somebody removed the container"):
            until(running.server.ended)
        assert "somebody removed the container" in str(running.stop().error)


class TestEvidence:
    def test_three_identities_are_kept_apart(
        self, containers: Bench, client: docker.DockerClient, base: str, reference: str
    ) -> None:
        running = up(containers.start(SLEEP))
        inspect = client.api.inspect_container(running.id)
        running.stop()
        facts = running.server.container()
        assert facts is not None
        assert (facts.image_reference, facts.image_id, facts.container_id) == (reference, base, inspect["Id"])
        assert reference in facts.repo_digests
        assert (facts.runtime, facts.network, facts.gpus, facts.restarts) == ("runc", "internal", (), 0)
        assert facts.engine_version == client.version()["Version"]

    def test_another_image_than_the_pinned_one_is_refused(self, containers: Bench, client: docker.DockerClient) -> None:
        launcher, spec = containers.prepare(SLEEP)
        launcher._found = {"Id": "sha256:other", "Config": {}}  # noqa: SLF001  # no engine can be made to do this
        with pytest.raises(LaunchFailed, match=r"runs image sha256:.*, expected sha256:other") as caught:
            launcher.start(spec)
        assert caught.value.stage == ENGINE_STAGE
        assert not client.api.containers(all=True, filters={"label": f"qualify.session={SESSION}"})

    def test_the_engines_own_start_and_end_are_kept(self, containers: Bench) -> None:
        running = up(containers.start(SLEEP))
        running.stop()
        facts = running.server.container()
        assert facts is not None
        assert facts.started_wall is not None
        assert facts.finished_wall is not None
        assert facts.started_wall < facts.finished_wall

    def test_its_description_is_kept_without_credentials(self, containers: Bench) -> None:
        running = up(containers.start(SLEEP, env={"MY_API_KEY": "planted-by-the-profile"}))
        environment = dict(e.split("=", 1) for e in running.description["Config"]["Env"])
        assert environment["MY_API_KEY"] == environment["REGISTRY_PASSWORD"] == "<redacted>"
        assert running.description["State"]["Status"] == "running", "there before the end, which may never be seen"
        running.stop()
        assert running.description["State"]["Status"] == "exited"
        assert "planted" not in running.spec.container_file.read_text("utf-8")  # type: ignore[union-attr]

    def test_nothing_is_left_on_the_engine(self, containers: Bench, client: docker.DockerClient) -> None:
        running = up(containers.start(SLEEP))
        [network] = running.description["NetworkSettings"]["Networks"]
        [volume] = [m["Name"] for m in running.description["Mounts"] if m["Type"] == "volume"]
        running.stop()
        for gone in (
            lambda: client.api.inspect_container(running.id),
            lambda: client.api.inspect_network(network),
            lambda: client.api.inspect_volume(volume),
        ):
            with pytest.raises(NotFound):
                gone()

    def test_a_container_that_cannot_start_leaves_nothing_either(
        self, containers: Bench, client: docker.DockerClient
    ) -> None:
        with pytest.raises(LaunchFailed) as caught:
            containers.start(SLEEP, ulimits={"nofile": 2**60})
        assert caught.value.stage == ENGINE_STAGE, "docker-init did not start: that is not the server's doing"
        assert not client.api.containers(all=True, filters={"label": f"qualify.session={SESSION}"})
        assert not client.api.networks(filters={"label": f"qualify.session={SESSION}"})


class TestServing:
    def test_it_is_reached_at_its_own_address(self, containers: Bench, model: Path) -> None:
        running = containers.fake(model)
        until(lambda: answers(f"{running.server.base_url}/health"))
        assert running.server.base_url.endswith(":8000")
        assert "127.0.0.1" not in running.server.base_url

    def test_in_the_hosts_network_it_listens_on_the_loopback_address(self, containers: Bench, model: Path) -> None:
        running = containers.fake(model, network="host")
        until(lambda: answers(f"{running.server.base_url}/health"))
        assert running.server.base_url.startswith("http://127.0.0.1:")

    def test_its_processes_are_seen_without_asking_the_engine(self, containers: Bench) -> None:
        script = "import subprocess as s; worker = s.Popen(['sleep', '600']); memory = b'x' * (100 << 20)"
        running = up(containers.start(f"{script}; {SLEEP}"))
        sizes = until(running.server.usage)
        assert max(sizes.values()).rss_bytes > 100 << 20
        assert sorted(name.partition(":")[0] for name in sizes) == ["python3", "sleep"]
        argv = running.server.effective_argv()
        assert argv is not None
        assert argv[:2] == ("python3", "-c")
        running.stop(0)
        assert running.server.usage() == {}
        assert running.server.effective_argv() is None
