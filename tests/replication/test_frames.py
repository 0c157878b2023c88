"""The frames of classic replication: what is written is read back, however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.replication.frames import (
    LogFrame,
    LogFrameReader,
    ReportReader,
    encode_frames,
    encode_heartbeat,
    encode_report,
)

OFFSETS = st.integers(0, 2**63 - 1 - 4096)
CUTS = st.lists(st.integers(1, 40), min_size=1)


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut bytes into pieces of these sizes, in turn."""
    found, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        found.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return found


def test_a_frame_is_offset_size_and_data() -> None:
    frames = b"".join(encode_frames(0x0102, b"abc", 2))
    assert frames.hex() == "000000000000010200000002" + b"ab".hex() + "000000000000010400000001" + b"c".hex()
    assert encode_heartbeat(5).hex() == "0000000000000005" + "00000000"
    assert encode_report(5).hex() == "0000000000000005"


@given(OFFSETS, st.binary(min_size=1, max_size=500), st.integers(1, 200), CUTS)
def test_frames_are_read_back_however_they_are_cut(
    offset: int, data: bytes, batch: int, cuts: list[int]
) -> None:
    reader = LogFrameReader(1000)
    stream = b"".join(encode_frames(offset, data, batch)) + encode_heartbeat(offset + len(data))
    found = [frame for piece in pieces(stream, cuts) for frame in reader.receive(piece)]
    assert found.pop() == LogFrame(offset + len(data))
    assert b"".join(frame.data for frame in found) == data
    assert [frame.offset for frame in found] == [
        offset + sum(len(before.data) for before in found[:number]) for number in range(len(found))
    ]


@given(st.lists(OFFSETS, min_size=1, max_size=20), CUTS)
def test_of_several_reports_the_last_complete_one_counts(offsets: list[int], cuts: list[int]) -> None:
    reader = ReportReader()
    stream = b"".join(map(encode_report, offsets))
    found = [end for piece in pieces(stream, cuts) if (end := reader.receive(piece)) is not None]
    assert found[-1] == offsets[-1]
    assert set(found) <= set(offsets)
    assert ReportReader().receive(stream) == offsets[-1]
    assert ReportReader().receive(stream[:7]) is None


@pytest.mark.parametrize("size", [-1, 1001])
def test_a_size_that_cannot_be_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"a frame of {size} bytes at offset 7: 0 to 1000 are possible"):
        LogFrameReader(1000).receive((7).to_bytes(8, "big") + size.to_bytes(4, "big", signed=True))
