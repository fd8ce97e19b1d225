"""A whole bundle: what is learnt in one place goes everywhere, and nothing moves."""

from __future__ import annotations

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.evidence.redaction.here import known_here
from harness.evidence.redaction.kinds import Kind
from harness.evidence.redaction.placeholders import placeholder
from harness.evidence.redaction.redactor import Redactor, pieces
from tests.evidence.redaction.planted import KEY_LINES, PRIVATE_KEY, SHOWN

ONE, OTHER = "GPU-95391e6d-190d-66e6-ede2-bcb386840309", "GPU-15391e6d-190d-66e6-ede2-bcb386840309"


def redacted(*texts: str, words: tuple[str, ...] = (), known: tuple[tuple[Kind, str], ...] = ()) -> list[str]:
    """Texts of one bundle after all of them were read."""
    redactor = Redactor(words, known)
    for text in texts:
        redactor.learn(text.encode())
    redactor.number()
    return [redactor.redacted(text.encode()).decode() for text in texts]


# --- placeholders ------------------------------------------------------------------------------------


@given(
    st.sampled_from(list(Kind)),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    st.integers(1, 10_000),
)
def test_a_placeholder_has_as_many_bytes_and_characters(kind: Kind, value: str, number: int) -> None:
    shown = placeholder(kind, value, number)
    assert (len(shown), len(shown.encode())) == (len(value), len(value.encode()))


def test_placeholders_say_what_was_there_and_are_told_apart() -> None:
    assert placeholder(Kind.USER, "alice", 1) == "user1"
    assert placeholder(Kind.ADDRESS, "192.168.77.12", 12) == "address000012"
    assert placeholder(Kind.USER, "bob", 7) == "us7"
    assert placeholder(Kind.UUID, ONE, 3) == "GPU-00000003-0000-0000-0000-000000000000"
    assert placeholder(Kind.SERIAL, "1654922000123", 1) == "9999999999991"


def test_gpus_stay_apart_and_in_their_order() -> None:
    [text] = redacted(f"{ONE} {OTHER} {ONE}")
    first, second, third = text.split()
    assert first == third != second
    assert (first < second) == (ONE < OTHER)


def test_json_stays_json_whatever_went() -> None:
    tree = {"env": {"API_KEY": "f00dfacef00d"}, "serial": 1654922000123, "home": "/home/jörg/x", "n": 1}
    [text] = redacted(json.dumps(tree, ensure_ascii=False))
    found = json.loads(text)
    assert found.keys() == tree.keys()
    assert found["n"] == 1
    assert isinstance(found["serial"], int)
    assert "f00dface" not in text
    assert "jörg" not in text


def test_a_private_key_keeps_its_lines() -> None:
    [text] = redacted(json.dumps({"key": PRIVATE_KEY, "next": 1}))
    assert json.loads(text)["next"] == 1
    assert json.loads(text)["key"].count("\n") == PRIVATE_KEY.count("\n")
    assert not any(line in text for line in KEY_LINES)


def test_a_line_of_a_private_key_goes_where_it_stands_alone_too() -> None:
    _, text = redacted(PRIVATE_KEY, f"... {KEY_LINES[1]}")
    assert re.fullmatch(r"\.\.\. x+", text)


# --- learning ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gives_away", "elsewhere"),
    [
        ("/home/hannelore/x", "job of hannelore started"),
        ("rigel-07:412:987 [0] NCCL INFO x", "lost rigel-07 again"),
        ("tcp://203.0.113.77:29500", "203.0.113.77 did not answer"),
        ("HF_TOKEN=opensesame77", "got opensesame77 from the file"),
        ('"--api-key",\n  "sesame-open"', "x-key sesame-open"),
    ],
)
def test_what_is_known_from_one_place_goes_everywhere(gives_away: str, elsewhere: str) -> None:
    _, text = redacted(gives_away, elsewhere)
    assert text != elsewhere
    assert redacted(elsewhere) == [elsewhere]  # no rule of its own finds it


def test_a_name_goes_only_where_it_stands_alone() -> None:
    _, text = redacted("/home/hanna/x", "hanna johanna hanna2")
    assert re.fullmatch(r"user1 johanna hanna2", text)


def test_a_short_name_goes_only_where_it_is_one() -> None:
    assert redacted("/home/max/x", "max 3, max_tokens") == ["/home/us1/x", "max 3, max_tokens"]


def test_an_address_that_is_also_a_version_stays_one() -> None:
    _, text = redacted("tcp://10.4.0.35:1", '"nvidia-curand": "10.4.0.35", at 10.4.0.35')
    assert text == '"nvidia-curand": "10.4.0.35", at address01'


def test_the_names_of_this_machine_are_known_without_a_rule() -> None:
    assert redacted("ran on rigel-77", known=((Kind.HOST, "rigel-77"),)) == ["ran on host0001"]


@pytest.mark.parametrize(
    ("host", "account", "known"),
    [
        ("rigel-77.lab.example", "hannelore", ["rigel-77.lab.example", "rigel-77", "hannelore"]),
        ("localhost", "root", []),
        ("gpu", "jo", []),
    ],
)
def test_what_this_machine_is_called_is_known_unless_every_machine_is(
    monkeypatch: pytest.MonkeyPatch, host: str, account: str, known: list[str]
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    monkeypatch.setattr("getpass.getuser", lambda: account)
    assert [value for _, value in known_here()] == known


def test_an_account_without_a_name_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise OSError("no such account")

    monkeypatch.setattr("socket.gethostname", lambda: "localhost")
    monkeypatch.setattr("getpass.getuser", nameless)
    assert known_here() == []


def test_words_of_the_user_go_whatever_their_case() -> None:
    [text] = redacted("Project Falcon: FALCON-7b, falconry", words=("falcon",))
    assert "falcon" not in text.lower()
    assert len(text) == len("Project Falcon: FALCON-7b, falconry")


@pytest.mark.parametrize("word", ["", "a", "ab"])
def test_a_word_that_is_half_of_everything_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="at least 3"):
        Redactor((word,))


@pytest.mark.parametrize("name", SHOWN)
def test_nothing_is_left_and_nothing_moved(name: str) -> None:
    _, text, private = SHOWN[name]
    [shown] = redacted(f"before\n{text}\nbehind")
    assert private not in shown
    assert len(shown.encode()) == len(f"before\n{text}\nbehind".encode())
    assert [len(line) for line in shown.split("\n")] == [len(line) for line in f"before\n{text}\nbehind".split("\n")]


def test_what_no_rule_knows_stays_and_is_not_counted() -> None:
    redactor = Redactor()
    redactor.learn(b"the codeword is Rosebud")
    redactor.number()
    assert redactor.redacted(b"the codeword is Rosebud") == b"the codeword is Rosebud"
    assert redactor.distinct() == {}


# --- files larger than memory should hold --------------------------------------------------------------


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_pieces_are_the_file_and_end_with_lines(parts: list[bytes]) -> None:
    data = b"\n".join(parts)
    found = list(pieces(io.BytesIO(data)))
    assert b"".join(found) == data
    assert all(piece.endswith(b"\n") for piece in found[:-1])


def test_a_key_that_lies_across_a_piece_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.evidence.redaction.redactor.PIECE_BYTES", 64)
    data = f"{'x' * 50}\n{PRIVATE_KEY}\n{'y' * 200}\nz".encode()
    found = list(pieces(io.BytesIO(data)))
    assert b"".join(found) == data
    assert any(PRIVATE_KEY.encode() in piece for piece in found)
