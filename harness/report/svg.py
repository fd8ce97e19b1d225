"""From a matplotlib figure to an SVG that lives inside a page: same bytes each time, the page's colours.

Figures are drawn with placeholder colours, which become CSS variables here: one picture then fits the
light and the dark scheme and the printer.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

PIXELS_PER_INCH = 72
"""matplotlib writes its SVG in points: one unit of the picture is then one pixel of the page."""

INK, FAINT, GRID = "#000101", "#000202", "#000303"
CONTROL, CANDIDATE = "#000404", "#000505"
UNEXPLAINED = "#000606"
ON_LIGHT, ON_DARK = "#000707", "#000808"
LATE = "#000909"
PHASES = tuple(f"#0010{n:02x}" for n in range(14))
_DARK_PHASES = (0,)
"""Colours of phases on which black is hard to read."""

BANDS = tuple(f"#0020{n:02x}" for n in range(12))
"""Enough for every step of a course, and for one to come."""


_VARIABLES = {
    INK: "ink",
    FAINT: "faint",
    GRID: "grid",
    CONTROL: "control",
    CANDIDATE: "candidate",
    UNEXPLAINED: "unexplained",
    ON_LIGHT: "on-light",
    ON_DARK: "on-dark",
    LATE: "late",
    **{c: f"phase-{n}" for n, c in enumerate(PHASES)},
    **{c: f"band-{n}" for n, c in enumerate(BANDS)},
}

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a `$` in a name is a `$`
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so the layout is the same everywhere
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.linewidth": 1,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.formatter.useoffset": False,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "hatch.linewidth": 1,
}

_NAMESPACE = re.compile(r"^\{[^}]*\}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_NUMBERS = {"d", "x", "y", "transform"}
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_COLOUR = re.compile(r"#00[0-2]\d[0-9a-f]{2}\b")


def on_phase(number: int) -> str:
    """Colour of a text that stands on a phase's bar."""
    return ON_DARK if number % len(PHASES) in _DARK_PHASES else ON_LIGHT


@contextmanager
def drawing(width: int, height: int) -> Iterator[Figure]:
    """An empty figure of that many pixels, in the style of all pictures; draw and render inside."""
    with rc_context(_STYLE):
        yield Figure(figsize=(width / PIXELS_PER_INCH, height / PIXELS_PER_INCH), dpi=PIXELS_PER_INCH)


def rendered(
    figure: Figure,
    name: str,
    title: str,
    notes: Mapping[str, tuple[str, str]] | None = None,
    *,
    told: str = "",
) -> Markup:
    """The figure as an <svg> element.

    Args:
        figure: What `drawing` gave.
        name: Unique within the page; identifiers in the picture begin with it.
        title: What the picture shows, for those who cannot see it.
        notes: By the gid of an artist: its class, and the text that a pointer shows over it.
        told: Its figures in words, for those who cannot see it.
    """
    buffer = io.StringIO()
    FigureCanvasSVG(figure)
    with rc_context({"svg.hashsalt": name}):
        figure.savefig(
            buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    root = ET.fromstring(buffer.getvalue())  # noqa: S314  # our own output, never a stranger's
    _adapt(root, name, notes or {})
    for element in root.iter():
        _shrink(element)
    _describe(root, name, title, told)
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704  # escaped by ElementTree


def _adapt(root: ET.Element, name: str, notes: Mapping[str, tuple[str, str]]) -> None:
    referenced = set()
    for element in root.iter():
        element.tag = _NAMESPACE.sub("", element.tag)
        attributes = {_NAMESPACE.sub("", key): value for key, value in element.attrib.items()}
        referenced |= {m for value in attributes.values() for m in _REFERENCE.findall(value)}
        if "href" in attributes:
            referenced.add(attributes["href"][1:])
        element.attrib.clear()
        element.attrib.update(attributes)
    for element in root.iter():
        for child in [c for c in element if c.tag == "style"]:
            element.remove(child)  # its rules would hold for the whole page
        identifier = element.attrib.pop("id", "")
        if identifier in referenced:
            element.set("id", f"{name}-{identifier}")
        elif identifier in notes:
            element.set("class", notes[identifier][0])
            ET.SubElement(element, "title").text = notes[identifier][1]
        if "href" in element.attrib:
            element.set("href", f"#{name}-{element.attrib['href'][1:]}")
        for key in ("clip-path", "style", "fill", "stroke"):
            if key in element.attrib:
                element.set(key, _themed(element.attrib[key], name))


def _shrink(element: ET.Element) -> None:
    """Half of matplotlib's SVG are decimals that no screen shows, and one style said a hundred times."""
    for key in _NUMBERS & element.attrib.keys():
        element.set(key, _DECIMALS.sub(r"\1", element.attrib[key]).strip().replace("\n", ""))
    if element.tag not in ("text", "tspan", "title", "desc"):
        element.text = None
    element.tail = None
    marks = [c for c in element if c.tag == "use"]
    if marks and len({c.get("style") for c in marks}) == 1 and "style" not in element.attrib:
        element.set("style", marks[0].get("style", ""))
        for mark in marks:
            mark.attrib.pop("style", None)


def _themed(value: str, name: str) -> str:
    value = _REFERENCE.sub(rf"url(#{name}-\1)", value)
    value = re.sub(r"font-family: [^;]+;? ?", "", value)  # the page's own
    return _COLOUR.sub(lambda m: f"var(--{_VARIABLES[m[0]]})" if m[0] in _VARIABLES else m[0], value)


def _describe(root: ET.Element, name: str, title: str, told: str) -> None:
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    width = float(root.attrib["viewBox"].split()[2])
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title")
    # As wide as its place, within what keeps its text readable.
    root.set("style", f"width: 100%; min-width: {0.75 * width:g}px; max-width: {1.3 * width:g}px")
    label = ET.Element("title", {"id": f"{name}-title"})
    label.text = title
    root.insert(0, label)
    if told:
        root.set("aria-describedby", f"{name}-desc")
        description = ET.Element("desc", {"id": f"{name}-desc"})
        description.text = told
        root.insert(1, description)
