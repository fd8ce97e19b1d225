"""A tag instead of a digest: refused, with the digest where anybody can tell it."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.config.components import untagged
from harness.stack.registry import digest_now
from tests.stack.bench import REFERENCE, Bench, refusal

NOW = "sha256:" + "ab" * 32


class Registry(http.server.BaseHTTPRequestHandler):
    """As much of a registry as a look at one tag needs."""

    asked: ClassVar[list[tuple[str, str]]] = []
    digest: ClassVar[str] = NOW

    def do_HEAD(self) -> None:  # the library's name
        self.asked.append((self.path, self.headers["Accept"]))
        self.send_response(200 if self.path == "/v2/lab/vllm/manifests/r31" else 404)
        self.send_header("Docker-Content-Digest", self.digest)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    Registry.asked.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `docker` that knows one image; its arguments are kept."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\n'
        f"""echo '["other/vllm@sha256:{"cd" * 32}","voipmonitor/vllm@{NOW}"]'\n"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return tmp_path / "arguments"


@pytest.fixture
def no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


without_engine = pytest.mark.usefixtures("no_engine")


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("vllm", "vllm"),
        ("vllm:r31", "vllm"),
        ("localhost:5000/lab/vllm", "localhost:5000/lab/vllm"),
        ("localhost:5000/lab/vllm:r31", "localhost:5000/lab/vllm"),
        (REFERENCE, "registry.example/vllm"),
    ],
)
def test_a_name_is_taken_apart_with_its_port_left_in_place(reference: str, name: str) -> None:
    assert untagged(reference) == name


def floating(bench: Bench, reference: str) -> str:
    stack = bench.stack()
    stack.write_text(stack.read_text("utf-8").replace(REFERENCE, reference), "utf-8")
    return refusal(stack)


@without_engine
def test_a_tag_is_refused_with_what_to_write(bench: Bench) -> None:
    told = floating(bench, "voipmonitor/vllm:r31")
    assert told == (
        f"{bench.stacks}/stack.toml: key `base.reference`: `voipmonitor/vllm:r31` is a tag, and a tag moves. "
        'Write reference = "voipmonitor/vllm@sha256:..." with the digest of the manifest; '
        "`docker buildx imagetools inspect voipmonitor/vllm:r31` tells the digest"
    )
    assert "inspect voipmonitor/vllm:latest`" in floating(bench, "voipmonitor/vllm")


def test_the_digest_that_a_registry_names_now_is_in_the_message(bench: Bench, registry: str) -> None:
    told = floating(bench, f"{registry}/lab/vllm:r31")
    assert told.endswith(f"with the digest of the manifest; its registry says that the tag is {NOW} now")
    ((path, accepted),) = Registry.asked
    assert path == "/v2/lab/vllm/manifests/r31"
    # Without the index types a registry names the digest of one platform's manifest, which is another one.
    assert "application/vnd.oci.image.index.v1+json" in accepted
    assert "manifest.list.v2+json" in accepted


def test_the_engine_s_copy_is_named_as_what_it_is(bench: Bench, engine: Path) -> None:
    told = floating(bench, "docker.io/voipmonitor/vllm:r31")
    assert told.endswith(f"the copy in this machine's engine is {NOW} (the tag may have moved since it was pulled)")
    assert engine.read_text().split()[-1] == "docker.io/voipmonitor/vllm:r31"


@without_engine
def test_a_registry_that_does_not_know_the_tag_leaves_the_question_open(registry: str) -> None:
    assert digest_now(f"{registry}/lab/vllm:r32") == ""


@without_engine
def test_a_digest_that_is_none_is_not_repeated(registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "digest", "sha256:`rm -rf`")
    assert digest_now(f"{registry}/lab/vllm:r31") == ""


@without_engine
@pytest.mark.parametrize("reference", ["127.0.0.1:1/lab/vllm:r31", "--format", "a b", "voipmonitor/vllm", ""])
def test_nobody_to_ask_is_no_failure(reference: str) -> None:
    assert digest_now(reference) == ""


@without_engine
@pytest.mark.parametrize("reference", ["x/y@sha256:abc", "x/y@md5:" + "a" * 64, "@sha256:" + "a" * 64, "x y:r31", 31])
def test_what_is_no_reference_is_refused(bench: Bench, reference: object) -> None:
    stack = bench.stack()
    text = stack.read_text("utf-8").replace(f'"{REFERENCE}"', f'"{reference}"' if isinstance(reference, str) else "31")
    stack.write_text(text, "utf-8")
    assert "key `base.reference`: " in refusal(stack)
