"""What `docker buildx` is started with, and that it does not outlive who started it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil
import pytest

from harness.errors import SetupFailure
from harness.image import buildx
from harness.image.wanted import Wanted
from tests.containers.waiting import until


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a test writes the `docker` that is found first."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/the-same-engine.sock")
    return tmp_path / "docker"


def write(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o755)


def build(wanted: Wanted, written: list[bytes] | None = None) -> str | None:
    with tempfile.TemporaryFile() as context:
        context.write(b"the context")
        context.seek(0)
        return buildx.build(wanted, context, (written if written is not None else []).append)


def test_the_context_comes_on_standard_input_and_the_rest_as_arguments(wanted: Wanted, docker: Path) -> None:
    write(
        docker,
        f"""printf '%s\\n' "$@" > {docker}.argv
cat > {docker}.stdin
echo "$DOCKER_HOST $BUILDX_NO_DEFAULT_ATTESTATIONS"
echo to stderr >&2
while [ "$1" != --iidfile ]; do shift; done
printf sha256:made > "$2" """,
    )
    written: list[bytes] = []
    assert build(wanted, written) == "sha256:made"
    assert b"".join(written) == b"unix:///run/the-same-engine.sock 1\nto stderr\n"
    assert Path(f"{docker}.stdin").read_bytes() == b"the context"
    argv = Path(f"{docker}.argv").read_text("utf-8").splitlines()
    id_file = argv.pop(argv.index("--iidfile") + 1)
    assert not Path(id_file).exists(), "cleaned up"
    assert argv[:13] == [
        *("buildx", "build", "--builder", "default", "--progress", "plain", "--load", "--no-cache"),
        *("--network", "none", "--tag", wanted.tag, "--iidfile"),
    ]
    assert argv[13:17] == ["--build-arg", f"BASE_IMAGE={wanted.base.reference}", "--build-arg", "BASE_USER=vllm"]
    labels = argv[17:-1]
    assert labels[0::2] == ["--label"] * len(wanted.labels)
    assert dict(pair.split("=", 1) for pair in labels[1::2]) == wanted.labels
    assert argv[-1] == "-"


def test_a_failure_is_none_and_its_output_is_kept(wanted: Wanted, docker: Path) -> None:
    write(docker, "echo why; exit 1")
    written: list[bytes] = []
    assert build(wanted, written) is None
    assert b"".join(written) == b"why\n"


def test_a_builder_that_names_no_image_has_made_none(wanted: Wanted, docker: Path) -> None:
    write(docker, "exit 0")
    assert build(wanted) is None


def test_an_interrupt_ends_it(wanted: Wanted, docker: Path) -> None:
    write(docker, "echo $$; exec sleep 600")
    pids: list[int] = []

    def interrupted(data: bytes) -> None:
        pids.append(int(data))
        raise KeyboardInterrupt

    with tempfile.TemporaryFile() as context, pytest.raises(KeyboardInterrupt):
        buildx.build(wanted, context, interrupted)
    assert until(lambda: not psutil.pid_exists(pids[0]))


def test_without_docker_the_other_builder_is_named(wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert not buildx.is_there()
    with pytest.raises(SetupFailure, match="--builder classic needs none"):
        build(wanted)
