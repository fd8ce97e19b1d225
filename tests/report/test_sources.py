"""Sources as links: the file, the line that is quoted, and nothing that lies outside the bundle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.report.sources import READ_BYTES, Sources

LAUNCH = "launches/001-control"


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    folder = tmp_path / "bundle" / LAUNCH
    (folder / "metrics").mkdir(parents=True)
    (folder / "server.log").write_bytes(
        b"first line\nsecond, a-b & c: <b>x</b>\nfrom /home/somebody/x it came\n\xff\xfe torn\n" + b"x" * 5_000 + b"\n"
    )
    requests = [json.dumps({"request": f"{n:04d}", "window": "w"}) for n in range(1, 30)]
    (folder / "requests.jsonl").write_text("\n".join(requests) + "\n")
    (folder / "timeline.jsonl").write_text('{"mark": "process started", "n": 1}\n{"mark": "health", "n": 2}\n')
    for name in ("001.prom", "002.prom"):
        (folder / "metrics" / name).write_text('# HELP vllm:x\nvllm:x{engine="0"} 3.0\n')
    (folder / "launch.json").write_text(json.dumps({"gpu": {"sampling": {"asked_hz": 20}}}))
    return Sources(tmp_path / "bundle")


@pytest.mark.parametrize(
    ("source", "link", "quoted"),
    [
        ("server.log:1", "server.log#:~:text=first%20line", "<i>1</i> first line"),
        (
            "server.log:2: kind",
            "server.log#:~:text=second%2C%20a%2Db%20%26%20c%3A%20%3Cb%3Ex%3C%2Fb%3E",
            "<i>2</i> second",
        ),
        ("requests.jsonl 0012", "requests.jsonl#", "<i>12</i> {&#34;request&#34;: &#34;0012&#34;"),
        ("requests.jsonl request 0003, 0005", "requests.jsonl#", "<i>5</i> {"),
        ("timeline.jsonl: process started, health", "timeline.jsonl#", "<i>2</i> {&#34;mark&#34;: &#34;health"),
        ("metrics/001.prom: vllm:x engine", "metrics/001.prom#", "<i>2</i> vllm:x{"),
        ("launch.json gpu.sampling", "launch.json", "<i>gpu.sampling</i> {&#34;asked_hz&#34;: 20}"),
    ],
    ids=lambda value: value.split("#")[0][:24],
)
def test_a_line_is_linked_and_quoted_with_its_number(sources: Sources, source: str, link: str, quoted: str) -> None:
    assert f'<a href="../{LAUNCH}/{link}' in sources.link(f"{LAUNCH}/{source}")
    assert quoted in sources.quoted(f"{LAUNCH}/{source}")
    assert "<b>" not in sources.quoted(f"{LAUNCH}/{source}")


def test_both_files_of_a_range_are_links(sources: Sources) -> None:
    found = sources.link(f"{LAUNCH}/metrics/001.prom..002.prom")
    assert found.count("<a href=") == 2
    assert f'<a href="../{LAUNCH}/metrics/002.prom">002.prom</a>' in found


def test_a_short_link_leaves_the_launch_out(sources: Sources) -> None:
    assert ">server.log</a>:1" in sources.link(f"{LAUNCH}/server.log:1", short=True)


def test_a_file_that_is_not_there_is_text(sources: Sources) -> None:
    assert sources.link(f"{LAUNCH}/gpu.parquet") == f"{LAUNCH}/gpu.parquet"
    assert sources.link("<b>.log:1") == "&lt;b&gt;.log:1"


@pytest.mark.parametrize("source", ["server.log:0", "server.log:99", "requests.jsonl 9999", "launch.json gpu.none"])
def test_a_line_that_is_not_there_is_not_quoted(sources: Sources, source: str) -> None:
    assert sources.quoted(f"{LAUNCH}/{source}") == ""
    assert "<a href=" in sources.link(f"{LAUNCH}/{source}")


def test_private_paths_are_neither_quoted_nor_in_the_link(sources: Sources) -> None:
    source = f"{LAUNCH}/server.log:3"
    assert "somebody" not in sources.quoted(source)
    assert "somebody" not in sources.link(source)


def test_bytes_that_are_no_text_and_long_lines_are_cut_short(sources: Sources) -> None:
    assert "torn" in sources.quoted(f"{LAUNCH}/server.log:4")
    assert len(sources.quoted(f"{LAUNCH}/server.log:5")) < 400


def test_nothing_outside_the_bundle_is_linked_or_read(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_text("secret\n")
    (tmp_path / "bundle" / "away.log").symlink_to(tmp_path / "secret.log")
    for source in ("away.log:1", "../secret.log:1", f"{tmp_path}/secret.log:1", "launches/../../secret.log:1"):
        assert "<a" not in sources.link(source)
        assert sources.quoted(source) == ""


def test_a_line_beyond_what_is_read_is_linked_and_not_quoted(sources: Sources, tmp_path: Path) -> None:
    with (tmp_path / "bundle" / "big.log").open("wb") as stream:
        stream.truncate(READ_BYTES + 1)
        stream.seek(0, 2)
        stream.write(b"\nlast line\n")
    assert sources.quoted("big.log:2") == ""
    assert "<a href=" in sources.link("big.log:2")
