from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.replication.controller.frames import (
    DATA_SIZE_MAX,
    EPOCHS_MAX,
    MasterData,
    MasterFrames,
    MasterHandshake,
    SlaveFrames,
    SlaveHandshake,
    SlaveReport,
)
from cometmq.replication.epochs import EpochEntry, EpochList

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
SLAVE_FRAMES = st.one_of(
    st.builds(SlaveHandshake, LONG, st.booleans(), st.booleans()), st.builds(SlaveReport, LONG)
)
EPOCHS = st.dictionaries(st.integers(0, 100), st.integers(0, 2**40), max_size=5).map(
    lambda found: EpochList.of(*zip(sorted(found), sorted(found.values()), strict=True))
)
MASTER_FRAMES = st.one_of(
    st.builds(MasterHandshake, LONG, EPOCHS),
    st.builds(MasterData, LONG, st.builds(EpochEntry, INT, LONG), LONG, st.binary(max_size=40)),
)


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Cut bytes at positions, which may be beyond them."""
    bounds = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[begin:end] for begin, end in pairwise(bounds)]


@given(st.lists(SLAVE_FRAMES, max_size=6), st.lists(st.integers(0, 200), max_size=8))
def test_a_slaves_frames_come_whole_from_any_pieces(
    frames: list[SlaveHandshake | SlaveReport], cuts: list[int]
) -> None:
    stream = b"".join(frame.encode() for frame in frames)
    decoder = SlaveFrames()
    assert [frame for piece in pieces(stream, cuts) for frame in decoder.receive(piece)] == frames


@given(st.lists(MASTER_FRAMES, max_size=6), st.lists(st.integers(0, 600), max_size=8))
def test_a_masters_frames_come_whole_from_any_pieces(
    frames: list[MasterHandshake | MasterData], cuts: list[int]
) -> None:
    stream = b"".join(frame.encode() for frame in frames)
    decoder = MasterFrames()
    assert [frame for piece in pieces(stream, cuts) for frame in decoder.receive(piece)] == frames


def test_the_frames_are_those_that_rocketmq_was_seen_to_send() -> None:
    handshake = bytes.fromhex("00000001 0000000c 00000000000002ca 00000001 00000001 0000000000000000")
    data = bytes.fromhex(
        "00000002 000002ca 0000000000000000 00000001 0000000000000000 00000000000002ca"
    ) + bytes(714)
    first = MasterHandshake(714, EpochList.of((1, 0)))
    second = MasterData(0, EpochEntry(1, 0), 714, bytes(714))
    assert (first.encode(), second.encode()) == (handshake, data)
    assert list(MasterFrames().receive(handshake + data)) == [first, second]


def test_a_slaves_frames_have_the_fields_at_their_places() -> None:
    assert SlaveHandshake(7, True, False).encode() == bytes.fromhex("00000001 0001 0000 0000000000000007")
    assert SlaveHandshake(9, False, True).encode() == bytes.fromhex("00000001 0000 0001 0000000000000009")
    assert SlaveReport(714).encode() == bytes.fromhex("00000002 00000000000002ca")


def test_a_heartbeat_has_no_data_and_an_empty_masters_handshake_no_epochs() -> None:
    heartbeat = MasterData(-1, EpochEntry(-1, 0), 0)
    assert len(heartbeat.encode()) == 36
    assert MasterHandshake(0, EpochList()).encode() == bytes.fromhex(
        "00000001 00000000 0000000000000000 ffffffff"
    )


def test_of_very_many_epochs_the_latest_are_sent() -> None:
    epochs = EpochList.of(*((n, n) for n in range(EPOCHS_MAX + 5)))
    (found,) = MasterFrames().receive(MasterHandshake(2_000, epochs).encode())
    assert isinstance(found, MasterHandshake) and found.epochs.entries == epochs.entries[5:]


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ("00000001 0000000d", "13 bytes of epochs, expected 0 to 1000 times 12"),
        ("00000001 00002eec", "12012 bytes of epochs"),
        ("00000001 fffffff4", "-12 bytes of epochs"),
        ("00000002 ffffffff", "-1 bytes of data"),
        ("00000002 00400000", f"4194304 bytes of data in a frame, expected 0 to {DATA_SIZE_MAX}"),
        ("00000003 00000000", "state 3, expected 1 or 2"),
    ],
)
def test_a_master_that_sends_what_no_frame_has_is_an_error_at_once(header: str, what: str) -> None:
    with pytest.raises(ProtocolError, match=what):
        list(MasterFrames().receive(bytes.fromhex(header) + bytes(12)))


def test_epochs_out_of_order_are_an_error() -> None:
    frame = bytes.fromhex("00000001 00000018 0000000000000000 00000001 00000002") + bytes(8)
    with pytest.raises(ProtocolError, match="master: epoch 1: must be a number from 3"):
        list(MasterFrames().receive(frame + bytes.fromhex("00000001") + bytes(8)))


def test_a_slave_of_another_state_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="state 4, expected 1 or 2"):
        list(SlaveFrames().receive(bytes.fromhex("00000004")))
