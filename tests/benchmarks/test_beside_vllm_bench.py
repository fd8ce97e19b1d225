"""What the program beside `vllm bench serve` says of the sampler's cost."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.beside_vllm_bench import Asked, Figures, Scene, sampler_cost


def figures(*rates: float) -> Figures:
    return Figures(tokens=1, ttft_ms=1.0, prefill=1.0, decode=statistics.median(rates), rates=rates)


def test_a_sampler_that_slows_less_than_requests_differ_is_within_noise() -> None:
    cost, noise = sampler_cost([figures(100.0, 101.0, 99.0)], [figures(99.5, 100.0, 99.0)])
    assert cost == pytest.approx(-0.5)
    assert noise == pytest.approx(2.0)


def test_a_sampler_that_takes_a_tenth_is_beyond_it() -> None:
    cost, noise = sampler_cost([figures(100.0, 101.0)], [figures(90.0, 90.5)])
    assert abs(cost) > noise


def test_rates_of_all_rounds_count() -> None:
    _, noise = sampler_cost([figures(100.0), figures(104.0)], [figures(102.0)])
    assert noise == pytest.approx(100 * 4 / 102)


def test_one_asker_warms_the_server_up_and_nobody_is_asked_the_same_twice(tmp_path: object) -> None:
    asked: list[tuple[str, tuple[tuple[int, ...], ...]]] = []

    def asker(name: str) -> object:
        def ask(_url: str, _scene: Scene, prompts: list[list[int]], _folder: object) -> Figures:
            asked.append((name, tuple(map(tuple, prompts))))
            return figures(1.0)

        return ask

    made = Asked("http://nowhere", {n: asker(n) for n in ("ours", "peer")}, 64, tmp_path)  # type: ignore[misc,arg-type]
    found = made.rounds(Scene(16, 4, 2), 2)
    assert [name for name, _ in asked] == ["ours", "peer", "ours", "ours", "peer"]
    assert {name: len(rows) for name, rows in found.items()} == {"ours": 2, "peer": 2}
    assert len({prompt for _, prompts in asked for prompt in prompts}) == 10
