from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.forge.recipe import Recipe

SMALL = Recipe(hidden=64, head_size=32, intermediate=16)

recipes = st.builds(
    Recipe,
    hidden=st.sampled_from([64, 128, 192]),
    vocab=st.none() | st.integers(8, 64),
    seed=st.integers(0, 2**32),
    wrong_drafts=st.floats(0, 0.99),
    changed_successor=st.booleans(),
    near_tie=st.booleans(),
)


def changed(one: Recipe, other: Recipe) -> list[int]:
    """Tokens whose successor differs."""
    pairs = zip(one.rule.successor, other.rule.successor, strict=True)
    return [token for token, (a, b) in enumerate(pairs) if a != b]


# --- what cannot be built is refused with the option that mends it -----------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"layers": 0}, "--layers must be at least 1"),
        ({"head_size": 48}, "--head-size must be positive and divide --hidden"),
        ({"head_size": 0}, "--head-size must be positive and divide --hidden"),
        ({"kv_heads": 3}, "--kv-heads must divide the number of heads"),
        ({"kv_heads": 0}, "--kv-heads must divide the number of heads"),
        ({"intermediate": 0}, "--intermediate must be at least 1"),
        ({"vocab": 7}, "--vocab must lie between 8 and --hidden"),
        ({"vocab": 129}, "--vocab must lie between 8 and --hidden"),
        ({"max_context": 15}, "--max-context must be at least 16"),
        ({"wrong_drafts": 1.0}, "--wrong-drafts is a share and must lie in 0 <= x < 1"),
        ({"wrong_drafts": -0.1}, "--wrong-drafts is a share and must lie in 0 <= x < 1"),
        ({"wrong_drafts": float("nan")}, "--wrong-drafts is a share and must lie in 0 <= x < 1"),
    ],
)
def test_a_recipe_that_cannot_be_built_names_the_option(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Recipe(**arguments)
    assert str(caught.value).startswith(f"forge: {told}")


@pytest.mark.parametrize("arguments", [{"vocab": 8}, {"vocab": 128}, {"kv_heads": 2}, {"wrong_drafts": 0.0}])
def test_the_edges_of_what_can_be_built_are_accepted(arguments: dict[str, Any]) -> None:
    Recipe(**arguments)


# --- the map --------------------------------------------------------------------------------------------


@given(recipes)
def test_the_cycle_holds_every_token_once(recipe: Recipe) -> None:
    assert sorted(recipe.cycle) == list(range(recipe.vocab_size))


def test_an_unchanged_model_walks_the_whole_vocabulary_and_comes_back() -> None:
    walk = SMALL.rule.expected((0, SMALL.cycle[-1]), 65).output_ids
    assert walk[:64] == SMALL.cycle
    assert walk[64] == walk[0]


@given(recipes)
def test_the_wrong_set_has_the_size_that_the_share_says(recipe: Recipe) -> None:
    assert len(recipe.rule.wrong_drafts) == round(recipe.wrong_drafts * recipe.vocab_size)
    assert all(0 <= token < recipe.vocab_size for token in recipe.rule.wrong_drafts)


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 1.0, 1.0), (0.1, 0.8, 1.0), (0.3, 0.6, 0.8), (0.5, 0.4, 0.6)])
def test_a_share_of_wrong_drafts_gives_about_the_rest_as_acceptance(share: float, low: float, high: float) -> None:
    # Drawn at random: an evenly spaced set would fall into step with the two-token strides.
    assert low <= Recipe(wrong_drafts=share, seed=1).rule.long_run_acceptance() <= high


@given(recipes)
def test_a_mistaken_token_always_leads_to_a_wrong_draft(recipe: Recipe) -> None:
    successor = recipe.rule.successor
    for token in recipe.rule.wrong_drafts:
        assert successor[recipe.mistaken_for(token)] != successor[token]


# --- one option never moves another's draw -----------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"wrong_drafts": 0.6},
        {"layers": 7},
        {"intermediate": 32},
        {"kv_heads": 2},
        {"head_size": 64},
        {"max_context": 99},
        {"hidden": 128, "vocab": 64},
    ],
    ids=str,
)
def test_other_options_keep_the_map(other: dict[str, Any]) -> None:
    assert replace(SMALL, **other).rule.successor == SMALL.rule.successor


def test_shape_and_variants_keep_the_wrong_set() -> None:
    for other in ({"layers": 7}, {"intermediate": 32}, {"changed_successor": True}, {"near_tie": True}):
        assert replace(SMALL, **other).rule.wrong_drafts == SMALL.rule.wrong_drafts


def test_a_larger_share_keeps_the_tokens_of_the_smaller_one_wrong() -> None:
    few, many = replace(SMALL, wrong_drafts=0.1), replace(SMALL, wrong_drafts=0.2)
    assert few.rule.wrong_drafts < many.rule.wrong_drafts


def test_the_seed_moves_everything() -> None:
    other = replace(SMALL, seed=1)
    assert other.cycle != SMALL.cycle
    assert other.rule.wrong_drafts != SMALL.rule.wrong_drafts


def test_the_same_arguments_give_the_same_rule() -> None:
    assert replace(SMALL).rule == SMALL.rule


def test_the_draws_are_those_of_the_models_already_forged() -> None:
    # truth.json files lie about: a new Python or a refactoring must not redraw them.
    recipe = Recipe(hidden=32, head_size=32, seed=1)
    assert recipe.cycle[:8] == (27, 17, 26, 1, 29, 3, 16, 13)
    assert sorted(recipe.rule.wrong_drafts) == [3, 6, 9, 11, 13, 14, 17, 19, 26, 27]
    assert recipe.special_token == 27


# --- variants -----------------------------------------------------------------------------------------------


@given(recipes)
def test_changed_successor_changes_exactly_one_successor(recipe: Recipe) -> None:
    plain = replace(recipe, changed_successor=False, near_tie=False)
    assert changed(plain, replace(plain, changed_successor=True)) == [plain.special_token]


def test_the_changed_successor_is_the_token_after_next() -> None:
    token = SMALL.special_token
    follows = SMALL.rule.successor
    assert replace(SMALL, changed_successor=True).rule.successor[token] == follows[follows[token]]


def test_a_near_tie_has_the_other_answer_as_its_runner_up_whichever_wins() -> None:
    token, ordinary = SMALL.special_token, SMALL.rule.successor[SMALL.special_token]
    kept = replace(SMALL, near_tie=True)
    swapped = replace(SMALL, near_tie=True, changed_successor=True)
    assert (kept.rule, kept.tie) == (SMALL.rule, (token, SMALL.other_successor))
    assert (swapped.rule, swapped.tie) == (replace(SMALL, changed_successor=True).rule, (token, ordinary))


def test_without_the_option_nothing_ties() -> None:
    assert SMALL.tie is replace(SMALL, changed_successor=True).tie is None


def test_the_vocabulary_is_as_wide_as_the_model_unless_said_otherwise() -> None:
    assert (SMALL.vocab_size, SMALL.heads) == (64, 2)
    assert replace(SMALL, vocab=50).vocab_size == 50
    assert {replace(SMALL, vocab=50).rule.successor[t] for t in range(50)} == set(range(50))
