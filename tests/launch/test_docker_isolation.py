"""What a stranger's code finds in its container: no way out, no rights, nothing of the user's."""

from __future__ import annotations

import errno
import ipaddress
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.containers.bench import SESSION, Bench, Running
from tests.containers.waiting import until

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]

LOOK_AROUND = """
import glob, json, os, resource, socket, time

FOLDERS = ("/qualify/model", "/qualify/caches", "/qualify/work", "/opt/fakes/harness")

def attempt(what):
    begin = time.monotonic()
    try:
        return {"got": str(what()), "s": time.monotonic() - begin}
    except OSError as e:
        return {"errno": e.errno, "error": type(e).__name__, "s": time.monotonic() - begin}

def write(folder):
    with open(folder + "/written", "w") as file:
        file.write("x")
    return file.name

print(json.dumps({
    "status": dict(line.split(":\\t", 1) for line in open("/proc/1/status").read().splitlines() if ":\\t" in line),
    "gateways": [fields[2] for fields in map(str.split, open("/proc/net/route")) if fields[1] == "0" * 8],
    "connect": attempt(lambda: socket.create_connection(("192.0.2.1", 80), timeout=5)),
    "resolve": attempt(lambda: socket.getaddrinfo("registry.invalid", 443)),
    "sockets": [p for p in glob.glob("/run/*.sock") + glob.glob("/var/run/*.sock") + glob.glob("/*/*.sock")],
    "mounts": [line.split()[1] for line in open("/proc/mounts")],
    "environ": dict(os.environ),
    "writes": {f: attempt(lambda: write(f)) for f in FOLDERS},
    "chown": attempt(lambda: os.chown("/qualify/work", 12345, 12345)),
    "raw": attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)),
    "uid": [os.getuid(), os.getgid()],
    "host": socket.gethostname(),
    "cwd": os.getcwd(),
    "shm": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
    "devices": sorted(os.listdir("/dev")),
}), flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def module_bench(reference: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(reference, tmp_path_factory.mktemp("isolation"))
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def running(module_bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One container for all that can be seen from inside, started by a user with much to lose."""
    home = tmp_path_factory.mktemp("home")
    (home / ".docker").mkdir()
    proxy = {"httpProxy": "http://user:planted@192.0.2.9:3128", "httpsProxy": "http://user:planted@192.0.2.9:3128"}
    (home / ".docker" / "config.json").write_text(json.dumps({"proxies": {"default": proxy}}), "utf-8")
    model = tmp_path_factory.mktemp("model")
    (model / "weights").write_text("w", "utf-8")
    secrets = {"HF_TOKEN": "planted", "DOCKER_CONFIG": str(home / ".docker"), "NVIDIA_VISIBLE_DEVICES": "all"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in secrets.items():
            patch.setenv(name, value)
        yield module_bench.start(LOOK_AROUND, model=str(model), env={"NVIDIA_VISIBLE_DEVICES": "all"})


@pytest.fixture(scope="module")
def seen(running: Running) -> dict[str, Any]:
    until(lambda: running.log.endswith(b"\n"))
    found: dict[str, Any] = json.loads(running.log)
    return found


class TestRights:
    def test_no_capability(self, seen: dict[str, Any]) -> None:
        assert {int(seen["status"][f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}

    def test_no_new_ones(self, seen: dict[str, Any]) -> None:
        assert seen["status"]["NoNewPrivs"] == "1"

    def test_a_filter_on_system_calls(self, seen: dict[str, Any]) -> None:
        assert seen["status"]["Seccomp"] == "2"

    def test_even_root_may_not_act_as_root(self, seen: dict[str, Any]) -> None:
        assert seen["chown"]["error"] == seen["raw"]["error"] == "PermissionError"

    def test_it_runs_as_the_user_who_asked(self, seen: dict[str, Any]) -> None:
        assert seen["uid"] == [os.getuid(), os.getgid()]

    def test_no_socket_of_the_engine(self, seen: dict[str, Any]) -> None:
        assert seen["sockets"] == []
        assert not [m for m in seen["mounts"] if "docker" in m and m.endswith(".sock")]

    def test_no_device_of_the_hosts(self, seen: dict[str, Any]) -> None:
        assert not [d for d in seen["devices"] if d.startswith(("nvidia", "sd", "vd", "mem", "kmsg", "dri"))]


class TestNetwork:
    def test_no_route_leads_out(self, seen: dict[str, Any]) -> None:
        """Engines differ: newer ones give no default route at all, older ones the one that was asked for."""
        ours = {a.address for addresses in psutil.net_if_addrs().values() for a in addresses}
        for gateway in seen["gateways"]:
            assert str(ipaddress.ip_address(int(gateway, 16).to_bytes(4, "little"))) not in ours

    def test_the_world_is_unreachable(self, seen: dict[str, Any]) -> None:
        assert seen["connect"]["errno"] in {errno.EHOSTUNREACH, errno.ENETUNREACH}

    def test_names_are_not_looked_up_on_the_host(self, seen: dict[str, Any], running: Running) -> None:
        """An engine resolves names for its containers, which leads out of a network without a way out."""
        assert seen["resolve"]["error"] == "gaierror"
        assert seen["resolve"]["s"] < 4
        assert running.description["HostConfig"]["Dns"] == ["127.0.0.1"]

    def test_the_network_is_its_own(self, running: Running, client: Any) -> None:
        [name] = running.description["NetworkSettings"]["Networks"]
        network = client.api.inspect_network(name)
        assert network["Internal"]
        assert list(network["Containers"]) == [running.id]
        assert network["Labels"]["qualify.session"] == SESSION


class TestWhatItGets:
    def test_model_and_mounts_can_only_be_read(self, seen: dict[str, Any]) -> None:
        assert seen["writes"]["/qualify/model"]["error"] == seen["writes"]["/opt/fakes/harness"]["error"] == "OSError"

    def test_what_it_writes_is_the_users_and_lies_in_the_lanes_folders(
        self, seen: dict[str, Any], running: Running
    ) -> None:
        assert running.spec.folders is not None
        for inside, folder in (("caches", running.spec.folders.caches), ("work", running.spec.folders.work)):
            assert seen["writes"][f"/qualify/{inside}"]["got"] == f"/qualify/{inside}/written"
            assert (folder / "written").stat().st_uid == os.getuid()

    def test_no_variable_of_the_users(self, seen: dict[str, Any]) -> None:
        assert "planted" not in [v for k, v in seen["environ"].items() if k != "REGISTRY_PASSWORD"]
        assert not [name for name in seen["environ"] if name.lower().endswith("_proxy")]

    def test_no_gpu_although_image_and_profile_ask_for_all(self, seen: dict[str, Any]) -> None:
        assert seen["environ"]["NVIDIA_VISIBLE_DEVICES"] == "void"

    def test_the_images_own_path_goes_on_counting(self, seen: dict[str, Any]) -> None:
        assert seen["environ"]["PATH"] == "/opt/image/bin:/usr/local/bin:/usr/bin:/bin"

    def test_home_temporary_files_and_caches_lie_in_fixed_places(self, seen: dict[str, Any]) -> None:
        environ = seen["environ"]
        assert environ["HOME"] == "/qualify/work/home"
        assert environ["TMPDIR"] == seen["cwd"] == "/qualify/work"
        assert environ["TRITON_CACHE_DIR"] == "/qualify/caches/triton"

    def test_a_user_without_a_name_has_one(self, seen: dict[str, Any]) -> None:
        assert seen["environ"]["USER"] == "qualify"

    def test_its_name_tells_nothing(self, seen: dict[str, Any]) -> None:
        assert seen["host"] == "qualify"

    def test_shared_memory_is_as_large_as_asked(self, seen: dict[str, Any]) -> None:
        assert seen["shm"] == 1 << 30


def test_nothing_of_the_image_runs_beside_the_server(running: Running) -> None:
    config = running.description["Config"]
    assert config["Healthcheck"]["Test"] == ["NONE"]
    assert running.description["HostConfig"]["RestartPolicy"]["Name"] == "no"
    assert running.description["Path"] == "python3"
    assert config["StopSignal"] == "SIGTERM"


def test_every_object_says_whose_it_is(running: Running) -> None:
    labels = running.description["Config"]["Labels"]
    for name in ("session", "lane", "launch", "marker", "owner-pid", "owner-started", "owner-uid", "work-dir"):
        assert labels[f"qualify.{name}"]
    assert labels["qualify.owner-pid"] == str(os.getpid())


@pytest.mark.skipif(os.getuid() != 0, reason="takes root to act for another user")
def test_a_user_without_an_account_in_the_image_works_and_owns_what_it_leaves(
    module_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getuid", lambda: 12345)
    monkeypatch.setattr("os.getgid", lambda: 54321)
    script = "import getpass, os; open('/qualify/caches/left', 'w'); print(getpass.getuser(), os.getuid(), os.getgid())"
    launcher, spec = module_bench.prepare(script)
    assert spec.folders is not None
    for folder in (spec.folders.caches, spec.folders.work):
        os.chown(folder, 12345, 54321)
    server = launcher.start(spec)
    exit_ = until(server.ended)
    server.stop(1)
    assert exit_ is not None
    assert (exit_.code, spec.log_file.read_bytes()) == (0, b"qualify 12345 54321\n")
    left = (spec.folders.caches / "left").stat()
    assert (left.st_uid, left.st_gid) == (12345, 54321)


def test_the_engines_socket_cannot_be_mounted(module_bench: Bench) -> None:
    from harness.errors import QualifyError

    for source in ("/var/run/docker.sock", "/run", "/"):
        with pytest.raises(QualifyError, match="holds the engine's socket"):
            module_bench.start("pass", mounts=({"source": source, "target": "/host"},))


def test_ipc_is_the_hosts_where_the_profile_says_so(module_bench: Bench) -> None:
    running = module_bench.start("import os; print(os.readlink('/proc/self/ns/ipc'), flush=True)", ipc="host")
    running.ended()
    assert running.log.decode().strip() == str(Path("/proc/self/ns/ipc").readlink())
