"""What was learnt is found everywhere, however much it is and however a log tries to make that slow."""

from __future__ import annotations

import pytest

from harness.evidence.redaction.finding import found_in_bytes
from harness.evidence.redaction.kinds import Kind
from harness.evidence.redaction.learnt import MOST_FREE, Learnt


def values(learnt: Learnt, data: bytes) -> list[str]:
    return [one.value for one in learnt.places(data)]


def test_nothing_is_found_where_nothing_was_learnt() -> None:
    assert Learnt({}).places(b"anything") == []


def test_of_two_values_that_begin_alike_the_longer_one_is_found() -> None:
    learnt = Learnt({b"rigel-07": Kind.HOST, b"rigel-07.lab": Kind.HOST, b"rigel": Kind.HOST})
    assert values(learnt, b"rigel-07.lab, rigel-07, rigel; rigel-08") == ["rigel-07.lab", "rigel-07", "rigel", "rigel"]


@pytest.mark.parametrize("kind", [Kind.USER, Kind.HOST, Kind.SERIAL, Kind.EMAIL])
def test_a_name_stands_alone(kind: Kind) -> None:
    learnt = Learnt({b"hanna": kind})
    assert values(learnt, b"hanna (hanna) _hanna_ hannas ahanna hanna1") == ["hanna"] * 3


@pytest.mark.parametrize("kind", [Kind.TOKEN, Kind.SECRET, Kind.KEY])
def test_what_gives_access_is_found_inside_words_too(kind: Kind) -> None:
    assert values(Learnt({b"opensesame77": kind}), b"xopensesame77y") == ["opensesame77"]


def test_an_address_is_no_part_of_a_longer_one_and_no_version() -> None:
    learnt = Learnt({b"10.4.0.3": Kind.ADDRESS})
    assert values(learnt, b"10.4.0.3, 10.4.0.35 110.4.0.3 10.4.0.3.1 nccl==10.4.0.3 (10.4.0.3)") == ["10.4.0.3"] * 2


def test_thousands_of_values_are_found_each() -> None:
    many = {f"2.{n // 250}.{n % 250}.9".encode(): Kind.ADDRESS for n in range(3000)}
    many |= {f"tok_{n}_en".encode(): Kind.TOKEN for n in range(2 * MOST_FREE)}
    data = b" ".join(many)
    assert sorted(values(Learnt(many), data)) == sorted(v.decode() for v in many)


@pytest.mark.parametrize(
    "unit",
    [
        *(b"_TOKEN", b"SECRET_", b"_KEY", b"A", b"a.", b"a1-.", b"a@", b"://a:", b"\\", b"eyJaaaaaaaa.", b"serial:"),
        *(b"/home/", b"fe80:", b"Bearer ", b"-----BEGIN PRIVATE KEY-----", b"1.", b"GPU-", b"x:1:1 "),
    ],
)
def test_a_hostile_line_ends(unit: bytes) -> None:
    found_in_bytes(unit * (200_000 // len(unit)) + b" NCCL @ PRIVATE KEY")  # hours, if any rule were quadratic
