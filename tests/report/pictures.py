"""Reads a picture back."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET


def titles(picture: str, css_class: str) -> list[str]:
    """What a pointer would show over each mark of a class."""
    found = [g.findtext("title") for g in ET.fromstring(picture).iter("g") if g.get("class") == css_class]
    return [t for t in found if t]


def places(picture: str) -> dict[str, list[tuple[float, float]]]:
    """Where each text is anchored, in pixels from the upper left corner."""
    found: dict[str, list[tuple[float, float]]] = {}
    for text in ET.fromstring(picture).iter("text"):
        move = re.match(r"translate\((\S+) (\S+)\)", text.get("transform", ""))
        x, y = move.groups() if move else (text.get("x", ""), text.get("y", ""))
        found.setdefault(text.text or "", []).append((float(x), float(y)))
    return found


def check(picture: str) -> ET.Element:
    """It has the page's colours and fonts, and words for those who cannot see it."""
    assert set(re.findall(r"#[0-9a-f]{6}\b", picture)) <= {"#000000"}
    assert "var(--" in picture
    assert not re.search(r"font-family|<style|<metadata|<!--|xlink|xmlns", picture)
    root = ET.fromstring(picture)
    assert root.get("role") == "img"
    assert root.findtext("title")
    return root
