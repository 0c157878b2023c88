import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.wire.binary_header import decode, encode
from cometmq.wire.codes import LANGUAGES, LanguageCode, RequestCode
from cometmq.wire.command import RESPONSE_FLAG, Command, SerializeType

# What RocketMQ's own library wrote.
NO_ROUTE = bytes.fromhex(
    "00110000000000000700000001000000086e6f20726f757465000000110005746f70696300000006546f70696341"
)


def test_reads_and_writes_a_header_as_java_does() -> None:
    command = decode(NO_ROUTE, b"body")
    assert command == Command(
        17,
        7,
        RESPONSE_FLAG,
        0,
        LanguageCode.JAVA,
        "no route",
        {"topic": "TopicA"},
        b"body",
        SerializeType.ROCKETMQ,
    )
    assert encode(command) == NO_ROUTE


def test_an_unknown_language_number_is_taken_as_some_other_one() -> None:
    header = bytearray(NO_ROUTE)
    header[2] = len(LANGUAGES)
    assert decode(bytes(header), b"").language is LanguageCode.OTHER


def test_an_empty_remark_is_none() -> None:
    assert decode(encode(Command(10, remark="")), b"").remark is None


@pytest.mark.parametrize("size", range(len(NO_ROUTE)))
def test_every_cut_is_noticed(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"binary header of {size} bytes"):
        decode(NO_ROUTE[:size], b"")


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (struct.pack(">i", -1), "text from 17 to 16"),
        (struct.pack(">i", 2**31 - 1), "text from 17 to 2147483664"),
        (struct.pack(">ii", 0, 9), "fields from 21 to 30"),
        (struct.pack(">ii", 0, -1), "fields from 21 to 20"),
        (struct.pack(">iih", 0, 2, -1), "text from 23 to 22"),
        (struct.pack(">iihbi", 0, 7, 1, 65, 1), "fields to 29 instead of 28"),
        (struct.pack(">i", 1) + b"\xff" + bytes(4), "utf-8"),
    ],
)
def test_a_length_that_leads_out_is_refused(tail: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode(bytes(13) + tail, b"")


@pytest.mark.parametrize(
    "command",
    [
        Command(RequestCode.POP_MESSAGE),
        Command(10, 2**31),
        Command(10, ext_fields={"x" * 40_000: ""}),
        Command(10, remark="\ud800"),
    ],
)
def test_what_does_not_fit_is_not_written(command: Command) -> None:
    with pytest.raises(ProtocolError, match="binary header cannot carry"):
        encode(command)


@given(st.binary(max_size=60))
def test_garbage_is_refused_and_nothing_worse(data: bytes) -> None:
    try:
        decode(data, b"")
    except ProtocolError:
        return
