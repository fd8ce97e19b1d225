"""Each asker of the same prompts, and what is said of one that fails; vLLM's own tool is a stub here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import askers
from benchmarks.askers import PEERS, SERVED, AskerFailed, Scene, by_bench_serve, by_script, reason
from benchmarks.peers.ids.passing import PassingIds
from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from tests.benchmarks import stub_vllm
from tests.benchmarks.stub import stub_python
from tests.e2e.engine import ENGINE, NEEDS_ENGINE
from tests.fakes.fake_process import Fake, fake

SCENE = Scene(prompt_tokens=40, output_tokens=8, requests=2)
PROMPTS = [[n % 64 for n in range(start, start + 40)] for start in (0, 7)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forge(tmp_path_factory.mktemp("askers") / "model", Recipe())


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[Fake]:
    with fake(model, "--served-model-name", SERVED) as server:
        yield server


def test_bench_serve_gets_a_row_of_ids_per_prompt_and_counts_them_exactly(
    tmp_path: Path, model: Path, server: Fake
) -> None:
    figures = by_bench_serve(stub_python(tmp_path, "works"), str(model))(server.url, SCENE, PROMPTS, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text("utf-8").splitlines()]
    assert rows == [{"prompt": ids, "output_tokens": 8} for ids in PROMPTS]
    assert json.loads((tmp_path / "bench.json").read_bytes())["input_lens"] == [40, 40]
    assert figures.tokens == 16
    assert len(figures.rates) == 2


def test_a_script_of_ours_is_told_as_figures(tmp_path: Path, server: Fake) -> None:
    figures = by_script(sys.executable, PEERS / "ours.py")(server.url, SCENE, PROMPTS, tmp_path)
    assert figures.tokens == 16
    assert figures.prefill == pytest.approx(40 / figures.ttft_ms * 1e3)
    assert figures.whole_ms > figures.ttft_ms, "the request was made and sent in between"


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("asserts", "AssertionError: Tokenizer must be initialized before loading dataset"),
        ("counts-others", r"2 of 2 completed, inputs \[41, 41\]"),
        ("hangs", "had not ended after"),
    ],
    ids=["asserts", "counts-others", "hangs"],
)
def test_a_bench_serve_that_fails_is_told_in_short(
    how: str, says: str, tmp_path: Path, model: Path, server: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "hangs":
        monkeypatch.setattr(askers, "ASKING_S", 1.0)
    with pytest.raises(AskerFailed, match=says) as failed:
        by_bench_serve(stub_python(tmp_path, how), str(model))(server.url, SCENE, PROMPTS, tmp_path)
    assert "Namespace" not in str(failed.value)
    assert len(str(failed.value).splitlines()) <= 6


def test_a_result_of_the_round_before_is_not_taken_for_this_one(tmp_path: Path, model: Path, server: Fake) -> None:
    by_bench_serve(stub_python(tmp_path, "works"), str(model))(server.url, SCENE, PROMPTS, tmp_path)
    with pytest.raises(FileNotFoundError):
        by_bench_serve(stub_python(tmp_path, "writes-nothing"), str(model))(server.url, SCENE, PROMPTS, tmp_path)


def test_an_answer_shorter_than_asked_is_no_figure(tmp_path: Path, model: Path) -> None:
    with (
        fake(model, "--served-model-name", SERVED, faults="short-output@1") as server,
        pytest.raises(AskerFailed, match="asked 2 times for 8 tokens"),
    ):
        by_script(sys.executable, PEERS / "ours.py")(server.url, SCENE, PROMPTS, tmp_path)


def test_a_reason_is_the_exception_and_the_lines_that_raised_it() -> None:
    said = reason(stub_vllm.ASSERTS).splitlines()
    assert said[1].endswith("in main_async")
    assert said[2].startswith("    assert tokenizer is not None")
    assert said[3] == "AssertionError: Tokenizer must be initialized before loading dataset"
    assert len(said) <= 6


def test_a_reason_without_a_traceback_is_how_the_text_ends() -> None:
    text = "usage: vllm bench serve\n\nvllm bench serve: error: unrecognized arguments: --tokenizer\n"
    assert reason(text).endswith("unrecognized arguments: --tokenizer")
    assert not reason(" \n")


def test_a_line_of_blanks_is_no_line_of_a_reason() -> None:
    assert reason("usage: vllm bench serve\n\t\n") == "usage: vllm bench serve"
    assert "before loading dataset" in reason(stub_vllm.ASSERTS + "\n\t\n")


def test_lines_of_a_reason_are_cut() -> None:
    assert len(reason("Namespace(" + "x" * 9000)) == 300


def test_the_tokenizer_gives_ids_back_as_they_are() -> None:
    ids = PassingIds.from_pretrained("anywhere", trust_remote_code=True)
    assert ids([3, 1, 2], add_special_tokens=False).input_ids == [3, 1, 2]
    assert ids, "the tool would report no rates of a tokenizer that is false"


@pytest.mark.vllm
@NEEDS_ENGINE
def test_real_vllm_loads_the_tokenizer(tmp_path: Path) -> None:
    program = (
        "import sys; from vllm.tokenizers import get_tokenizer; "
        "t = get_tokenizer(sys.argv[1], tokenizer_mode='auto', trust_remote_code=True); print(t([5, 7, 5]).input_ids)"
    )
    engine = shutil.which(ENGINE)
    assert engine is not None
    done = subprocess.run(
        [str(Path(engine).with_name("python")), "-c", program, str(PEERS / "ids")],
        capture_output=True,
        text=True,
        check=False,
        env={"HF_MODULES_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)},
    )
    assert done.stdout.splitlines()[-1:] == ["[5, 7, 5]"], done.stderr
