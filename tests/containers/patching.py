"""A pinned image with the fake server installed twice in it, a forge with pull requests to it, and stacks over both."""

from __future__ import annotations

import io
import tarfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import docker

from harness.paths import PROJECT
from tests.containers.registry import push
from tests.stack.origin import Origin

IMPORTED, UNUSED = "/opt/site", "/opt/vllm"
"""Where the server is imported from, and where it lies besides: images of this field hold their engine twice."""
SETTINGS = "harness/fakes/settings.py"

PROFILE = """
[serve.env]
PYTHONPATH = "{imported}"

[image]
reference = "{reference}"
shm_size_gib = 1
mem_limit_mib = 300

[[checks]]
name = "kv-constant"
kind = "command"
component = "fakes"
command = ["grep", "-q", "2_097_152", "{imported}/harness/fakes/settings.py"]
"""

STACK = """
schema_version = 1
name = "{name}"
description = "a stack of tests"
{top}

[base]
reference = "{reference}"
release = "test-r1"

[[components]]
name = "fakes"
repository = "{repository}"
base_commit = "{base}"
packages = ["harness"]
install = [{install}]
heads = [{heads}]
"""


def installed_image(client: docker.DockerClient, base: str) -> str:
    """Id of an image that holds the fake server at both places."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        recipe = f"FROM {base}\nCOPY harness {IMPORTED}/harness\nCOPY harness {UNUSED}/harness\n".encode()
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(recipe)
        tar.addfile(info, io.BytesIO(recipe))
        for path in sorted((PROJECT / "harness").rglob("*.py")):
            tar.add(path, path.relative_to(PROJECT).as_posix())
    buffer.seek(0)
    image, _ = client.images.build(fileobj=buffer, custom_context=True, rm=True, forcerm=True)
    return str(image.id)


@dataclass
class Patching:
    """Everything that a session with patched arms needs."""

    root: Path
    reference: str
    origin: Origin = field(init=False)
    base: str = field(init=False)
    heads: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.origin = Origin(self.root / "fakes.git")
        self.base = self.origin.branch("main", self.origin.commit({SETTINGS: self.settings, "tests/t.py": "x = 1\n"}))

    @property
    def settings(self) -> str:
        """The file that the pull requests change, as the image holds it."""
        return (PROJECT / SETTINGS).read_text("utf-8")

    def pull(self, number: int, text: str) -> None:
        """A pull request that gives the file this text."""
        self.heads[number] = self.origin.pull(number, self.origin.commit({SETTINGS: text}, self.base))

    def stack(self, name: str, *pulls: int, install: tuple[str, ...] = (IMPORTED, UNUSED), top: str = "") -> str:
        """Path of a stack with these pull requests."""
        heads = ", ".join(f'{{ pr = {pr}, head = "{self.heads[pr]}" }}' for pr in pulls)
        text = STACK.format(
            name=name,
            top=top,
            reference=self.reference,
            repository=self.origin.path,
            base=self.base,
            install=", ".join(f'"{folder}"' for folder in install),
            heads=heads,
        )
        path = self.root / f"{name}.toml"
        path.write_text(text, "utf-8")
        return str(path)

    def profile(self, template: str) -> str:
        """Path of a profile that starts the fake server of the image."""
        text = template.format(python="python3").replace('name = "fake"', 'name = "fake"\nlauncher = "docker"')
        path = self.root / "profile.toml"
        path.write_text(text + PROFILE.format(imported=IMPORTED, reference=self.reference), "utf-8")
        return str(path)


def pushed(client: docker.DockerClient, base: str, host: str) -> str:
    """The image under a digest of its own."""
    return push(client, installed_image(client, base), f"{host}/qualify-test/patched", uuid.uuid4().hex[:12])
