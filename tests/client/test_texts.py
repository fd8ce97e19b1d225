"""Text prompts: the set, exact lengths, needles, and that equal keys give equal prompts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.client.prompts import PromptKey
from harness.client.texts import (
    DEPTHS,
    Rendered,
    needle_prompt_ids,
    needles,
    rendered_sha256,
    text_prompt_ids,
    texts,
    texts_sha256,
)
from harness.client.tokenizing import token_ids
from harness.words import Step

RENDERED: Rendered = {text.name: [100 * n + i for i in range(40 + n)] for n, text in enumerate(texts())}


def key(index: int = 0, *, step: Step = Step.DECODE, pass_number: int = 0, seed: int = 1) -> PromptKey:
    return PromptKey(seed, step, 2048, pass_number, index)


# --- the set ---------------------------------------------------------------------------------------------


def test_there_are_at_least_24_texts_of_every_class() -> None:
    kinds = Counter(text.kind for text in texts())
    assert sum(kinds.values()) >= 24
    assert set(kinds) == {"repetitive", "prose", "code", "table", "multilingual"}
    assert min(kinds.values()) >= 4
    assert len({text.name for text in texts()}) == len(texts())
    assert len({text.text for text in texts()}) == len(texts())


def test_a_changed_word_would_show() -> None:
    # Prompts of two versions of the set must not be taken for the same: change this hash with the texts.
    assert texts_sha256()[:12] == "92dbf57de44e"


def test_the_hash_of_a_rendering_is_that_of_its_ids_in_their_order() -> None:
    names = list(RENDERED)
    swapped = {name: RENDERED[name] for name in reversed(names)}
    assert rendered_sha256(RENDERED) == rendered_sha256(dict(RENDERED))
    assert rendered_sha256(RENDERED) != rendered_sha256(swapped)
    assert rendered_sha256(RENDERED) != rendered_sha256({**RENDERED, names[0]: [1]})


# --- prompts ---------------------------------------------------------------------------------------------


@given(st.integers(1, 3000), st.integers(0, 60), st.integers(0, 3))
def test_a_prompt_has_exactly_the_length_that_was_asked(tokens: int, index: int, pass_number: int) -> None:
    ids = text_prompt_ids(key(index, pass_number=pass_number), tokens, RENDERED)
    assert len(ids) == tokens
    assert ids == text_prompt_ids(key(index, pass_number=pass_number), tokens, RENDERED)


def test_a_short_prompt_is_the_beginning_of_a_text_and_a_set_has_them_all() -> None:
    prompts = [text_prompt_ids(key(n, step=Step.IDENTITY), 30, RENDERED) for n in range(len(RENDERED))]
    assert prompts == [list(ids)[:30] for ids in RENDERED.values()]


def test_a_long_prompt_ends_in_the_middle_of_a_text_that_is_to_be_written_on() -> None:
    ids = text_prompt_ids(key(3), 1000, RENDERED)
    text = list(list(RENDERED.values())[3])
    assert ids[-len(text) // 2 :] == text[: len(text) // 2] or ids[-(len(text) // 2) :] == text[: len(text) // 2]


def test_passes_of_one_context_differ_and_so_do_seeds() -> None:
    prompts = [text_prompt_ids(key(pass_number=n), 2048, RENDERED) for n in range(3)]
    prompts.append(text_prompt_ids(key(seed=2), 2048, RENDERED))
    assert len({tuple(p) for p in prompts}) == 4
    assert len({tuple(p[:16]) for p in prompts}) == 4


def test_without_ids_there_is_no_prompt() -> None:
    with pytest.raises(ValueError, match="texts that have ids"):
        text_prompt_ids(key(), 10, {"a": []})
    with pytest.raises(ValueError, match="tokens >= 1"):
        text_prompt_ids(key(), 0, RENDERED)


# --- needles ---------------------------------------------------------------------------------------------


def test_a_needles_answer_stands_in_its_fact_and_not_in_its_question() -> None:
    found = needles(1)
    assert [needle.depth for needle in found] == list(DEPTHS)
    assert len({needle.answer for needle in found}) == 5
    for needle in found:
        assert needle.answer in needle.fact
        assert needle.answer not in needle.question
        assert len(needle.answer) == 6
    assert not {n.answer for n in needles(1)} & {n.answer for n in needles(2)}


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_fact_stands_at_its_depth_and_the_question_at_the_end(depth: float) -> None:
    fact, question = [-1, -2, -3], [-8, -9]
    ids = needle_prompt_ids(key(step=Step.NEEDLE), 32_768, RENDERED, (fact, question), depth)
    assert len(ids) == 32_768
    assert ids[-2:] == question
    place = ids.index(-1)
    assert ids[place : place + 3] == fact
    assert place == round(depth * (32_768 - 5))


def test_a_prompt_too_short_for_its_needle_is_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        needle_prompt_ids(key(), 5, RENDERED, ([1, 2, 3], [4, 5]), 0.5)


# --- a server that has no ids ----------------------------------------------------------------------------


def test_a_tokenizer_that_gives_nothing_is_named() -> None:
    import requests

    from tests.client.raw_server import raw_server, respond

    with (
        raw_server(lambda connection: respond(connection, 200, b'{"tokens": []}')) as server,
        pytest.raises(ValueError, match="gives no ids for 'hello'"),
    ):
        token_ids(requests.Session(), server.url, "m", "hello")
