"""How a server sees what it gets of this host, by the launcher that starts it."""

from __future__ import annotations

from pathlib import Path

from harness.config.load import load_profile
from harness.launch.launcher import Folders
from harness.launch.process import ProcessLauncher
from harness.session.compose import engine_command


def test_a_process_sees_paths_as_they_are_on_the_loopback_address(tmp_path: Path) -> None:
    folders = Folders("/models/a", tmp_path / "caches", tmp_path / "work")
    view = ProcessLauncher(tmp_path).view(folders)
    assert (view.host, view.model, view.caches, view.work) == ("127.0.0.1", "/models/a", folders.caches, folders.work)
    assert view.port > 1024
    assert dict(view.defaults) == dict(view.owned) == {}


def test_a_process_on_gpus_sees_its_own_only(tmp_path: Path) -> None:
    folders = Folders("/models/a", tmp_path, tmp_path, gpus=("GPU-1", "GPU-2"))
    assert ProcessLauncher(tmp_path).view(folders).owned == {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}


def test_a_command_in_an_image_is_not_looked_for_in_the_project() -> None:
    assert engine_command(load_profile("rtx5090").model) == ["/opt/venv/bin/vllm"]
    inside = load_profile("rtx5090", overrides=[("engine.command", ["bin/vllm"], "a test")]).model
    assert engine_command(inside) == ["bin/vllm"]
