"""What a kernel of B12X is compiled for, by the line of its compiler."""

from __future__ import annotations

import pytest

from harness.observe.jit.b12x import constants
from harness.observe.log import Kind, events
from tests.observe.shared_logs import log_bytes, needs_logs

TENSOR = '["q",["tensor","q","torch.bfloat16",3,[["dim","dynamic",null],["dim","exact",16]],[],["cuda",1],null,null]]'


@pytest.mark.parametrize(
    ("attrs", "told"),
    [
        ("'ranks': 4, 'gated': True", (("ranks", "4"), ("gated", "True"))),
        ("'mode': 'a, b', 'order': (1, 0)}", (("mode", "'a, b'"), ("order", "(1, 0)"))),
        ("'ranks': 4, 'output_str...", (("ranks", "4"),)),
        ("'ranks': 4, 'output_stride_head': 157...", (("ranks", "4"),)),
        ("", ()),
    ],
    ids=["simple", "text-and-tuple", "cut-in-a-name", "cut-in-a-number", "none"],
)
def test_the_attributes_of_its_object(attrs: str, told: tuple[tuple[str, str], ...]) -> None:
    assert constants(attrs, "") == told


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (
            '["compute_mode",1],["has_sink",false],["scale","e4m3"]',
            {"compute_mode": "1", "has_sink": "false", "scale": "e4m3"},
        ),
        ('"legacy","gemm.dense",4,[["field","arg0",1536],["field","arg4","k"]]', {"arg0": "1536", "arg4": "k"}),
        (f'["topk_bucket",2048],{TENSOR}', {"topk_bucket": "2048"}),
    ],
    ids=["named", "numbered", "without-tensors-and-devices"],
)
def test_the_facts_of_its_key_where_the_object_tells_nothing(facts: str, told: dict[str, str]) -> None:
    assert dict(constants("", f'{{"facts":[{facts}],"kernel":"k","version":5}}')) == told


def test_attributes_say_more_than_the_key() -> None:
    assert constants("'ranks': 4", '{"facts":[["ranks",1]]}') == (("ranks", "4"),)


@needs_logs
@pytest.mark.parametrize(
    ("name", "lines", "different"),
    [
        ("public/bld_ii-r2_ii-r2-exact-image-k5.txt", 40, 9),
        ("public/malaiwah_vast_vllm-current210-cap1024-mtp3-v3-server.txt", 20, 5),
        ("public/malaiwah_vast_vllm-current210-cap1024-mtp3-v4-matched-server.txt", 8, 2),
    ],
    ids=["numbered-facts", "attributes", "attributes-of-two"],
)
def test_real_lines_of_four_ranks_tell_the_same_kernel_apart_and_the_ranks_not(
    name: str, lines: int, different: int
) -> None:
    found = [e.values for e in events([log_bytes(name)]) if e.kind is Kind.KERNEL_COMPILE]
    told = [(v["target"], constants(str(v.get("attrs", "")), str(v.get("spec", "")))) for v in found]
    assert all(held for _, held in told)
    assert (len(told), len(set(told))) == (lines, different)
