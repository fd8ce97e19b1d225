"""Take a picture for the README: the upper part of a report, or one section of it, as a browser shows it.

python tools/picture.py results/SESSION/report/report.html docs/report.png
python tools/picture.py results/SESSION/report/report.html docs/ranks.png memory
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.report.browser import browser

WIDTH, HEIGHT = 1180, 1240


def main(page: Path, target: Path, section: str = "") -> None:
    """Open the page, hide its scroll bar, and write what is seen: of a section just as much as it is high."""
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as tab:
        tab.open(page, (WIDTH, HEIGHT))
        if section:
            here = f"document.getElementById('{section}')"
            tab.open(page, (WIDTH, int(tab.evaluate(f"Math.ceil({here}.getBoundingClientRect().height)"))))
            tab.evaluate(f"{here}.scrollIntoView()")
        tab.evaluate("document.documentElement.style.overflow = 'hidden'")
        tab.screenshot(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:4])
