"""What a container is made with, as the engine's own JSON. Pure: the same launch gives the same settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.config.image import OWN_FOLDER, Image, Mount
from harness.errors import SetupFailure
from harness.launch.launcher import Folders
from harness.paths import PROJECT, results_root

MODEL = f"{OWN_FOLDER}/model"
CACHES = Path(OWN_FOLDER) / "caches"
WORK = Path(OWN_FOLDER) / "work"
TRACER = Path(OWN_FOLDER) / "tracer"
"""Always the same, whatever the host calls them: paths enter some cache keys, and sockets need short ones."""

PORT = 8000
"""In a network of its own a container has every port to itself."""
HOST_NAME = "qualify"
PIDS_LIMIT = 65_536
"""Far above what a server with its compilers needs, far below what would stop the host."""
GIB, MIB = 1 << 30, 1 << 20
NVIDIA_CAPABILITIES = ["gpu", "compute", "utility"]
NO_NVIDIA = "void"
"""What the NVIDIA runtime takes for "no GPU at all"; images of this field say "all"."""


def container_config(
    image: Image,
    *,
    name: str,
    entrypoint: Sequence[str],
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folders: Folders,
    network: str,
    labels: Mapping[str, str],
    user: str,
    remaps_users: bool,
    engine_socket: Path,
    devices: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The body of the engine's "create a container"; `devices` are the nodes that it gets."""
    host: dict[str, Any] = {
        "NetworkMode": network,
        "Mounts": mounts(image.mounts, folders, engine_socket),
        "RestartPolicy": {"Name": "no"},  # a server that was started again would pass for one that never died
        "AutoRemove": False,
        "Init": True,
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "PidsLimit": PIDS_LIMIT,
        "IpcMode": image.ipc,
        "ShmSize": image.shm_size_gib * GIB,
        "Ulimits": _ulimits(image),
        # The bundle holds the log; the engine's own copy would fill its disk beside it.
        "LogConfig": {"Type": "none"},
        "DeviceRequests": device_requests(image, folders.gpus),
    }
    if devices:
        host["Devices"] = [dict(device) for device in devices]
    if image.mem_limit_mib:
        host |= {"Memory": image.mem_limit_mib * MIB, "MemorySwap": image.mem_limit_mib * MIB}
    if remaps_users:
        host["UsernsMode"] = "host"  # else nobody but root could remove what the server leaves in the caches
    config: dict[str, Any] = {
        "Image": name,
        "Entrypoint": list(entrypoint),
        "Cmd": list(arguments),
        "Env": [f"{name}={value}" for name, value in sorted(environment.items())],
        "WorkingDir": str(WORK),
        "User": user,
        "Labels": dict(labels),
        "AttachStdout": True,
        "AttachStderr": True,
        "StopSignal": "SIGTERM",
        "Healthcheck": {"Test": ["NONE"]},  # the image's own would run beside what is measured
        "HostConfig": host,
    }
    if image.network == "internal":
        config |= {"Hostname": HOST_NAME, "NetworkingConfig": {"EndpointsConfig": {network: {}}}}
        # Otherwise the engine would look names up on the host, which is a way out of a network without one.
        host |= {"Dns": ["127.0.0.1"], "DnsOptions": ["timeout:1", "attempts:1"]}
    return config


def mounts(extra: Sequence[Mount], folders: Folders, engine_socket: Path) -> list[dict[str, Any]]:
    """Model and extra mounts read-only; caches and work folder are the server's."""
    found = [_bind(folders.caches, str(CACHES), read_only=False), _bind(folders.work, str(WORK), read_only=False)]
    if Path(folders.model).is_dir():
        found.append(_bind(Path(folders.model), MODEL, read_only=True))
    if folders.tracer is not None:
        found.append(_bind(folders.tracer, str(TRACER), read_only=True))
    return found + extra_mounts(extra, engine_socket)


def extra_mounts(extra: Sequence[Mount], engine_socket: Path) -> list[dict[str, Any]]:
    """What the profile mounts.

    Raises:
        SetupFailure: it is missing, holds the engine's socket, or what is nobody's to read.
    """
    found = []
    for mount in extra:
        source = (PROJECT / Path(mount.source).expanduser()).resolve()
        if not source.exists():
            raise SetupFailure(f"image.mounts: {source} does not exist; correct its `source`, or make it")
        if source.is_socket() or engine_socket.resolve().is_relative_to(source):
            raise SetupFailure(f"image.mounts: {source} holds the engine's socket, which no server gets; mount less")
        if why := _withheld(source):
            raise SetupFailure(f"image.mounts: {source} {why}, which no server gets; mount less")
        found.append(_bind(source, mount.target, read_only=True))
    return found


def _withheld(source: Path) -> str:
    """Why a folder of this host is not given to a stranger's code, even to read; '' where it may be."""
    if source.is_relative_to("/proc") or source.is_relative_to("/sys") or source.is_relative_to("/dev"):
        return "is the kernel's"
    results, home = results_root(), Path.home().resolve()
    if results.is_relative_to(source) or source.is_relative_to(results):
        return "holds results"
    return "holds the home folder" if home.is_relative_to(source) else ""


def check_model(model: Path) -> None:
    """Refuse a folder whose files lie elsewhere, as a hub cache's snapshots do: inside they would be missing.

    Raises:
        SetupFailure: a link in it leads out of it.
    """
    root = model.resolve()
    for path in sorted(root.rglob("*")):
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise SetupFailure(
                f"model folder {model}: {path.relative_to(root)} is a link that leads out of it, and would lead "
                "nowhere in a container; copy the folder with `cp -rL` and name the copy"
            )


def device_requests(image: Image, gpus: Sequence[str]) -> list[dict[str, Any]]:
    """The GPUs by their UUIDs: numbers change between reboots, and between the driver and CUDA."""
    if not gpus or image.gpu_access == "device-nodes":
        return []
    if image.cdi:
        return [{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={uuid}" for uuid in gpus]}]
    return [{"Driver": "", "DeviceIDs": list(gpus), "Capabilities": [NVIDIA_CAPABILITIES]}]


def owned_environment(image: Image, gpus: Sequence[str]) -> dict[str, str]:
    """What neither image nor profile may decide: which GPUs the NVIDIA runtime adds by itself.

    Where GPUs are nodes, the driver's /proc still tells of the others: CUDA is told which ones are meant.
    """
    if image.gpu_access == "device-nodes" and gpus:
        return {"NVIDIA_VISIBLE_DEVICES": NO_NVIDIA, "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    return {"NVIDIA_VISIBLE_DEVICES": ",".join(gpus) if gpus and not image.cdi else NO_NVIDIA}


def default_environment(command: str, image_path: str, python_path: str = "") -> dict[str, str]:
    """PATH is the image's, the engine's folder first; a user without a name gets one, since torch asks for it.

    `python_path` is the image's own PYTHONPATH, where something is going to be put in front of it.
    """
    folder = str(Path(command).parent)
    return {
        **({"PYTHONPATH": python_path} if python_path else {}),
        "PATH": f"{folder}:{image_path}" if folder.startswith("/") else image_path,
        "USER": HOST_NAME,
        "LOGNAME": HOST_NAME,
    }


def _bind(source: Path, target: str, *, read_only: bool) -> dict[str, Any]:
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": read_only}


def _ulimits(image: Image) -> list[dict[str, Any]]:
    limits = {"memlock": image.ulimits.memlock, "stack": image.ulimits.stack, "nofile": image.ulimits.nofile}
    return [{"Name": name, "Soft": value, "Hard": value} for name, value in limits.items() if value is not None]
