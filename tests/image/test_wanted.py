"""An image is believed for its labels, layers and settings, and never for its name."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from harness.image.wanted import Wanted
from tests.image.bench import DESCRIBED


def made(wanted: Wanted) -> dict[str, Any]:
    """The description of an image that is right."""
    image = copy.deepcopy(DESCRIBED)
    image["Id"] = "sha256:" + "d" * 64
    image["Config"]["Labels"] |= wanted.labels
    image["Config"]["Cmd"] = []  # as some engines write nothing
    image["RootFS"]["Layers"] += ["three", "four"]
    return image


def test_the_right_one_is_believed(wanted: Wanted) -> None:
    assert wanted.faults(made(wanted)) == []


def test_the_base_under_its_name_is_not(wanted: Wanted) -> None:
    faults = wanted.faults(DESCRIBED)
    assert len(faults) == len(wanted.labels)
    assert f"label qualify.image.lock-sha256 is missing, expected {wanted.lock.sha256}" in faults


@pytest.mark.parametrize(
    "label",
    [
        "theirs",
        "org.opencontainers.image.base.digest",
        "qualify.image.lock-sha256",
        "qualify.image.context-sha256",
        "qualify.image.base-image-id",
        "qualify.image.vllm.tree",
    ],
)
def test_one_other_label_is_enough_to_refuse(wanted: Wanted, label: str) -> None:
    image = made(wanted)
    image["Config"]["Labels"][label] = "other"
    (fault,) = wanted.faults(image)
    assert fault.startswith(f"label {label} is other, expected ")


def test_other_layers_below_are_another_base(wanted: Wanted) -> None:
    image = made(wanted)
    image["RootFS"]["Layers"] = ["one", "other", "three"]
    assert wanted.faults(image) == ["its lower layers are not those of the base image"]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("User", "0", "User is 0, in the base image vllm"),
        ("Env", ["A=1", "B=2"], "Env is ['A=1', 'B=2'], in the base image ['A=1']"),
        ("Entrypoint", None, "Entrypoint is None, in the base image ['vllm']"),
        ("Healthcheck", {"Test": ["NONE"]}, "Healthcheck is {'Test': ['NONE']}, in the base image None"),
    ],
)
def test_a_setting_that_changed_is_told(wanted: Wanted, key: str, value: object, told: str) -> None:
    image = made(wanted)
    image["Config"][key] = value
    assert wanted.faults(image) == [told]
