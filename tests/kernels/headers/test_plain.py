"""Which frames the plain leaf operations read; the tests of each hold the compiled ones to it."""

import json
from struct import pack

import pytest
from tests.kernels.frames import framed

from cometmq.kernels.headers.plain import HeaderStarts, RequestFrames, read_frames
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, SerializeType, encode
from cometmq.wire.headers import ViewMessageHeader

CODE = RequestCode.VIEW_MESSAGE_BY_ID
POP = RequestCode.POP_MESSAGE  # too large for a ROCKETMQ header
FRAMES = RequestFrames({CODE: ViewMessageHeader})


def by_id(offset: object = 7, **changes: object) -> bytes:
    header = {"code": int(CODE), "extFields": {"offset": str(offset)}, "flag": 0, "opaque": 1} | changes
    return framed(json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode())


def read(data: bytes, room: int = 9) -> tuple[list[int], int, int]:
    """Read frames; gives the offsets that they ask for."""

    def read_one(data: bytes, position: int, end: int) -> int | None:
        found = FRAMES.request(data, position, end)
        if found is None:
            return None
        assert isinstance(found[1], ViewMessageHeader)
        return found[1].physical_offset

    return read_frames(data, 0, len(data), room, read_one)


@pytest.mark.parametrize("kind", SerializeType)
def test_a_request_is_decoded_with_its_header(kind: SerializeType) -> None:
    data = encode(Command(CODE, 5, ext_fields={"offset": "9"}, serialize_type=kind))
    found = FRAMES.request(b"before" + data, 6, 6 + len(data))
    assert found is not None
    command, header = found
    assert (command.code, command.opaque, header) == (CODE, 5, ViewMessageHeader(9))


def test_headers_begin_with_their_codes_if_those_fit() -> None:
    starts = HeaderStarts(CODE, POP)
    assert (starts.json, starts.binary) == ((b'{"code":33,', b'{"code":200050,'), (b"\0!",))


@pytest.mark.parametrize(
    "data",
    [
        framed(b'{"code":33 ,"extFields":{"offset":"7"}}'),
        framed(b'{"code": 33, "extFields": {"offset": "7"}}'),
        framed(b'{ "code" : 33, "extFields" : { "offset" : "7" } }'),
        framed(b'{"extFields":{"offset":"7","code":"12"},"code":33}'),
        by_id(7, remark=None),
    ],
)
def test_a_header_may_be_written_in_many_ways(data: bytes) -> None:
    assert read(data) == ([7], len(data), len(data))


@pytest.mark.parametrize(
    "data",
    [
        by_id("x"),
        by_id(extFields={}),
        by_id(flag=1),
        by_id(remark="text"),
        by_id(code=330),
        by_id(code=12),
        by_id(language="gr\u00fcn"),
        by_id(language='"'),
        framed(b'{"code":33.5,"extFields":{"offset":"7"}}'),
        framed(b'{"extFields":{"offset":"7","code":"33"},"code":12}'),
        framed(b"no JSON"),
        encode(Command(CODE, ext_fields={"offset": "7"}, body=b"body")),
        encode(Command(330, ext_fields={"offset": "7"}, serialize_type=SerializeType.ROCKETMQ)),
    ],
)
def test_other_requests_and_unusual_ones_are_left(data: bytes) -> None:
    one, end = by_id(), len(by_id())
    assert read(data) == ([], 0, len(data))
    assert read(one + data + data + one) == ([7], end, end + 2 * len(data))


@pytest.mark.parametrize(
    "data", [pack(">iI", 3, 0) + b"   ", pack(">iI", 4, 1 << 25), b"short", by_id()[:-1]]
)
def test_what_is_no_whole_frame_is_left_with_all_that_follows(data: bytes) -> None:
    one = by_id()
    assert read(one + data) == ([7], len(one), len(one + data))


def test_no_more_are_read_than_there_is_room_for() -> None:
    one = by_id()
    assert read(3 * one, room=2) == ([7, 7], 2 * len(one), 2 * len(one))
    assert read(3 * one, room=0) == ([], 0, 0)
