"""A real headless Chromium, driven over a pipe: what a page does when it is opened, not what we think it does."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
"""None where no browser is installed: tests that need one skip."""

PATIENCE_S = 60.0
"""Bound of one answer; a loaded machine needs seconds."""

DESKTOP, PHONE = (1280, 900), (390, 844)
"""Width and height in CSS pixels."""

START = "import os, sys; a, b, *c = sys.argv[1:]; os.dup2(int(a), 3); os.dup2(int(b), 4); os.execv(c[0], c)"
"""The browser reads commands from descriptor 3 and writes its answers to 4."""


class Browser:
    """One tab of one browser."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, back: int) -> None:
        self._process, self._to, self._back = process, to, back
        self._buffer, self._numbers = b"", itertools.count(1)
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        """Everything that the browser told of its own accord."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log", "Audits"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the Chrome DevTools protocol, and its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        found: dict[str, Any] = answer["result"]
        return found

    def open(self, page: Path, size: tuple[int, int] = DESKTOP, *, scheme: str = "light", media: str = "") -> None:
        """Open a file and wait until it is loaded."""
        self.look(size, scheme=scheme, media=media)
        self.events.clear()
        loader = self.call("Page.navigate", url=page.resolve().as_uri())["loaderId"]
        self.until(
            lambda: any(e["name"] == "load" and e["loaderId"] == loader for e in self.told("Page.lifecycleEvent"))
        )

    def until(self, condition: Callable[[], bool]) -> None:
        """Take what the browser tells until a condition holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited for {PATIENCE_S:g} s, and it did not come"
            self.events.append(self._next())

    def look(self, size: tuple[int, int], *, scheme: str = "light", media: str = "") -> None:
        """Take the shape of a device, a colour scheme and a medium (screen or print)."""
        width, height = size
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def evaluate(self, script: str) -> Any:
        """Value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def count(self, selector: str) -> int:
        """How many elements of the page a CSS selector finds."""
        return int(self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def told(self, method: str) -> list[dict[str, Any]]:
        """Parameters of the events of a name since the page was opened."""
        return [e["params"] for e in self.events if e.get("method") == method]

    def screenshot(self, target: Path, *, whole: bool = False) -> None:
        """The visible part of the page, or all of it, as PNG."""
        target.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._back], [], [], PATIENCE_S)
            assert ready, f"the browser said nothing for {PATIENCE_S:g} s"
            chunk = os.read(self._back, 1 << 20)
            assert chunk, "the browser is gone"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a fresh profile in a folder; ends with the block."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync",
        "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank",
    ]  # fmt: skip
    theirs_in, to = os.pipe()
    back, theirs_out = os.pipe()
    # High, so that neither is overwritten when they become 3 and 4.
    ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (theirs_in, theirs_out)]
    with (folder / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", START, *map(str, ends), *command],
            pass_fds=ends,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    for fd in (theirs_in, theirs_out, *ends):
        os.close(fd)
    try:
        yield Browser(process, to, back)
    finally:
        os.close(to)  # it ends when nobody can command it any more
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(back)
