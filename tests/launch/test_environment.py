"""The server's environment, what of it is shown, and its port."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from harness.launch.environment import CACHE_VARIABLES, redacted, server_environment
from harness.launch.ports import free_port


def environment(*layers: dict[str, str], engine: str = "/opt/venv/bin/vllm") -> dict[str, str]:
    return server_environment(
        engine=engine, home=Path("/w/home"), temporary=Path("/w"), caches=Path("/c"), layers=layers
    )


def test_the_path_starts_with_the_engines_folder() -> None:
    assert environment()["PATH"] == "/opt/venv/bin:/usr/local/bin:/usr/bin:/bin"


def test_an_engine_named_without_a_folder_is_where_the_harness_found_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vllm").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert environment(engine="vllm")["PATH"].split(":")[0] == str(tmp_path)


def test_later_layers_win() -> None:
    given = environment({"A": "profile", "B": "profile", "C": "profile"}, {"B": "mode", "C": "mode"}, {"C": "stack"})
    assert (given["A"], given["B"], given["C"]) == ("profile", "mode", "stack")


def test_a_layer_wins_over_our_own_settings() -> None:
    assert environment({"HF_HUB_OFFLINE": "0"})["HF_HUB_OFFLINE"] == "0"


def test_layers_are_not_changed() -> None:
    layer = {"A": "1"}
    environment(layer, {"B": "2"})
    assert layer == {"A": "1"}


def test_nothing_comes_from_the_users_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = environment()
    monkeypatch.setenv("HF_TOKEN", "planted")
    monkeypatch.setenv("LD_PRELOAD", "/planted.so")
    monkeypatch.setenv("HOME", "/planted")
    assert environment() == before


def test_every_cache_has_a_folder_of_its_own_below_the_root() -> None:
    places = [environment()[name] for name in CACHE_VARIABLES]
    assert len(set(places)) == len(places)
    assert all(place.startswith("/c/") for place in places)
    assert (environment()["HOME"], environment()["TMPDIR"]) == ("/w/home", "/w")


# --- what evidence shows of it --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "hf_token", "GITHUB_TOKENS", "AWS_SECRET_ACCESS_KEY", "VLLM_API_KEY", "OPENAI_APIKEY", "DB_PASSWORD"],
)
def test_values_of_credentials_are_hidden(name: str) -> None:
    assert redacted({name: "value"}) == {name: "<redacted>"}


@pytest.mark.parametrize(
    "name",
    ["PATH", "CUDA_VISIBLE_DEVICES", "TOKENIZERS_PARALLELISM", "VLLM_MAX_TOKENS_PER_EXPERT_FUSED_MOE", "VLLM_USE_V1"],
)
def test_other_values_are_shown(name: str) -> None:
    assert redacted({name: "value"}) == {name: "value"}


def test_names_come_in_order() -> None:
    assert list(redacted({"B": "2", "A": "1"})) == ["A", "B"]


# --- ports ----------------------------------------------------------------------------------------------


def test_a_free_port_can_be_bound() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_port()))


def test_a_taken_port_is_not_free() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        assert server.getsockname()[1] not in {free_port() for _ in range(50)}
