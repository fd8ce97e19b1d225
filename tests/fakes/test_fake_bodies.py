"""The fake's bodies beside those of real vLLM 0.32.0: fields, order, logprobs, refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from tests.fakes.fake_process import MTP, Fake, fake

# Bodies of real vLLM 0.32.0 on a CPU, serving a forged model with MTP; only the ids of prompt and output are cut.
REAL_WHOLE = """{"id":"cmpl-b98bc65b62f164fa","object":"text_completion","created":1795976611,"model":"m","choices":[
{"index":0,"text":"w48w109","logprobs":{"text_offset":[0,3],"token_logprobs":[-0.0015509016811847687,
-0.0015506636118516326],"tokens":["w48","w109"],"top_logprobs":[{"w48":-0.0015509016811847687,
"w0":-11.314050674438477},{"w109":-0.0015506636118516326,"w0":-11.314050674438477}]},"finish_reason":"length",
"stop_reason":null,"token_ids":[48,109],"prompt_logprobs":null,"prompt_token_ids":[1,2,3],"routed_experts":null}],
"service_tier":null,"system_fingerprint":"vllm-0.32.0-bcf31467","usage":{"prompt_tokens":3,"total_tokens":5,
"completion_tokens":2,"prompt_tokens_details":null,"completion_tokens_details":null},"kv_transfer_params":null,
"ec_transfer_params":null,"metrics":null}"""
REAL_FIRST = """{"id":"cmpl-b18ca10d24674701","object":"text_completion","created":1795976614,"model":"m","choices":[
{"index":0,"text":"w48","logprobs":{"text_offset":[0],"token_logprobs":[-0.0015509016811847687],"tokens":["w48"],
"top_logprobs":[{"w48":-0.0015509016811847687,"w0":-11.314050674438477}]},"finish_reason":null,"stop_reason":null,
"prompt_token_ids":[1,2,3],"token_ids":[48]}],"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1}}"""
REAL_LAST = """{"id":"cmpl-b18ca10d24674701","object":"text_completion","created":1795976614,"model":"m","choices":[
{"index":0,"text":"w65","logprobs":{"text_offset":[23],"token_logprobs":[-0.0015507827047258615],"tokens":["w65"],
"top_logprobs":[{"w65":-0.0015507827047258615,"w0":-11.314050674438477}]},"finish_reason":"length",
"stop_reason":null,"prompt_token_ids":null,"token_ids":[65]}],"usage":{"prompt_tokens":3,"total_tokens":11,
"completion_tokens":8}}"""
REAL_USAGE = """{"id":"cmpl-b18ca10d24674701","object":"text_completion","created":1795976614,"model":"m",
"choices":[],"usage":{"prompt_tokens":3,"total_tokens":11,"completion_tokens":8},
"system_fingerprint":"vllm-0.32.0-bcf31467"}"""
REAL_BARE_LAST = """{"id":"cmpl-bcb3fbcd486b4462","object":"text_completion","created":1795976614,"model":"m",
"choices":[{"index":0,"text":"w13","logprobs":null,"finish_reason":"length","stop_reason":null,
"prompt_token_ids":null,"token_ids":null}],"system_fingerprint":"vllm-0.32.0-bcf31467"}"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forge(tmp_path_factory.mktemp("bodies") / "model", Recipe())


@pytest.fixture(scope="module")
def mtp(model: Path) -> Iterator[Fake]:
    with fake(model, *MTP, "--max-model-len", "4096") as server:
        yield server


def shape(value: Any) -> Any:
    """Field names in their order, and types; of a list the shape of its first item, of logprobs no words."""
    if isinstance(value, dict):
        words = any(re.fullmatch(r" ?w\d+", key) for key in value)
        return [shape(v) for v in value.values()] if words else [(k, shape(v)) for k, v in value.items()]
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def test_bodies_have_the_fields_of_real_vllm_in_its_order(mtp: Fake) -> None:
    whole = mtp.complete([1, 2, 3], 2, logprobs=2).json()
    stream = mtp.stream([1, 2, 3], 8, logprobs=2).events
    bare = mtp.stream([1, 2, 3], 8, return_token_ids=False, stream_options=None).events
    for real, ours in (
        (REAL_WHOLE, whole),
        (REAL_FIRST, stream[0]),
        (REAL_LAST, stream[-2]),
        (REAL_USAGE, stream[-1]),
        (REAL_BARE_LAST, bare[-1]),
    ):
        assert shape(ours) == shape(json.loads(real))


def test_logprobs_are_those_of_a_one_hot_model_and_offsets_those_of_the_text(mtp: Fake) -> None:
    choice = mtp.complete([1, 2, 3], 5, logprobs=2).json()["choices"][0]
    logprobs = choice["logprobs"]
    assert "".join(logprobs["tokens"]) == choice["text"]
    columns = (logprobs[name] for name in ("tokens", "text_offset", "token_logprobs", "top_logprobs"))
    for token, offset, value, top in zip(*columns, strict=True):
        assert choice["text"][offset:].startswith(token)
        assert value == top[token] == pytest.approx(-0.00155, abs=1e-5)  # as measured: see REAL_WHOLE
        assert len(top) == 2
        assert min(top.values()) == pytest.approx(-11.314, abs=2e-3)


def test_a_near_tie_shows_in_the_logprobs(tmp_path: Path) -> None:
    recipe = Recipe(near_tie=True)
    assert recipe.tie is not None
    token, runner_up = recipe.tie
    with fake(forge(tmp_path / "model", recipe)) as server:
        choice = server.complete([0, token], 2, logprobs=2).json()["choices"][0]
    first, second = choice["logprobs"]["top_logprobs"]
    best = f"w{recipe.rule.successor[token]}"
    assert list(first) == [best, f"w{runner_up}"]
    assert first[best] - first[f"w{runner_up}"] == pytest.approx(0.088, abs=0.001)
    assert max(second.values()) - min(second.values()) > 11


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"prompt": [1] * 4000, "max_tokens": 97}, 400, "4000 input tokens, for a total of 4097 tokens"),
        ({"prompt": [1] * 4096, "max_tokens": 1}, 400, "max_tokens must be at least 1, got 0."),
        ({"prompt": [1] * 4097, "max_tokens": 1}, 400, "exceeds this limit even without any output tokens"),
        ({"prompt": [1, 2], "max_tokens": 4097}, 400, "max_tokens=4097 cannot be greater than max_model_len=4096"),
        ({"prompt": [1, 2], "max_tokens": 0}, 400, "max_tokens must be at least 1, got 0."),
        ({"prompt": [1, 128]}, 400, "Token id 128 is out of vocabulary"),
        ({"prompt": []}, 400, "You must pass at least one prompt"),
        ({}, 400, "Either prompt or prompt_embeds must be provided and non-empty."),
        ({"prompt": [1, 2], "logprobs": 21}, 400, "greater than max allowed: 20"),
        ({"prompt": [1, 2], "model": "other"}, 404, "The model `other` does not exist. Valid aliases: tiny."),
    ],
)
def test_refusals_are_those_of_vllm(mtp: Fake, body: dict[str, Any], status: int, message: str) -> None:
    before = mtp.samples()["vllm:prompt_tokens_total"]
    response = mtp.post("/v1/completions", **body)
    error = response.json()["error"]
    assert response.status_code == error["code"] == status
    assert list(error) == ["message", "type", "param", "code"]
    assert error["type"] == ("NotFoundError" if status == 404 else "BadRequestError")
    assert message in error["message"]
    assert mtp.samples()["vllm:prompt_tokens_total"] == before


def test_the_longest_request_fits(mtp: Fake) -> None:
    assert len(mtp.ids([1] * 4000, 96)) == 96


def test_small_endpoints(mtp: Fake, model: Path) -> None:
    assert (mtp.get("/health").status_code, mtp.get("/health").content) == (200, b"")
    assert mtp.get("/ping").status_code == mtp.post("/ping").status_code == 200
    assert mtp.get("/version").json() == {"version": "0.32.0"}
    card = mtp.get("/v1/models").json()["data"][0]
    assert (card["id"], card["root"], card["max_model_len"]) == ("tiny", str(model), 4096)
    assert mtp.post("/tokenize", model="tiny", prompt="w1 w22 zebra").json() == {
        "count": 3,
        "max_model_len": 4096,
        "tokens": [1, 22, 54],
        "token_strs": None,
    }
    assert mtp.post("/reset_prefix_cache").json() == {"success": True}
    assert mtp.get("/nowhere").status_code == 404
