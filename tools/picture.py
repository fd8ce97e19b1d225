"""Take the README's picture: the upper part of a report, as a browser shows it.

python tools/picture.py results/SESSION/report/report.html docs/report.png [HEIGHT]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.report.browser import browser

WIDTH, HEIGHT = 1180, 1240


def main(page: Path, target: Path, height: int = HEIGHT) -> None:
    """Open the page, hide its scroll bar, and write what is seen."""
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as tab:
        tab.open(page, (WIDTH, height))
        tab.evaluate("document.documentElement.style.overflow = 'hidden'")
        tab.screenshot(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:4]))
