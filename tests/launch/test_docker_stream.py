"""The engine's framing is taken off whatever pieces it arrives in."""

from __future__ import annotations

import socket
import struct
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.launch.docker.engine import Attached
from harness.launch.docker.stream import ContainerOutput


def frame(stream: int, payload: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(payload)) + payload


def read_all(pieces: list[bytes]) -> tuple[bytes, str | None]:
    """What comes out of pieces that arrive one by one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # a packet comes as it was sent
    with ours, theirs:
        output = ContainerOutput(Attached(ours, ours.close))
        got = b""
        for piece in pieces:
            theirs.sendall(piece)
        theirs.shutdown(socket.SHUT_WR)
        while data := output.read():
            got += data
        return got, output.fault


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_the_payload_is_all_that_is_left(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    raw = b"".join(frame(*f) for f in frames)
    places = sorted({0, len(raw), *(min(c, len(raw)) for c in cuts)})
    pieces = [raw[a:b] for a, b in pairwise(places)]
    assert read_all(pieces) == (b"".join(payload for _, payload in frames), None)


def test_an_end_inside_a_frame_is_a_fault_and_loses_nothing() -> None:
    whole = frame(1, b"first line\n")
    assert read_all([whole + frame(1, b"second line\n")[:-5]]) == (
        b"first line\nsecond ",
        "the container's output ended inside a frame",
    )
    assert read_all([whole + b"\x01\0\0"])[1] is not None


def test_a_broken_connection_is_a_fault() -> None:
    ours, theirs = socket.socketpair()
    output = ContainerOutput(Attached(ours, ours.close))
    theirs.close()
    ours.close()
    assert output.read() == b""
    assert output.fault is not None
    assert "broke" in output.fault
