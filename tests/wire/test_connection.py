import itertools
import struct
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.wire import connection
from cometmq.wire.connection import JOIN_MAX, FrameReader, NotAFrame
from cometmq.wire.frame import FRAME_LENGTH_MAX, PREFIX_SIZE, Command, SerializeType, encode

commands = st.lists(
    st.builds(
        Command,
        code=st.integers(0, 400),
        opaque=st.integers(0, 1000),
        body=st.binary(max_size=40),
        serialize_type=st.sampled_from(SerializeType),
    ),
    max_size=6,
)


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def test_one_read_may_hold_many_frames() -> None:
    sent = [Command(10, number, body=b"x" * number) for number in range(100)]
    reader = FrameReader()
    assert reader.receive_data(b"".join(map(encode, sent))) == sent
    assert reader.eof()


@pytest.mark.parametrize("size", range(1, 12))
def test_a_frame_may_be_cut_anywhere(size: int) -> None:
    sent = [
        Command(310, 1, ext_fields={"b": "T"}, body=b"one"),
        Command(11, 2),
        Command(12, 3, body=b"three"),
    ]
    reader = FrameReader()
    reads = pieces(b"".join(map(encode, sent)), size)
    assert [command for read in reads for command in reader.receive_data(read)] == sent
    assert reader.eof() and reader.unfinished_size == 0


@given(commands, st.lists(st.integers(0, 300)))
def test_how_a_stream_is_cut_makes_no_difference(sent: list[Command], cuts: list[int]) -> None:
    stream = b"".join(map(encode, sent))
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = FrameReader()
    received: list[Command] = []
    for begin, end in itertools.pairwise(borders):
        received += reader.receive_data(stream[begin:end])
    assert received == sent
    assert reader.eof()


def test_the_end_of_a_stream_may_cut_a_frame() -> None:
    reader = FrameReader()
    frame = encode(Command(10, body=b"body"))
    assert reader.eof()
    reader.receive_data(frame + frame[:-1])
    assert not reader.eof()
    assert reader.unfinished_size == len(frame) - 1


def test_the_largest_body_arrives_in_small_pieces_without_being_copied_for_each() -> None:
    empty = len(encode(Command(10)))
    frame = encode(Command(10, body=bytes(FRAME_LENGTH_MAX + 4 - empty)))
    reader = FrameReader()
    reader.receive_data(frame[:100])
    held = reader.unfinished
    for piece in pieces(frame[100:-1], 4096):
        assert reader.receive_data(piece) == []
        assert reader.unfinished is held  # it grows in place
    (command,) = reader.receive_data(frame[-1:] + frame[:3])
    assert len(command.body) == FRAME_LENGTH_MAX + 4 - empty
    assert type(command.body) is bytes
    assert reader.unfinished_size == 3


@given(commands, st.lists(st.integers(0, 300)), st.integers(PREFIX_SIZE, 60))
def test_a_read_can_be_joined_to_what_is_unfinished(sent: list[Command], cuts: list[int], most: int) -> None:
    stream = b"".join(map(encode, sent))
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = FrameReader()
    received: list[Command] = []
    with patch.object(connection, "JOIN_MAX", most):
        for begin, end in itertools.pairwise(borders):
            data = reader.joined(stream[begin:end])
            assert not (data and reader.unfinished_size)
            received += reader.receive_data(data)
    assert received == sent
    assert reader.eof()


def test_a_long_frame_is_given_when_all_of_it_is_there() -> None:
    frame = encode(Command(10, body=bytes(3 * JOIN_MAX)))
    reader = FrameReader()
    assert reader.joined(frame[:100]) == frame[:100]
    reader.receive_data(frame[:100])
    assert reader.joined(frame[100 : 2 * JOIN_MAX]) == frame[: 2 * JOIN_MAX]
    reader.receive_data(frame[: 2 * JOIN_MAX])
    held = reader.unfinished
    assert reader.joined(frame[2 * JOIN_MAX : -1]) == b"" and reader.unfinished is held
    assert reader.joined(frame[-1:] + b"\0\0") == frame + b"\0\0" and reader.eof()


@pytest.mark.parametrize("length", [-1, 3, FRAME_LENGTH_MAX + 1, 0x16030100])
@pytest.mark.parametrize("size", [1, 3, 4])
def test_a_bad_length_is_refused_when_its_four_bytes_are_there(length: int, size: int) -> None:
    reader = FrameReader()
    *first, last = pieces(struct.pack(">i", length), size)
    for piece in first:
        assert reader.receive_data(piece) == []
    with pytest.raises(ProtocolError, match=f"frame length {length} "):
        reader.receive_data(last)


@pytest.mark.parametrize(
    ("word", "reason"),
    [(2 << 24, "serialize type 2"), (1000, "header of 1000 bytes in a frame of length 500")],
)
@pytest.mark.parametrize("size", [1, 4, 7, 8])
def test_a_bad_header_word_is_refused_before_the_body_comes(word: int, reason: str, size: int) -> None:
    reader = FrameReader()
    *first, last = pieces(struct.pack(">iI", 500, word), size)
    for piece in first:
        assert reader.receive_data(piece) == []
    with pytest.raises(ProtocolError, match=reason):
        reader.receive_data(last)


def test_a_frame_without_header_or_body_is_as_short_as_a_frame_can_be() -> None:
    with pytest.raises(ProtocolError, match="JSON header of 0 bytes"):
        FrameReader().receive_data(struct.pack(">iI", 4, 0))
    assert PREFIX_SIZE == 8


@pytest.mark.parametrize("held", [0, 3, 20])
def test_what_comes_before_bytes_that_are_no_frame_is_told(held: int) -> None:
    sent = [Command(1, opaque=number, body=b"x") for number in range(3)]
    data, reader = b"".join(map(encode, sent)), FrameReader()
    assert reader.receive_data(data[:held]) == []
    with pytest.raises(NotAFrame) as caught:
        reader.receive_data(data[held:] + b"GET / HTTP/1.1")
    assert caught.value.commands == sent


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_garbage_is_refused_and_nothing_worse(data: list[bytes]) -> None:
    reader = FrameReader()
    try:
        for piece in data:
            reader.receive_data(piece)
    except ProtocolError:
        pass
