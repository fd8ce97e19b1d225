"""Counters out of scrapes: what is missing is unknown and never 0."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.observe.prometheus import COUNTERS, CacheFacts, Delta, Scrape, cache_facts, delta, kv_cache_tokens, parse
from tests.observe.shared_logs import LOGS, needs_logs

START = "process_start_time_seconds 1.7e+09\n"


def difference(before: str, after: str) -> Delta:
    found = delta(parse(START + before), parse(START + after))
    assert found is not None
    return found


def per_position(position: int, tokens: int, engine: int = 0) -> str:
    labels = f'engine="{engine}",position="{position}"'
    return f"vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels}}} {tokens}\n"


# --- one scrape -----------------------------------------------------------------------------------------


def test_a_counter_that_is_missing_is_not_zero() -> None:
    scrape = parse('vllm:generation_tokens_total{engine="0"} 0.0\n')
    assert scrape.counters == {"generation_tokens": 0.0}
    assert (scrape.running, scrape.process_start, scrape.cache_config) == (None, None, {})


def test_engines_are_summed() -> None:
    scrape = parse(
        'vllm:prompt_tokens_total{engine="0"} 10.0\nvllm:prompt_tokens_total{engine="1"} 32.0\n'
        'vllm:num_requests_running{engine="0"} 1.0\nvllm:num_requests_running{engine="1"} 2.0\n'
    )
    assert scrape.counters == {"prompt_tokens": 42.0}
    assert scrape.running == 3.0


def test_the_reasons_of_a_requests_end_are_summed() -> None:
    scrape = parse(
        'vllm:request_success_total{finished_reason="stop"} 2.0\n'
        'vllm:request_success_total{finished_reason="length"} 3.0\n'
    )
    assert scrape.counters == {"requests": 5.0}


def test_names_that_only_begin_like_a_counters_are_others() -> None:
    assert parse(
        "vllm:prompt_tokens_cached_total 5.0\nvllm:prompt_tokens_created 1.7e+09\n"
        "vllm:spec_decode_num_accepted_tokens_per_pos_created 3.0\nvllm:num_preemptions_created 1\n"
    ) == Scrape({}, None, {}, None)


def test_accepted_tokens_are_counted_by_position_too() -> None:
    before = per_position(0, 3) + per_position(0, 4, engine=1)
    scrape = parse(before)
    assert scrape.per_position == {0: 7.0}
    assert scrape.counters == {}
    assert difference(before, per_position(0, 5) + per_position(0, 4, engine=1) + per_position(1, 2)).per_position == (
        2,
        2,
    )


def test_the_older_name_of_a_counter_counts_where_the_newer_one_is_missing() -> None:
    older, newer = "vllm:gpu_prefix_cache_hits_total 7\n", "vllm:prefix_cache_hits_total 7\n"
    assert parse(older).counters == parse(newer).counters == parse(older + newer).counters == {"prefix_hits": 7.0}


def test_waiting_requests_are_summed_and_their_reasons_are_not_added() -> None:
    scrape = parse(
        'vllm:num_requests_waiting{engine="0"} 1\nvllm:num_requests_waiting{engine="1"} 2\n'
        'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 1\n'
    )
    assert (scrape.waiting, scrape.running) == (3.0, None)


def test_a_counter_without_the_suffix_is_the_same() -> None:
    assert parse("vllm:prompt_tokens 5\n").counters == parse("vllm:prompt_tokens_total 5\n").counters


def test_large_numbers_have_an_exponent() -> None:
    assert parse("vllm:prompt_tokens_total 1.048576e+06\n").counters == {"prompt_tokens": 1_048_576.0}


def test_the_cache_configuration_is_text() -> None:
    scrape = parse('vllm:cache_config_info{block_size="128",kv_cache_size_tokens="2097152",x="a\\"b\\\\c"} 1.0\n')
    assert scrape.cache_config == {"block_size": "128", "kv_cache_size_tokens": "2097152", "x": 'a"b\\c'}
    assert kv_cache_tokens(scrape) == 2_097_152


@pytest.mark.parametrize("labels", ["", 'block_size="128"', 'kv_cache_size_tokens="None"', 'kv_cache_size_tokens=""'])
def test_kv_tokens_that_are_not_told_are_unknown(labels: str) -> None:
    assert kv_cache_tokens(parse(f"vllm:cache_config_info{{{labels}}} 1.0\n")) is None


def config(**labels: object) -> str:
    return f"vllm:cache_config_info{{{','.join(f'{k}={chr(34)}{v}{chr(34)}' for k, v in labels.items())}}} 1.0\n"


def test_the_caches_of_several_engines_are_summed() -> None:
    first = config(engine=0, block_size=16, num_gpu_blocks=100, kv_cache_size_tokens=1600, kv_cache_max_concurrency=1.5)
    other = config(engine=1, block_size=16, num_gpu_blocks=90, kv_cache_size_tokens=1440, kv_cache_max_concurrency=1.25)
    assert cache_facts(parse(first + other)) == CacheFacts(3040, 190, 16, 2.75)
    assert kv_cache_tokens(parse(first + other)) == 3040


@pytest.mark.parametrize("value", ["None", "", "-1", "1e3"])
def test_one_engine_that_does_not_tell_makes_the_sum_unknown(value: str) -> None:
    text = config(engine=0, num_gpu_blocks=100, block_size=16) + config(engine=1, num_gpu_blocks=value, block_size=32)
    assert cache_facts(parse(text)) == CacheFacts(None, None, None, None)


def test_without_a_cache_configuration_nothing_is_known_of_it() -> None:
    assert cache_facts(parse("")) == CacheFacts(None, None, None, None)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "many"])
def test_a_counter_that_is_no_number_is_no_scrape(value: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)prompt_tokens_total is|could not convert"):
        parse(f"vllm:prompt_tokens_total {value}\n")


@given(
    st.text(max_size=60) | st.lists(st.sampled_from([*COUNTERS.values(), "{", "}", '"', "\\", ",", "="])).map("".join)
)
def test_any_text_is_a_scrape_or_a_value_error(text: str) -> None:
    try:
        parse(f"vllm:prompt_tokens_total{text}\n{text}")
    except ValueError:
        return


# --- two scrapes ----------------------------------------------------------------------------------------


def test_a_delta_is_what_was_added() -> None:
    found = difference("vllm:prompt_tokens_total 10\n", "vllm:prompt_tokens_total 52\n")
    assert (found.get("prompt_tokens"), found.reset) == (42, False)


def test_nothing_added_is_zero_and_nothing_known_is_none() -> None:
    found = difference("vllm:prompt_tokens_total 10\n", "vllm:prompt_tokens_total 10\n")
    assert found.get("prompt_tokens") == 0
    assert found.get("drafts") is None


def test_a_failed_scrape_has_no_delta() -> None:
    scrape = parse(START)
    assert delta(None, scrape) is None
    assert delta(scrape, None) is None
    assert delta(None, None) is None


def test_a_counter_that_fell_is_a_reset_and_nothing_is_known() -> None:
    found = difference(
        "vllm:prompt_tokens_total 10\nvllm:num_preemptions_total 3\n",
        "vllm:prompt_tokens_total 52\nvllm:num_preemptions_total 0\n",
    )
    assert found.reset
    assert found.get("prompt_tokens") is None


def test_one_engine_that_starts_again_is_a_reset_though_the_sum_rose() -> None:
    name = 'vllm:prompt_tokens_total{{engine="{}"}} {}\n'
    found = difference(name.format(0, 100) + name.format(1, 100), name.format(0, 10) + name.format(1, 500))
    assert found.reset
    assert found.get("prompt_tokens") is None


def test_an_engine_that_goes_away_is_a_reset() -> None:
    name = 'vllm:prompt_tokens_total{{engine="{}"}} {}\n'
    assert difference(name.format(0, 100) + name.format(1, 100), name.format(0, 500)).reset


def test_without_the_process_start_a_fall_still_shows() -> None:
    # Several API servers share their metrics through files, and then no process_* is exposed.
    rose = delta(parse("vllm:prompt_tokens_total 5\n"), parse("vllm:prompt_tokens_total 6\n"))
    fell = delta(parse("vllm:prompt_tokens_total 5\n"), parse("vllm:prompt_tokens_total 4\n"))
    assert rose
    assert fell
    assert (rose.get("prompt_tokens"), rose.reset, fell.reset) == (1, False, True)


def test_another_process_is_a_reset_though_every_counter_rose() -> None:
    before = parse("process_start_time_seconds 1.7e+09\nvllm:prompt_tokens_total 10\n")
    after = parse("process_start_time_seconds 1.700000001e+09\nvllm:prompt_tokens_total 52\n")
    found = delta(before, after)
    assert found is not None
    assert found.reset
    assert found.get("prompt_tokens") is None


def test_a_labelled_counter_that_appears_began_at_zero() -> None:
    found = difference("", 'vllm:request_success_total{finished_reason="length"} 2.0\n')
    assert found.get("requests") == 2


def test_a_label_that_appears_beside_others_is_added() -> None:
    stopped = 'vllm:request_success_total{finished_reason="stop"} 2.0\n'
    found = difference(stopped, stopped + 'vllm:request_success_total{finished_reason="length"} 1.0\n')
    assert found.get("requests") == 1


def test_a_counter_that_disappears_is_unknown() -> None:
    assert difference("vllm:prompt_tokens_total 10\n", "").get("prompt_tokens") is None


counts = st.dictionaries(st.sampled_from(sorted(COUNTERS)), st.integers(0, 10**12))


@given(counts, counts)
def test_deltas_are_exact_and_never_negative(before: dict[str, int], added: dict[str, int]) -> None:
    after = {name: before.get(name, 0) + added.get(name, 0) for name in before | added}
    found = difference(
        "".join(f"{COUNTERS[n]}_total {float(v)!r}\n" for n, v in before.items()),
        "".join(f"{COUNTERS[n]}_total {float(v)!r}\n" for n, v in after.items()),
    )
    assert not found.reset
    assert found.counts == {name: added.get(name, 0) for name in after}


# --- real scrapes ---------------------------------------------------------------------------------------

SCRAPES = sorted(LOGS.glob("own/metrics_*.txt"))


def real(name: str) -> Scrape:
    return parse((LOGS / "own" / name).read_text("utf-8"))


@needs_logs
def test_every_counter_of_a_real_scrape_is_the_sum_of_its_lines() -> None:
    assert SCRAPES
    for file in SCRAPES:
        text = file.read_text("utf-8")
        scrape = parse(text)
        for name, theirs in COUNTERS.items():
            values = re.findall(rf"^{theirs}_total(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
            assert scrape.counters.get(name) == (sum(map(float, values)) if values else None), (file.name, name)


@needs_logs
def test_a_real_server_without_drafts_has_no_draft_counters() -> None:
    with_drafts, without = real("metrics_v0.32.0_cpu_mtp.txt"), real("metrics_v0.32.0_cpu_nospec.txt")
    assert COUNTERS.keys() == with_drafts.counters.keys()
    assert COUNTERS.keys() - without.counters.keys() == {"drafts", "draft_tokens", "accepted"}
    assert (with_drafts.counters["drafts"], with_drafts.counters["accepted"]) == (417, 0)
    assert (with_drafts.counters["requests"], with_drafts.running) == (9, 0)


@needs_logs
def test_real_scrapes_of_one_server_have_a_delta_and_of_two_a_reset() -> None:
    same = delta(real("metrics_1.txt"), real("metrics_2.txt"))
    other = delta(real("metrics_0.txt"), real("metrics_1.txt"))
    assert same is not None
    assert (same.get("prompt_tokens"), same.reset) == (134, False)
    assert other is not None
    assert (other.get("prompt_tokens"), other.reset) == (None, True)


@needs_logs
def test_a_real_scrape_has_blocks_and_positions() -> None:
    scrape = real("cyc_m1.txt")
    assert cache_facts(scrape) == CacheFacts(1_398_016, 10_922, 128, 682.625)
    assert (scrape.counters["drafts"], scrape.per_position) == (137, {0: 92.0})
    assert scrape.waiting == 0


@needs_logs
def test_a_real_scrape_names_the_kv_cache() -> None:
    assert all((kv_cache_tokens(parse(file.read_text("utf-8"))) or 0) > 1_000_000 for file in SCRAPES)
