"""Build through the `docker buildx` of this host: the one place that starts the docker command line to build."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from harness.errors import SetupFailure
from harness.image.wanted import Wanted
from harness.launch.docker.address import address

ASK_TIMEOUT_S = 30.0
END_TIMEOUT_S = 10.0
READ_BYTES = 1 << 16


def is_there() -> bool:
    """Whether `docker buildx` can be used."""
    try:
        done = subprocess.run(
            ["docker", "buildx", "version"],  # noqa: S607  # the user's, wherever PATH has it
            env=_environment(),
            capture_output=True,
            timeout=ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def build(wanted: Wanted, context: IO[bytes], write: Callable[[bytes], None]) -> str | None:
    """Build an image from an archive, its output handed to `write`; the image's ID, or None where it failed.

    Raises:
        SetupFailure: the docker command line cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="qualify-build-") as folder:
        id_file = Path(folder) / "image-id"
        command = [
            *("docker", "buildx", "build"),
            # The engine's own BuildKit: one in a container sees no image of this host.
            *("--builder", "default"),
            *("--progress", "plain", "--load", "--no-cache", "--network", wanted.lock.build_network),
            *("--tag", wanted.tag, "--iidfile", str(id_file)),
            *(part for pair in wanted.arguments.items() for part in ("--build-arg", "=".join(pair))),
            *(part for pair in wanted.labels.items() for part in ("--label", "=".join(pair))),
            "-",
        ]
        try:
            process = subprocess.Popen(
                command, env=_environment(), stdin=context, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except OSError as e:
            raise SetupFailure(f"`docker buildx` cannot be started ({e.strerror}); --builder classic needs none") from e
        assert process.stdout is not None
        try:
            while data := os.read(process.stdout.fileno(), READ_BYTES):
                write(data)
            code = process.wait()
        except BaseException:  # Ctrl-C, too
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_TIMEOUT_S)
            process.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()
        return id_file.read_text("ascii").strip() if code == 0 and id_file.is_file() else None


def _environment() -> dict[str, str]:
    """The same engine as everywhere else here, whatever context the user chose; an image, and no index around it."""
    return {**os.environ, "DOCKER_HOST": address(), "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}
