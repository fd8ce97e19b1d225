"""A base image with vLLM inside, made from what is on this machine, under a digest of a registry on the loopback."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.launch.ports import free_port

SITE = "/opt/site"
"""Where vLLM lies in the image."""
FOLDERS = ("sbin", "tmp", "var/tmp", "proc", "sys", "dev", "run", "root", "home", "opt", "usr", "etc")
LDCONFIG = ("ldconfig", "ldconfig.real")
"""By /sbin/ldconfig Triton asks where libcuda is; on Ubuntu that is a script which calls the other one."""
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar"
"""Not compressed: packing a gigabyte takes longer than moving it over the loopback."""
REGISTRY = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""
ANSWERS_S = 20.0


@dataclass(frozen=True)
class Blob:
    """A file by its digest."""

    file: Path
    digest: str

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.file.stat().st_size


def layer(file: Path, members: Sequence[str], root: Path = Path("/"), below: str = "") -> Blob:
    """Pack paths of `root` into an archive, without owners' names; `below` is put in front of their places.

    Raises:
        subprocess.CalledProcessError: tar cannot read one of them.
    """
    names = file.with_suffix(".names")
    names.write_text("".join(f"{member}\n" for member in members), "utf-8")
    moved = [f"--transform=s,^\\.\\(/\\|$\\),{below.lstrip('/')}\\1,"] if below else []
    tar = ["tar", "--create", f"--file={file}", f"--directory={root}", "--owner=0", "--group=0", "--numeric-owner"]
    recursion = [] if below else ["--no-recursion"]
    subprocess.run([*tar, *moved, *recursion, f"--files-from={names}"], check=True)
    return blob(file)


def blob(file: Path) -> Blob:
    """A file with its digest."""
    with file.open("rb") as stream:
        return Blob(file, f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}")


def image_config(layers: Sequence[Blob], environment: dict[str, str], version: str) -> dict[str, Any]:
    """The image's configuration; layers are not compressed, so their digests are those of their contents."""
    return {
        "architecture": "amd64",
        "os": "linux",
        "created": "2000-01-01T00:00:00Z",
        "config": {
            "Env": [f"{name}={value}" for name, value in sorted(environment.items())],
            "Labels": {"org.opencontainers.image.version": version},
        },
        "rootfs": {"type": "layers", "diff_ids": [one.digest for one in layers]},
        "history": [{"created": "2000-01-01T00:00:00Z", "created_by": one.file.name} for one in layers],
    }


def push(host: str, name: str, layers: Sequence[Blob], config: Path) -> str:
    """Bring an image into a registry; returns name@digest.

    Raises:
        OSError: the registry refuses something.
    """
    parts = [*layers, blob(config)]
    for part in parts:
        _upload(host, name, part)
    described = blob(config)
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "size": described.bytes, "digest": described.digest},
            "layers": [{"mediaType": LAYER, "size": one.bytes, "digest": one.digest} for one in layers],
        },
        indent=1,
    ).encode()
    with contextlib.closing(http.client.HTTPConnection(host)) as connection:
        connection.request("PUT", f"/v2/{name}/manifests/pinned", manifest, {"Content-Type": MANIFEST})
        answer = _answer(connection, http.client.CREATED)
    return f"{host}/{name}@{answer.getheader('Docker-Content-Digest')}"


@contextlib.contextmanager
def registry(folder: Path, program: str = "docker-registry") -> Iterator[str]:
    """Run a registry that keeps its files in `folder`; yields host and port.

    Raises:
        OSError: it cannot be started, or does not answer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    settings = folder / "registry.yml"
    settings.write_text(REGISTRY.format(folder=folder / "data", port=port), "utf-8")
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(settings)], stdout=log, stderr=log)
    try:
        _await(f"127.0.0.1:{port}", process)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def empty_folders(root: Path) -> list[str]:
    """Make the folders that every container needs below `root`, and name them for the archive."""
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    for name in LDCONFIG:
        link = root / "sbin" / name
        if not link.is_symlink():
            link.symlink_to(f"/usr/sbin/{name}")
    return ["var", *FOLDERS, *(f"sbin/{name}" for name in LDCONFIG)]


def environment_here() -> dict[str, str]:
    """PATH and library path of this machine, since the image uses this machine's programs."""
    return {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if os.environ.get(name)}


def _upload(host: str, name: str, part: Blob) -> None:
    with contextlib.closing(http.client.HTTPConnection(host)) as connection:
        connection.request("POST", f"/v2/{name}/blobs/uploads/")
        place = _answer(connection, http.client.ACCEPTED).getheader("Location") or ""
        target = place.removeprefix(f"http://{host}")
        joined = "&" if "?" in target else "?"
        with part.file.open("rb") as stream:
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(part.bytes)}
            connection.request("PUT", f"{target}{joined}digest={part.digest}", stream, headers)
            _answer(connection, http.client.CREATED)


def _answer(connection: http.client.HTTPConnection, expected: int) -> http.client.HTTPResponse:
    answer = connection.getresponse()
    told = answer.read()
    if answer.status != expected:
        raise OSError(f"the registry answers {answer.status} {answer.reason}: {told[:300].decode('utf-8', 'replace')}")
    return answer


def _await(host: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + ANSWERS_S
    while True:
        try:
            with contextlib.closing(http.client.HTTPConnection(host, timeout=2)) as connection:
                connection.request("GET", "/v2/")
                connection.getresponse().read()
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise OSError(f"the registry does not answer at {host} (exit code {process.poll()})") from None
        time.sleep(0.05)
