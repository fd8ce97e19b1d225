"""Whose GPUs a session may take: those that the environment leaves to it."""

from __future__ import annotations

import pytest

from harness.errors import SetupFailure
from harness.session.visible import Gpu, restriction, visible

FOUR = tuple(Gpu("NVIDIA RTX PRO 6000", 97_887, f"GPU-{letter}{letter}") for letter in "abcd")
MIXED = (FOUR[0], Gpu("NVIDIA GeForce RTX 5090", 32_607, "GPU-ee"))


def uuids(environ: dict[str, str], found: tuple[Gpu, ...] = FOUR) -> list[str]:
    return [gpu.uuid for gpu in visible(found, environ)]


def test_without_a_word_of_the_environment_all_are_ours() -> None:
    assert uuids({}) == uuids({"QUALIFY_GPUS": ""}) == ["GPU-aa", "GPU-bb", "GPU-cc", "GPU-dd"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("2,3", ["GPU-cc", "GPU-dd"]),  # as Slurm's gres gives them
        ("3,2", ["GPU-cc", "GPU-dd"]),
        ("GPU-bb", ["GPU-bb"]),
        ("GPU-d, GPU-a", ["GPU-aa", "GPU-dd"]),  # CUDA takes beginnings
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
    ],
)
def test_what_cuda_may_see_is_what_we_may_use(text: str, left: list[str]) -> None:
    assert uuids({"CUDA_VISIBLE_DEVICES": text}) == left


def test_our_own_variable_comes_before_cudas() -> None:
    assert uuids({"QUALIFY_GPUS": "GPU-bb", "CUDA_VISIBLE_DEVICES": "0"}) == ["GPU-bb"]


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"CUDA_VISIBLE_DEVICES": "4"}, "CUDA_VISIBLE_DEVICES names GPU 4, and this host has 4"),
        ({"CUDA_VISIBLE_DEVICES": "0,x"}, "CUDA_VISIBLE_DEVICES names x, which this host has not"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-"}, "CUDA_VISIBLE_DEVICES names GPU-, several of this host's"),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1"}, r"names MIG-1: parts of a GPU \(MIG\) cannot be watched"),
        ({"QUALIFY_GPUS": "GPU-a"}, "QUALIFY_GPUS names GPU-a, which this host has not"),
    ],
)
def test_a_gpu_that_nobody_can_find_is_named(environ: dict[str, str], told: str) -> None:
    with pytest.raises(SetupFailure, match=told):
        uuids(environ)


def test_numbers_of_unlike_gpus_are_refused_where_cuda_counts_them_otherwise() -> None:
    with pytest.raises(SetupFailure, match=r"counts the fastest GPU first.*CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        uuids({"CUDA_VISIBLE_DEVICES": "1"}, MIXED)
    assert uuids({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, MIXED) == ["GPU-ee"]
    assert uuids({"CUDA_VISIBLE_DEVICES": "GPU-ee"}, MIXED) == ["GPU-ee"]


def test_what_leaves_gpus_out_can_be_told() -> None:
    assert restriction({}) == restriction({"QUALIFY_GPUS": ""}) == restriction({"QUALIFY_GPUS": ","}) == ""
    assert restriction({"CUDA_VISIBLE_DEVICES": ""}) == "CUDA_VISIBLE_DEVICES="
    assert restriction({"QUALIFY_GPUS": "GPU-b", "CUDA_VISIBLE_DEVICES": "1"}) == "QUALIFY_GPUS=GPU-b"
