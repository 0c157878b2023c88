import contextlib
import json
import random
import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.wire.codes import LANGUAGES, VERSION, LanguageCode, RequestCode, ResponseCode
from cometmq.wire.frame import (
    FRAME_LENGTH_MAX,
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    Command,
    SerializeType,
    decode,
    encode,
    response,
)

# What RocketMQ's own name server, client and library wrote.
ROUTE_REQUEST = (
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"language":"JAVA","opaque":0,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)
NO_ROUTE = (
    b'{"code":17,"flag":1,"language":"JAVA","opaque":0,"remark":"no route",'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)
BINARY_NO_ROUTE = bytes.fromhex(
    "000000320100002e00110000000000000700000001000000086e6f20726f757465000000110005746f70696300000006546f70696341"
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ints = st.integers(-(2**31), 2**31 - 1)
commands = st.builds(
    Command,
    code=st.integers(-(2**15), 2**15 - 1),
    opaque=ints,
    flag=ints,
    version=st.integers(-(2**15), 2**15 - 1),
    language=st.sampled_from(LanguageCode),
    remark=st.none() | texts.filter(bool),
    ext_fields=st.dictionaries(texts, texts, max_size=6),
    body=st.binary(max_size=50),
    serialize_type=st.sampled_from(SerializeType),
)


def framed(header: bytes, body: bytes = b"", serialize_type: int = 0) -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), serialize_type << 24 | len(header)) + header + body


def from_json(**header: Any) -> Command:
    return decode(framed(json.dumps({"code": 310} | header).encode()))


def test_reads_and_writes_a_request_as_a_java_client_does() -> None:
    command = decode(framed(ROUTE_REQUEST))
    assert command == Command(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, language=LanguageCode.JAVA, ext_fields={"topic": "TopicA"}
    )
    assert not command.is_response and not command.is_oneway
    assert encode(command) == framed(ROUTE_REQUEST)


def test_reads_and_writes_a_response_as_a_java_server_does() -> None:
    command = decode(framed(NO_ROUTE))
    assert command.code == ResponseCode.TOPIC_NOT_EXIST and command.remark == "no route"
    assert command.is_response and command.ext_fields == {}
    assert encode(command) == framed(NO_ROUTE)


def test_reads_and_writes_a_binary_header_as_java_does() -> None:
    command = decode(BINARY_NO_ROUTE)
    assert command == Command(
        17,
        7,
        RESPONSE_FLAG,
        0,
        LanguageCode.JAVA,
        "no route",
        {"topic": "TopicA"},
        b"",
        SerializeType.ROCKETMQ,
    )
    assert encode(command) == BINARY_NO_ROUTE


@given(commands)
def test_a_command_comes_back_as_it_went(command: Command) -> None:
    assert decode(encode(command)) == command


def test_a_zero_is_written_because_java_would_make_up_an_opaque_number() -> None:
    assert b'"opaque":0' in encode(Command(10))


def test_field_values_that_are_not_strings_become_strings() -> None:
    command = from_json(
        extFields={"e": 3, "k": True, "m": False, "x": None, "f": 1.5, "g": 1795242489764, "b": "T"}
    )
    assert command.ext_fields == {
        "e": "3",
        "k": "true",
        "m": "false",
        "f": "1.5",
        "g": "1795242489764",
        "b": "T",
    }


def test_a_header_ends_in_a_line_feed_and_has_an_empty_remark_when_the_client_is_cpp() -> None:
    header = (
        b'{"code":310,"extFields":{"AccessKey":"","Signature":"","OnsChannel":"","d":4,"e":3},'
        b'"flag":0,"language":"CPP","opaque":5,"remark":"","version":333}\n'
    )
    command = decode(framed(header, b"body"))
    assert (command.language, command.opaque, command.remark) == (LanguageCode.CPP, 5, "")
    assert command.ext_fields["e"] == "3" and command.body == b"body"


def test_header_numbers_may_stand_in_quotes() -> None:
    command = from_json(
        code="310", opaque="9", flag="2", version="121", language="JAVA", extFields={"b": "T"}
    )
    assert (command.code, command.opaque, command.flag, command.version) == (310, 9, 2, 121)
    assert command.is_oneway


@pytest.mark.parametrize("language", ["COBOL", 99, None, ""])
def test_an_unknown_language_is_taken_as_some_other_one(language: object) -> None:
    assert from_json(language=language).language is LanguageCode.OTHER


def test_an_unknown_language_number_is_taken_as_some_other_one() -> None:
    frame = bytearray(BINARY_NO_ROUTE)
    frame[10] = len(LANGUAGES)
    assert decode(frame).language is LanguageCode.OTHER


def test_unknown_members_are_ignored() -> None:
    assert from_json(extra={"a": [1]}, body="!").body == b""


def test_absent_and_null_members_are_empty() -> None:
    assert from_json() == from_json(extFields=None, remark=None, flag=None, version=None, opaque=None)


@pytest.mark.parametrize("serialize_type", SerializeType)
def test_a_response_has_the_opaque_number_and_the_header_type_of_its_request(
    serialize_type: SerializeType,
) -> None:
    request = Command(10, 17, serialize_type=serialize_type)
    assert response(request, ResponseCode.SYSTEM_ERROR, "why", {"a": "b"}, b"x") == Command(
        1, 17, RESPONSE_FLAG, VERSION, LanguageCode.PYTHON, "why", {"a": "b"}, b"x", serialize_type
    )


def test_responses_do_not_share_their_fields() -> None:
    first, second = response(Command(10)), response(Command(10))
    first.ext_fields["a"] = "b"
    assert second.ext_fields == {} and Command(10).ext_fields == {}


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "frame of 0 bytes, expected at least 8"),
        (struct.pack(">iI", -1, 0), "frame length -1 is outside 4 to 16777216"),
        (struct.pack(">iI", 3, 0), "frame length 3 is outside"),
        (struct.pack(">iI", FRAME_LENGTH_MAX + 1, 0), "frame length 16777217 is outside"),
        (struct.pack(">iI", 10, 0), "frame of 8 bytes, its LENGTH says 14"),
        (framed(b"", b"", 2), "serialize type 2 is neither 0"),
        (struct.pack(">iI", 4, 1), "header of 1 bytes does not fit a frame of length 4"),
        (struct.pack(">iI", 4, 0xFFFFFF), "header of 16777215 bytes does not fit"),
        (framed(b""), "JSON header of 0 bytes"),
        (framed(b"[]"), "JSON header of 2 bytes, b'\\[\\]'"),
        (framed(b'{"code":"x"}'), "Expected `int`"),
        (framed(b'{"flag":0}'), "missing required field `code`"),
        (framed(b'{"code":2147483648}'), "<= 2147483647"),
        (framed(b'{"code":1,"extFields":{"a":{}}}'), "got `object`"),
        (framed(b'{"code":1,"remark":"\xff"}'), "utf-8"),
        (framed(b'{"code":' + b"[" * 100_000), "JSON header of 100008 bytes"),
        (framed(b"\0" * 12, b"", 1), "binary header of 12 bytes"),
        (framed(struct.pack(">hBhiii", 1, 0, 0, 0, 0, -1), b"", 1), "text from 17 to 16"),
        (framed(struct.pack(">hBhiiii", 1, 0, 0, 0, 0, 0, 9), b"", 1), "fields from 21 to 30"),
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
        framed(ROUTE_REQUEST, b"body"),
        framed(NO_ROUTE),
        framed(b'{"code":310,"extFields":{"a":1,"b":[true,null,"\\u00e9"],"c":"\xc3\xa9"},"x":{"y":-1.5e3}}'),
        BINARY_NO_ROUTE,
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
        Command(10, 2**31, serialize_type=SerializeType.ROCKETMQ),
        Command(10, ext_fields={"x" * 40_000: ""}, serialize_type=SerializeType.ROCKETMQ),
        Command(10, remark="\ud800", serialize_type=SerializeType.ROCKETMQ),
        Command(10, remark="\ud800"),
        Command(10, body=bytes(FRAME_LENGTH_MAX)),
    ],
    ids=lambda command: str(command)[:40],
)
def test_what_a_frame_cannot_carry_is_not_written(command: Command) -> None:
    with pytest.raises(ProtocolError):
        encode(command)


def test_json_carries_codes_that_binary_headers_cannot() -> None:
    assert decode(encode(Command(RequestCode.POP_MESSAGE))).code == 200_050


def test_a_command_prints_as_a_line_of_a_protocol_trace() -> None:
    command = Command(RequestCode.SEND_MESSAGE_V2, 17, ext_fields={"b": "TopicA", "e": "3"}, body=b"x" * 128)
    assert str(command) == "→ SEND_MESSAGE_V2 #17 b=TopicA e=3 [128 bytes]"
    command.flag = ONEWAY_FLAG
    assert str(command) == "→ SEND_MESSAGE_V2 #17 oneway b=TopicA e=3 [128 bytes]"
    assert str(response(command, 17, "no route")) == '← TOPIC_NOT_EXIST #17 "no route" [0 bytes]'
    assert str(Command(9999)) == "→ code 9999 #0 [0 bytes]"


def test_a_long_value_loses_its_middle_in_a_trace() -> None:
    command = Command(10, ext_fields={"i": "A" * 500 + "\x01\nB" + "C" * 19})
    assert str(command) == f"→ SEND_MESSAGE #0 i={'A' * 20}…B{'C' * 19} [0 bytes]"


@given(commands)
@example(Command(10, remark="a\nb\ud800"))
def test_a_trace_is_always_one_line(command: Command) -> None:
    assert len(str(command).splitlines()) == 1
