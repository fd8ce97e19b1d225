"""A benchmark writes its own part of a document, and the rest stays as it is."""

from __future__ import annotations

from pathlib import Path

from benchmarks.generated import END, begin, generated, write_generated


def test_its_part_is_written_anew_and_the_rest_stays(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    other = f"{begin('other')}\n\nkept\n\n{END}\n"
    document.write_text(f"# Page\n\n{begin('one')}\n{END}\n\nwords\n\n{other}", "utf-8")
    for lines in (["a", "b"], ["c"]):
        write_generated(document, "one", lines)
        assert generated(document, "one") == "\n".join(lines)
    assert document.read_text("utf-8") == f"# Page\n\n{begin('one')}\n\nc\n\n{END}\n\nwords\n\n{other}"
    assert generated(document, "other") == "kept"
