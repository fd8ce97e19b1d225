"""The image is the one that the profile pins, here or fetched, or the session does not begin."""

from __future__ import annotations

import docker
import pytest

from harness.config.image import Image
from harness.errors import SetupFailure
from harness.launch.docker.launcher import DockerLauncher
from harness.launch.launcher import LaunchFailed
from harness.records import ENGINE_STAGE
from tests.containers.bench import SESSION, Bench
from tests.containers.registry import forget, push

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]


def prepare(reference: str, **changes: object) -> tuple[str, list[str]]:
    """Version of the image, and what was told meanwhile."""
    told: list[str] = []
    launcher = DockerLauncher(Image.model_validate({"reference": reference, **changes}), ["vllm"])
    try:
        return launcher.prepare(told.append, gpus=1), told
    finally:
        launcher.close()


def test_an_image_that_is_here_is_taken_as_it_is(reference: str) -> None:
    assert prepare(reference) == ("1.2.3", [])


def test_an_image_that_is_not_here_is_fetched_by_its_digest(client: docker.DockerClient, base: str, host: str) -> None:
    reference = push(client, base, f"{host}/qualify-test/fetched", "any")
    client.images.remove(f"{host}/qualify-test/fetched:any")
    assert prepare(reference) == ("1.2.3", [f"fetching {reference}"])


def test_a_digest_that_the_name_does_not_have_is_refused(client: docker.DockerClient, base: str, host: str) -> None:
    """The name is right and its tag is there: it is the digest that decides."""
    name = push(client, base, f"{host}/qualify-test/other", "latest").partition("@")[0]
    wrong = f"{name}@sha256:{'0' * 64}"
    with pytest.raises(SetupFailure, match=r"cannot be fetched: manifest.*unknown.*check name and digest") as caught:
        prepare(wrong)
    assert wrong in str(caught.value)


def test_an_image_id_is_no_manifests_digest(base: str, host: str) -> None:
    with pytest.raises(SetupFailure, match="cannot be fetched"):
        prepare(f"{host}/qualify-test/base@{base}")


def test_a_registry_that_does_not_answer_is_said(client: docker.DockerClient) -> None:
    forget(client, "127.0.0.1:1")
    with pytest.raises(SetupFailure, match=r"cannot be fetched: .*127.0.0.1:1.*bring it with `docker load`"):
        prepare(f"127.0.0.1:1/qualify-test/base@sha256:{'0' * 64}")


def test_cdi_that_the_engine_does_not_offer_is_said(client: docker.DockerClient, reference: str) -> None:
    if client.info().get("CDISpecDirs"):
        pytest.skip("this engine offers CDI")
    with pytest.raises(SetupFailure, match=r"image.cdi = true, but Docker .* offers no CDI"):
        prepare(reference, cdi=True)


def test_gpus_that_the_engine_cannot_give_are_the_hosts_fault(client: docker.DockerClient, containers: Bench) -> None:
    if "nvidia" in client.info()["Runtimes"]:
        pytest.skip("this engine has the NVIDIA runtime")
    launcher, spec = containers.prepare("pass", gpus=("GPU-6f2f0000-0000-4000-8000-00000000000a",))
    with pytest.raises(LaunchFailed, match=r"install the NVIDIA container toolkit, or set image.cdi = true") as caught:
        launcher.start(spec)
    assert caught.value.stage == ENGINE_STAGE
    assert not client.api.containers(all=True, filters={"label": f"qualify.session={SESSION}"})


def test_a_mount_that_hides_the_engines_init_is_told(containers: Bench) -> None:
    """Seen on a GPU: the image's /sbin was a link into /usr, and the profile mounted the host's /usr there."""
    launcher, spec = containers.prepare("pass", mounts=({"source": "/usr", "target": "/usr"},))
    with pytest.raises(LaunchFailed, match=r"a mount of the profile lies over the image's /sbin"):
        launcher.start(spec)
