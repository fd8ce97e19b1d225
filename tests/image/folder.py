"""A folder that stands for an image, so that the program that runs in one can be tried without an engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.image.program.main import main
from tests.stack.bench import sha256

OLD, NEW = b"old = 1\n", b"new = 1\n"


def state(content: bytes | None, mode: str = "100644") -> dict[str, str] | None:
    if content is None:
        return None
    return {"mode": mode, "sha256": sha256(content), "link": content.decode() if mode == "120000" else ""}


class ImageFolder:
    """A folder that stands for the image, and one for the payload."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root / "image"
        self.payload = root / "payload"
        (self.payload / "files").mkdir(parents=True)
        self.root.mkdir()
        self.capsys = capsys
        self.files: list[dict[str, Any]] = []
        self.builds: list[dict[str, Any]] = []

    def put(self, name: str, content: bytes = OLD, mode: int = 0o644) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
        return path

    def entry(
        self,
        *names: str,
        before: bytes | None = OLD,
        after: bytes | None = NEW,
        modes: tuple[str, str] = ("100644", "100644"),
        **more: object,
    ) -> dict[str, Any]:
        if after is not None:
            (self.payload / "files" / sha256(after)).write_bytes(after)
        places = [str(self.root / name) for name in names]
        sides = {"before": state(before, modes[0]), "after": state(after, modes[1])}
        return {"component": "vllm", "path": names[0], "places": places, **sides, **more}

    def change(self, *names: str, **how: Any) -> None:
        self.files.append(self.entry(*names, **how))

    def step(self, name: str) -> tuple[int, list[str]]:
        manifest = {"files": self.files, "builds": self.builds}
        (self.payload / "manifest.json").write_text(json.dumps(manifest), "utf-8")
        code = main([name], self.payload)
        return code, self.capsys.readouterr().out.replace(str(self.root), "").splitlines()

    def done(self) -> list[str]:
        """Both steps, which must succeed; what the second one said."""
        code, lines = self.step("build")
        assert code == 0, lines
        code, lines = self.step("apply")
        assert code == 0, lines
        assert not self.payload.exists()
        return lines

    def refused(self) -> list[str]:
        """Errors of the first step."""
        code, lines = self.step("build")
        assert code == 1
        return [line.removeprefix("qualify: error: ") for line in lines if line.startswith("qualify: error: ")]

    def all(self) -> set[str]:
        return {path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if not path.is_dir()}
