"""The server's own record of what went out: what a benchmark holds its clients against."""

from __future__ import annotations

import json
import time
from pathlib import Path

from harness.fakes.folder import write_rule_folder
from harness.forge.recipe import Recipe
from tests.fakes.fake_process import MTP, fake


def test_each_stream_leaves_its_tokens_events_and_times(tmp_path: Path) -> None:
    model, truth = write_rule_folder(tmp_path / "model", Recipe()), tmp_path / "truth.jsonl"
    before = time.monotonic_ns()
    with fake(model, *MTP, QUALIFY_FAKE_TRUTH=str(truth), QUALIFY_FAKE_STEP_S="0.005") as server:
        streams = [server.stream([3, n], 21) for n in (4, 5)]
        assert server.stop() == 0
    told = [json.loads(line) for line in truth.read_text("utf-8").splitlines()]
    assert [t["request"] for t in told] == [1, 2]
    assert [t["tokens"] for t in told] == [21, 21]
    assert [t["events"] for t in told] == [len(s.chunk_ids) for s in streams]
    assert [t["after_first"] for t in told] == [20, 20]
    for t in told:
        times = [before, t["received_ns"], t["first_ns"], t["last_ns"], time.monotonic_ns()]
        assert times == sorted(times)
        assert t["last_ns"] - t["received_ns"] >= (t["events"] - 1) * 0.005e9
