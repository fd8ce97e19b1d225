"""The client of one launch: what it asks, and what of it is recorded."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.client.asks import Sampling
from harness.evidence.bundle import LaunchDir, read_lines
from harness.forge.arithmetic import Rule
from harness.forge.checkpoint import forge
from harness.forge.recipe import Recipe
from harness.observe import prometheus
from harness.records import OutputRecord, RequestRecord, Window
from harness.session import asking
from harness.session.asking import Asker, Wanted
from harness.words import Step
from tests.client.raw_server import raw_server, respond, stream
from tests.fakes.fake_process import MTP, Fake, fake


@pytest.fixture(scope="module")
def rule() -> Rule:
    return Recipe().rule


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forge(tmp_path_factory.mktemp("asking") / "model", Recipe())


@pytest.fixture(scope="module")
def mtp(model: Path) -> Iterator[Fake]:
    with fake(model, *MTP) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> LaunchDir:
    (tmp_path / "007-control").mkdir()
    return LaunchDir(tmp_path / "007-control")


def asker(folder: LaunchDir, url: str, seed: int = 1) -> Asker:
    return Asker(folder, url, "tiny", seed=seed, ids_below=64, deadline_s=5)


def windows(folder: LaunchDir) -> list[Window]:
    return list(read_lines(folder.windows_file, Window))


def counted(folder: LaunchDir, window: Window) -> prometheus.Delta:
    """What the server counted within a window, from the raw scrapes."""
    assert window.scrape_before is not None
    assert window.scrape_after is not None
    before, after = (
        prometheus.parse((folder.metrics_dir / name).read_text("utf-8"))
        for name in (window.scrape_before, window.scrape_after)
    )
    delta = prometheus.delta(before, after)
    assert delta is not None
    return delta


# --- records --------------------------------------------------------------------------------------------


def test_a_request_is_recorded_in_full(folder: LaunchDir, mtp: Fake, rule: Rule) -> None:
    [(request, output)] = asker(folder, mtp.url).ask(Step.DECODE, [Wanted(50, 20)], context_tokens=50, pass_number=3)
    assert request.complete
    assert (request.request, request.window) == ("0001", "decode/50/3")
    assert (request.prompt_tokens, request.asked_tokens) == (50, 20)
    assert request.begin_ns <= (request.sent_ns or 0) <= request.event_ns[0] <= request.event_ns[-1] <= request.end_ns
    assert len(output.token_ids) == 20
    assert output.token_ids == rule.expected((0, predecessor(rule, output.token_ids[0])), 20).output_ids
    assert list(read_lines(folder.requests_file, RequestRecord)) == [request]
    assert list(read_lines(folder.outputs_file, OutputRecord)) == [output]


def predecessor(rule: Rule, token: int) -> int:
    return rule.successor.index(token)


@pytest.mark.parametrize(
    "faults",
    ["drop-mid-stream", "error-event", "http-500=1", "wrong-usage", "short-output", "hang", "die-at-first-request"],
)
def test_no_fault_is_a_complete_request(folder: LaunchDir, model: Path, faults: str) -> None:
    with fake(model, faults=faults) as server:
        client = Asker(folder, server.url, "tiny", seed=1, ids_below=64, deadline_s=0.5)
        [(request, _)] = client.ask(Step.DECODE, [Wanted(5, 8)], context_tokens=None, pass_number=0)
    assert not request.complete
    assert list(read_lines(folder.requests_file, RequestRecord)) == [request]


def test_an_unknown_logprob_is_null_in_a_file_that_is_json(folder: LaunchDir, model: Path) -> None:
    with fake(model, faults="nan-logprobs") as server:
        asker(folder, server.url).ask(
            Step.IDENTITY, [Wanted(5, 3, Sampling(logprobs=2))], context_tokens=None, pass_number=0
        )

    def refuse(constant: str) -> Any:
        raise AssertionError(constant)

    record = json.loads(folder.outputs_file.read_text("utf-8"), parse_constant=refuse)
    assert [set(top.values()) for top in record["top_logprobs"]] == [{None}] * 3


def test_an_empty_output_has_no_hash(folder: LaunchDir, model: Path) -> None:
    with fake(model, faults="http-500=1") as server:
        [(_, empty), (_, full)] = asker(folder, server.url).ask(
            Step.IDENTITY, [Wanted(5, 3)] * 2, context_tokens=None, pass_number=0
        )
    assert empty.sha256 == ""
    assert len(full.sha256) == 64


# --- windows and scrapes --------------------------------------------------------------------------------


def test_windows_are_chained_and_count_what_was_asked_within_them(folder: LaunchDir, mtp: Fake, rule: Rule) -> None:
    client = asker(folder, mtp.url)
    for number, tokens in enumerate((10, 33, 1)):
        client.ask(Step.DECODE, [Wanted(20, tokens)] * 2, context_tokens=20, pass_number=number)
    first, second, third = windows(folder)
    assert first.scrape_after == second.scrape_before
    assert second.scrape_after == third.scrape_before
    outputs = list(read_lines(folder.outputs_file, OutputRecord))
    for index, (window, tokens) in enumerate(((first, 10), (second, 33), (third, 1))):
        pair = outputs[2 * index : 2 * index + 2]
        expected = [rule.expected((0, predecessor(rule, o.token_ids[0])), tokens, draft_tokens=1) for o in pair]
        delta = counted(folder, window)
        assert delta.get("requests") == 2
        assert delta.get("prompt_tokens") == 40
        assert delta.get("generation_tokens") == 2 * tokens
        assert delta.get("drafts") == sum(e.drafts for e in expected)
        assert delta.get("accepted") == sum(e.accepted for e in expected)
        assert window.begin_ns < window.end_ns


def scrape(running: int, served: int, generated: int) -> bytes:
    return (
        f"vllm:num_requests_running {running}.0\n"
        f'vllm:request_success_total{{finished_reason="length"}} {served}.0\n'
        f"vllm:generation_tokens_total {generated}.0\n"
    ).encode()


def test_a_scrape_waits_until_the_counters_have_settled(folder: LaunchDir) -> None:
    # As vLLM counts: the request a moment after its last token, the steps of it a moment after the request.
    late = [scrape(1, 0, 7), scrape(0, 0, 7), scrape(0, 1, 9), scrape(0, 1, 10), scrape(0, 1, 10), scrape(0, 9, 99)]
    begin = scrape(0, 0, 7)

    def answer(connection: socket.socket) -> None:
        served = any(server.bodies)
        if server.bodies[-1]:
            stream(connection, [b"[DONE]"])
        else:
            respond(connection, 200, late.pop(0) if served else begin)

    with raw_server(answer) as server:
        asker(folder, server.url).ask(Step.DECODE, [Wanted(5, 3)], context_tokens=None, pass_number=0)
    [window] = windows(folder)
    assert counted(folder, window).counts == {"generation_tokens": 3, "requests": 1}
    assert len(late) == 1


def test_a_server_that_never_settles_is_scraped_as_it_is(folder: LaunchDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "SETTLE_TRIES", 3)
    with raw_server(lambda connection: respond(connection, 200, scrape(1, 0, 7))) as server:
        asker(folder, server.url).ask(Step.DECODE, [Wanted(5, 3)], context_tokens=None, pass_number=0)
    [window] = windows(folder)
    assert counted(folder, window).counts == {"generation_tokens": 0, "requests": 0}


def test_a_failed_scrape_is_none_and_the_requests_count(folder: LaunchDir, model: Path) -> None:
    with fake(model, faults="metrics-500") as server:
        [(request, _)] = asker(folder, server.url).ask(Step.DECODE, [Wanted(5, 3)], context_tokens=None, pass_number=0)
    [window] = windows(folder)
    assert (window.scrape_before, window.scrape_after) == (None, None)
    assert request.complete
    assert list(folder.metrics_dir.iterdir()) == []


def test_after_a_failed_scrape_the_next_window_begins_with_one_of_its_own(folder: LaunchDir, model: Path) -> None:
    with fake(model, faults="metrics-500@1") as server:
        client = asker(folder, server.url)
        for number in range(2):
            client.ask(Step.DECODE, [Wanted(5, 3)], context_tokens=None, pass_number=number)
    first, second = windows(folder)
    assert first.scrape_before is None
    assert first.scrape_after == second.scrape_before == "001.prom"
    assert counted(folder, second).get("generation_tokens") == 3


def test_a_page_that_is_no_scrape_is_none(folder: LaunchDir) -> None:
    with raw_server(lambda connection: respond(connection, 200, b"vllm:prompt_tokens_total{ NaN\n")) as server:
        asker(folder, server.url).ask(Step.DECODE, [Wanted(5, 3)], context_tokens=None, pass_number=0)
    [window] = windows(folder)
    assert (window.scrape_before, window.scrape_after) == (None, None)


# --- prompts --------------------------------------------------------------------------------------------


def asked(folder: LaunchDir, *passes: tuple[int, list[Wanted]], seed: int = 1) -> list[dict[str, Any]]:
    """The bodies of the requests that these passes send."""
    with raw_server(lambda connection: respond(connection, 500, b"")) as server:
        client = asker(folder, server.url, seed)
        for number, wanted in passes:
            client.ask(Step.IDENTITY, wanted, context_tokens=None, pass_number=number)
    return [json.loads(body) for body in server.bodies if body]


def test_the_cache_salt_differs_per_request_and_launch(folder: LaunchDir) -> None:
    bodies = asked(folder, (0, [Wanted(5, 3)] * 3), (1, [Wanted(5, 3)] * 3))
    salts = [body["cache_salt"] for body in bodies]
    assert len(set(salts)) == 6
    assert all(salt.startswith("007-control.") for salt in salts)


def test_every_request_of_every_pass_has_a_prompt_of_its_own(folder: LaunchDir) -> None:
    bodies = asked(folder, (0, [Wanted(16, 3)] * 3), (1, [Wanted(16, 3)] * 3))
    assert len({tuple(body["prompt"]) for body in bodies}) == 6


def test_a_prompt_pass_repeats_the_prompts_of_that_pass(folder: LaunchDir) -> None:
    wanted = [Wanted(16, 3, prompt_pass=0)] * 3
    bodies = asked(folder, (0, wanted), (1, wanted))
    prompts = [body["prompt"] for body in bodies]
    assert prompts[:3] == prompts[3:]
    assert len({tuple(prompt) for prompt in prompts}) == 3
    hashes = [request.prompt_sha256 for request in read_lines(folder.requests_file, RequestRecord)]
    assert hashes[:3] == hashes[3:]


def test_prompts_are_a_function_of_the_seed_alone(folder: LaunchDir, tmp_path: Path) -> None:
    (tmp_path / "008-candidate").mkdir()
    other = LaunchDir(tmp_path / "008-candidate")
    wanted = [Wanted(16, 3)] * 2
    prompts = [body["prompt"] for body in asked(folder, (0, wanted))]
    assert [body["prompt"] for body in asked(other, (0, wanted))] == prompts
    assert [body["prompt"] for body in asked(other, (0, wanted), seed=2)] != prompts


def test_concurrent_requests_are_recorded_in_their_order(folder: LaunchDir, mtp: Fake) -> None:
    recorded = asker(folder, mtp.url).ask(
        Step.LADDER, [Wanted(5 + n, 4) for n in range(8)], context_tokens=None, pass_number=0, concurrent=8
    )
    assert [request.index for request, _ in recorded] == list(range(8))
    assert [request.prompt_tokens for request, _ in recorded] == list(range(5, 13))
    assert [request.request for request, _ in recorded] == [f"{n:04d}" for n in range(1, 9)]
    assert all(request.complete for request, _ in recorded)


def test_two_checks_of_one_step_do_not_share_a_window(folder: LaunchDir, mtp: Fake) -> None:
    client = asker(folder, mtp.url)
    for _ in range(2):
        client.ask(Step.PROBES, [Wanted(20, 4)], context_tokens=None, pass_number=0)
    assert [w.window for w in windows(folder)] == ["probes/0/0", "probes/0/0#2"]
    asked = [r.window for r in read_lines(folder.requests_file, RequestRecord)]
    assert asked == ["probes/0/0", "probes/0/0#2"]


def test_the_users_proxy_stands_between_nobody(folder: LaunchDir, mtp: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    asker(folder, mtp.url).ask(Step.PROBES, [Wanted(20, 4)], context_tokens=None, pass_number=0)
    [window] = windows(folder)
    assert window.scrape_before is not None
    assert window.scrape_after is not None
