import contextlib
import random
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.wire.codes import RequestCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import (
    FRAME_LENGTH_MAX,
    HEADER_LENGTH_MAX,
    RESPONSE_HEADER_LENGTH_MAX,
    Command,
    SerializeType,
    decode,
    encode,
    response,
)

# What RocketMQ's own library wrote.
JSON_FRAME = bytes.fromhex("0000008800000080") + (
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"language":"JAVA","opaque":0,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}body'
)
BINARY_FRAME = bytes.fromhex(
    "000000320100002e00110000000000000700000001000000086e6f20726f757465000000110005746f70696300000006546f70696341"
)


def framed(header: bytes, body: bytes = b"", serialize_type: int = 0) -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), serialize_type << 24 | len(header)) + header + body


@pytest.mark.parametrize("frame", [JSON_FRAME, BINARY_FRAME])
def test_reads_and_writes_a_frame_as_java_does(frame: bytes) -> None:
    assert encode(decode(frame)) == frame
    assert decode(memoryview(frame)) == decode(bytearray(frame)) == decode(frame)


@given(st.from_type(Command))
def test_a_command_comes_back_as_it_went(command: Command) -> None:
    assert decode(encode(command)) == command


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "frame of 0 bytes, expected at least 8"),
        (struct.pack(">iI", -1, 0), "frame length -1 is outside 4 to 16777216"),
        (struct.pack(">iI", 3, 0), "frame length 3 is outside"),
        (struct.pack(">iI", FRAME_LENGTH_MAX + 1, 0), "frame length 16777217 is outside"),
        (struct.pack(">iI", 10, 0), "frame of 8 bytes, its LENGTH says 14"),
        (framed(b"", b"", 2), "serialize type 2 is neither 0"),
        (struct.pack(">iI", 4, 1), "header of 1 bytes in a frame of length 4, at most 0 are possible"),
        (struct.pack(">iI", 4, 0xFFFFFF), "header of 16777215 bytes in a frame"),
        (struct.pack(">iI", FRAME_LENGTH_MAX, HEADER_LENGTH_MAX + 1), "header of 524289 .* at most 524288"),
        (framed(b"[]"), "JSON header of 2 bytes"),
        (framed(b"[]", b"", 1), "binary header of 2 bytes"),
    ],
)
def test_what_is_no_frame_is_refused_with_its_numbers(frame: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode(frame)


@settings(max_examples=500)
@given(st.binary(max_size=200), st.integers(0, 3), st.integers(0, 250))
@example(b'{"code":1,"extFields":{"a":1e999}}', 0, 34)
@example(b'{"code":1,"extFields":{"a":' + b"1" * 5000 + b"}}", 0, 5029)
@example(b'{"code":1,"remark":"\\ud800"}', 0, 28)
def test_garbage_is_refused_and_nothing_worse(data: bytes, serialize_type: int, header_length: int) -> None:
    with contextlib.suppress(ProtocolError):
        decode(struct.pack(">iI", 4 + len(data), serialize_type << 24 | header_length) + data)


def test_a_damaged_frame_is_read_or_refused_and_nothing_worse() -> None:
    seed = 20_240_117
    damage = random.Random(seed)
    whole = [
        JSON_FRAME,
        framed(b'{"code":310,"extFields":{"a":1,"b":[true,null,"\\u00e9"],"c":"\xc3\xa9"},"x":{"y":-1.5e3}}'),
        BINARY_FRAME,
    ]
    for _ in range(10_000):
        frame = bytearray(damage.choice(whole))
        for _ in range(damage.randint(1, 4)):
            match damage.randrange(3):
                case 0:
                    frame[damage.randrange(len(frame))] = damage.randrange(256)
                case 1:
                    del frame[damage.randrange(8, len(frame)) :]
                    frame += b"\0" * max(0, 9 - len(frame))
                case _:
                    frame[damage.randrange(8, len(frame))] = damage.choice(b'{}[]":,\\0-')
        if damage.random() < 0.8:  # else the damaged LENGTH hides the rest
            frame[:4] = struct.pack(">i", len(frame) - 4)
        with contextlib.suppress(ProtocolError):
            str(decode(frame))


@pytest.mark.parametrize(
    "command",
    [
        Command(200_050, serialize_type=SerializeType.ROCKETMQ),
        Command(10, remark="\ud800"),
        Command(10, body=bytes(FRAME_LENGTH_MAX)),
        Command(10, remark="x" * HEADER_LENGTH_MAX),
    ],
    ids=lambda command: str(command)[:40],
)
def test_what_a_frame_cannot_carry_is_not_written(command: Command) -> None:
    with pytest.raises(ProtocolError):
        encode(command)


def test_a_response_may_have_a_longer_header_than_a_request() -> None:
    named = response(Command(320, 7), 0, ext_fields={"msgId": "x" * HEADER_LENGTH_MAX})
    frame = encode(named)
    assert FrameReader(RESPONSE_HEADER_LENGTH_MAX).receive_data(frame) == [named]
    with pytest.raises(ProtocolError, match="at most 524288 are possible"):
        FrameReader().receive_data(frame)


def test_properties_as_long_as_can_be_fit_a_header_however_json_escapes_them() -> None:
    command = Command(10, ext_fields={"i": "\x01" * 32_767})
    assert decode(encode(command)) == command


def test_json_carries_codes_that_binary_headers_cannot() -> None:
    assert decode(encode(Command(RequestCode.POP_MESSAGE))).code == 200_050
