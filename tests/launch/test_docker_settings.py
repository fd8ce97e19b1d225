"""What a container is asked for, without an engine: every setting by the profile's own words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness.config.image import Image, Mount
from harness.errors import SetupFailure
from harness.launch.docker.settings import (
    check_model,
    container_config,
    default_environment,
    device_requests,
    owned_environment,
)
from harness.launch.launcher import Folders
from harness.paths import PROJECT

DIGEST = "sha256:" + "0123456789abcdef" * 4
PINNED = f"registry.example:5000/team/vllm@{DIGEST}"
GPUS = ("GPU-6f2f0000-0000-4000-8000-00000000000a", "GPU-6f2f0000-0000-4000-8000-00000000000b")


def image(**changes: object) -> Image:
    return Image.model_validate({"reference": PINNED, **changes})


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    for name in ("model", "caches", "work"):
        (tmp_path / name).mkdir()
    return Folders(str(tmp_path / "model"), tmp_path / "caches", tmp_path / "work")


def config(folders: Folders, **changes: object) -> dict[str, Any]:
    return container_config(
        image(**changes),
        name=PINNED,
        entrypoint=["/opt/venv/bin/vllm"],
        arguments=["serve", "/qualify/model", "--flag", "a b; $(c)"],
        environment={"B": "2", "A": "1 2"},
        folders=folders,
        network="qualify-1",
        labels={"qualify.marker": "m"},
        user="1000:1001",
        remaps_users=False,
        engine_socket=Path("/run/docker.sock"),
    )


class TestReference:
    @pytest.mark.parametrize("name", ["vllm", "team/vllm", "registry.example/team/vllm", "localhost:5000/vllm"])
    def test_a_name_with_a_digest_is_pinned(self, name: str) -> None:
        assert image(reference=f"{name}@{DIGEST}").reference == f"{name}@{DIGEST}"

    @pytest.mark.parametrize(
        "reference",
        [
            "vllm",
            "vllm:latest",
            "registry.example:5000/vllm:v20",
            f"vllm:v20@{DIGEST}",
            DIGEST,
            f"vllm@{DIGEST[:-1]}",
            f"vllm@{DIGEST.upper()}",
            f"vllm@sha512:{'0' * 128}",
            f"vllm@{DIGEST} --privileged",
            f"-v@{DIGEST}",
        ],
    )
    def test_everything_else_is_refused_and_told_how_to_pin_it(self, reference: str) -> None:
        with pytest.raises(ValidationError, match=r"is not pinned; write name@sha256:<64 hex digits> without a tag"):
            image(reference=reference)


class TestCommand:
    def test_entrypoint_and_arguments_are_lists_that_no_shell_sees(self, folders: Folders) -> None:
        made = config(folders)
        assert made["Entrypoint"] == ["/opt/venv/bin/vllm"]
        assert made["Cmd"][-1] == "a b; $(c)"

    def test_environment_user_and_place_are_the_harnesss(self, folders: Folders) -> None:
        made = config(folders)
        assert made["Env"] == ["A=1 2", "B=2"]
        assert (made["User"], made["WorkingDir"]) == ("1000:1001", "/qualify/work")

    def test_the_folder_of_the_engine_comes_first_in_the_images_path(self) -> None:
        assert default_environment("/opt/venv/bin/vllm", "/cuda/bin:/bin")["PATH"] == "/opt/venv/bin:/cuda/bin:/bin"
        assert default_environment("vllm", "/cuda/bin:/bin")["PATH"] == "/cuda/bin:/bin"

    def test_the_images_own_python_path_is_kept_where_the_tracer_goes_in_front_of_it(self) -> None:
        assert default_environment("vllm", "/bin", "/opt/vllm")["PYTHONPATH"] == "/opt/vllm"
        assert "PYTHONPATH" not in default_environment("vllm", "/bin")


class TestRights:
    def test_none_that_can_be_taken_away(self, folders: Folders) -> None:
        host = config(folders)["HostConfig"]
        assert (host["Privileged"], host["CapDrop"]) == (False, ["ALL"])
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert host["PidsLimit"] > 10_000
        assert "CapAdd" not in host
        assert "Devices" not in host

    def test_it_is_never_started_again_and_never_removed_by_the_engine(self, folders: Folders) -> None:
        host = config(folders)["HostConfig"]
        assert (host["RestartPolicy"], host["AutoRemove"]) == ({"Name": "no"}, False)


class TestMounts:
    def test_the_model_can_only_be_read_and_caches_and_work_be_written(self, folders: Folders) -> None:
        mounts = {m["Target"]: (m["Source"], m["ReadOnly"]) for m in config(folders)["HostConfig"]["Mounts"]}
        assert mounts == {
            "/qualify/model": (folders.model, True),
            "/qualify/caches": (str(folders.caches), False),
            "/qualify/work": (str(folders.work), False),
        }

    def test_the_tracer_can_only_be_read_and_is_there_for_a_trace_alone(self, folders: Folders) -> None:
        target = "/qualify/tracer"
        assert target not in {m["Target"] for m in config(folders)["HostConfig"]["Mounts"]}
        traced = replace(folders, tracer=Path("/code/tracer"))
        mounts = {m["Target"]: (m["Source"], m["ReadOnly"]) for m in config(traced)["HostConfig"]["Mounts"]}
        assert mounts[target] == ("/code/tracer", True)

    def test_a_hub_name_is_no_folder(self, folders: Folders) -> None:
        named = Folders("some/model", folders.caches, folders.work)
        assert "/qualify/model" not in [m["Target"] for m in config(named)["HostConfig"]["Mounts"]]

    def test_a_profiles_mounts_can_only_be_read(self, folders: Folders) -> None:
        made = config(folders, mounts=({"source": "suites", "target": "/opt/suites"},))
        assert made["HostConfig"]["Mounts"][-1] == {
            "Type": "bind",
            "Source": str(PROJECT / "suites"),
            "Target": "/opt/suites",
            "ReadOnly": True,
        }

    def test_a_missing_one_is_said(self, folders: Folders) -> None:
        with pytest.raises(SetupFailure, match="/no/such does not exist; correct its `source`"):
            config(folders, mounts=({"source": "/no/such", "target": "/x"},))

    @pytest.mark.parametrize("source", ["/", "/proc", "/proc/self", "/sys/class", "/dev", "/dev/shm"])
    def test_what_no_server_gets_is_refused(self, folders: Folders, source: str) -> None:
        with pytest.raises(SetupFailure, match="which no server gets; mount less"):
            config(folders, mounts=({"source": source, "target": "/x"},))

    @pytest.mark.parametrize("place", [".", "results", "results/a-session/launches"])
    def test_results_are_refused_with_what_lies_above_and_in_them(
        self, folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
    ) -> None:
        """A stranger's code that read the other arm's evidence could answer accordingly."""
        (tmp_path / "results" / "a-session" / "launches").mkdir(parents=True)
        monkeypatch.setenv("QUALIFY_RESULTS", str(tmp_path / "results"))
        with pytest.raises(SetupFailure, match="holds results, which no server gets"):
            config(folders, mounts=({"source": str(tmp_path / place), "target": "/x"},))

    def test_the_home_folder_is_refused_and_a_folder_of_models_in_it_is_not(
        self, folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "home" / "me" / "models").mkdir(parents=True)
        monkeypatch.setenv("HOME", str(tmp_path / "home" / "me"))
        monkeypatch.setenv("QUALIFY_RESULTS", str(tmp_path / "elsewhere"))
        for place in ("home/me", "home"):
            with pytest.raises(SetupFailure, match="holds the home folder, which no server gets"):
                config(folders, mounts=({"source": str(tmp_path / place), "target": "/x"},))
        config(folders, mounts=({"source": str(tmp_path / "home/me/models"), "target": "/x"},))

    @pytest.mark.parametrize("target", ["/", "/qualify", "/qualify/model", "relative", "/a/../etc", "/a/"])
    def test_a_place_that_is_not_the_profiles_is_refused(self, target: str) -> None:
        with pytest.raises(ValidationError):
            Mount(source="suites", target=target)

    def test_a_model_whose_files_lie_elsewhere_is_refused(self, tmp_path: Path) -> None:
        """As in a hub's cache, where a snapshot is a folder of links."""
        (tmp_path / "blobs").mkdir()
        (tmp_path / "blobs" / "0a").write_text("w", "utf-8")
        (tmp_path / "snapshot").mkdir()
        (tmp_path / "snapshot" / "weights").symlink_to("../blobs/0a")
        with pytest.raises(SetupFailure, match="weights is a link that leads out of it"):
            check_model(tmp_path / "snapshot")

    def test_links_within_a_model_are_fine(self, tmp_path: Path) -> None:
        (tmp_path / "weights").write_text("w", "utf-8")
        (tmp_path / "other").symlink_to("weights")
        check_model(tmp_path)


class TestGpus:
    def test_they_are_named_by_uuid(self) -> None:
        [request] = device_requests(image(), GPUS)
        assert request["DeviceIDs"] == list(GPUS)
        assert "gpu" in request["Capabilities"][0]
        assert "Count" not in request
        assert owned_environment(image(), GPUS) == {"NVIDIA_VISIBLE_DEVICES": ",".join(GPUS)}

    def test_cdi_names_them_too_and_the_runtime_adds_none(self) -> None:
        [request] = device_requests(image(cdi=True), GPUS)
        assert request == {"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={uuid}" for uuid in GPUS]}
        assert owned_environment(image(cdi=True), GPUS) == {"NVIDIA_VISIBLE_DEVICES": "void"}

    def test_as_device_nodes_the_engine_is_asked_for_none_and_cuda_is_told_which_ones(self) -> None:
        nodes = image(gpu_access="device-nodes")
        assert device_requests(nodes, GPUS) == []
        assert owned_environment(nodes, GPUS) == {
            "NVIDIA_VISIBLE_DEVICES": "void",
            "CUDA_VISIBLE_DEVICES": ",".join(GPUS),
        }

    def test_two_ways_to_the_gpus_are_refused(self) -> None:
        with pytest.raises(ValidationError, match="are two ways; keep one"):
            image(gpu_access="device-nodes", cdi=True)

    def test_a_profile_of_the_cpu_gets_none(self) -> None:
        assert device_requests(image(), ()) == []
        assert owned_environment(image(), ()) == {"NVIDIA_VISIBLE_DEVICES": "void"}


class TestProfilesWords:
    def test_memory_limits_count_swap(self, folders: Folders) -> None:
        host = config(folders, mem_limit_mib=100)["HostConfig"]
        assert host["Memory"] == host["MemorySwap"] == 100 << 20
        assert "Memory" not in config(folders)["HostConfig"]

    def test_shared_memory_ipc_and_ulimits(self, folders: Folders) -> None:
        host = config(folders, shm_size_gib=2, ipc="host", ulimits={"memlock": -1, "stack": 67_108_864})["HostConfig"]
        assert (host["ShmSize"], host["IpcMode"]) == (2 << 30, "host")
        assert host["Ulimits"] == [
            {"Name": "memlock", "Soft": -1, "Hard": -1},
            {"Name": "stack", "Soft": 67_108_864, "Hard": 67_108_864},
        ]

    def test_the_internal_network_resolves_no_names(self, folders: Folders) -> None:
        made = config(folders)
        assert made["HostConfig"]["NetworkMode"] == "qualify-1"
        assert made["HostConfig"]["Dns"] == ["127.0.0.1"]
        assert made["Hostname"] == "qualify"

    def test_the_hosts_network_is_the_host(self, folders: Folders) -> None:
        made = container_config(
            image(network="host"),
            name="sha256:" + 64 * "1",
            entrypoint=["vllm"],
            arguments=[],
            environment={},
            folders=folders,
            network="host",
            labels={},
            user="0:0",
            remaps_users=True,
            engine_socket=Path("/run/docker.sock"),
        )
        assert made["HostConfig"]["NetworkMode"] == "host"
        assert "NetworkingConfig" not in made
        assert "Dns" not in made["HostConfig"]
        assert made["HostConfig"]["UsernsMode"] == "host", "files in the caches would belong to nobody"
