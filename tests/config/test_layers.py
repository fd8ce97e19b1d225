from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.layers import DEFAULT, Layers, leaves


def test_tables_merge_and_every_other_value_replaces() -> None:
    layers = Layers()
    layers.add({"plan": {"pairs": 4, "modes": ["mtp0", "mtp1"]}, "name": "a"}, "file")
    layers.add({"plan": {"modes": ["mtp1"]}}, "file [smoke]")
    assert layers.values == {"plan": {"pairs": 4, "modes": ["mtp1"]}, "name": "a"}


def test_each_value_remembers_the_last_place_that_set_it() -> None:
    layers = Layers()
    layers.add({"plan": {"pairs": 4, "seed": 1, "burn_in": 2}}, "file")
    layers.add({"plan": {"pairs": 1}}, "file [smoke]")
    layers.set("plan.seed", 7, "option --seed")
    assert layers.values == {"plan": {"pairs": 1, "seed": 7, "burn_in": 2}}
    assert [layers.origin(f"plan.{key}") for key in ("burn_in", "pairs", "seed")] == [
        "file",
        "file [smoke]",
        "option --seed",
    ]


def test_a_value_that_nobody_set_is_a_default() -> None:
    layers = Layers()
    layers.add({"plan": {"pairs": 4}}, "file")
    assert layers.origin("plan.seed") == layers.origin("gates.steps_pct") == layers.origin("") == DEFAULT


def test_keys_inside_a_list_came_from_where_the_list_came_from() -> None:
    layers = Layers()
    layers.add({"course": {"contexts": [{"prompt_tokens": 2048}]}}, "file")
    assert layers.origin("course.contexts.0.prompt_tokens") == "file"


def test_setting_a_dotted_key_makes_the_tables_on_its_way() -> None:
    layers = Layers()
    layers.set("serve.env.OMP_NUM_THREADS", "8", "option --set")
    assert layers.values == {"serve": {"env": {"OMP_NUM_THREADS": "8"}}}


@pytest.mark.parametrize(("first", "second"), [({"a": 1}, {"a": {"b": 2}}), ({"a": {"c": 1}}, {"a": 2})])
def test_a_table_and_a_value_of_the_same_name_replace_each_other(first: dict[str, Any], second: dict[str, Any]) -> None:
    layers = Layers()
    layers.add(first, "one")
    layers.add(second, "two")
    assert layers.values == second


def test_adding_never_changes_the_trees_that_were_added() -> None:
    below, above = {"serve": {"env": {"A": "1"}}}, {"serve": {"env": {"A": "2"}}}
    layers = Layers()
    layers.add(below, "file")
    layers.add(above, "option")
    assert (below, above) == ({"serve": {"env": {"A": "1"}}}, {"serve": {"env": {"A": "2"}}})


def test_leaves_are_the_values_with_dotted_keys_lists_and_empty_tables_included() -> None:
    tree = {"a": {"b": 1, "c": {"d": [1, 2]}}, "e": {}, "f": None}
    assert list(leaves(tree)) == [("a.b", 1), ("a.c.d", [1, 2]), ("e", {}), ("f", None)]


trees = st.recursive(
    st.integers() | st.lists(st.integers(), max_size=2),
    lambda children: st.dictionaries(st.sampled_from("abc"), children, min_size=1, max_size=3),
    max_leaves=8,
).filter(lambda tree: isinstance(tree, dict))


@given(trees, trees)
def test_every_leaf_of_the_upper_layer_wins_and_names_it(below: dict[str, Any], above: dict[str, Any]) -> None:
    layers = Layers()
    layers.add(below, "below")
    layers.add(above, "above")
    merged = dict(leaves(layers.values))
    for key, value in leaves(above):
        assert merged[key] == value
        assert layers.origin(key) == "above"
    for key in merged.keys() - dict(leaves(above)).keys():
        assert layers.origin(key) == "below"
