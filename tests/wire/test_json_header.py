import json
from typing import Any

import pytest

from cometmq.errors import ProtocolError
from cometmq.wire.codes import LanguageCode, RequestCode, ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.json_header import decode, encode

# What RocketMQ's own client and name server wrote.
ROUTE_REQUEST = (
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"language":"JAVA","opaque":0,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)
NO_ROUTE = (
    b'{"code":17,"flag":1,"language":"JAVA","opaque":0,"remark":"no route",'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)


def from_json(**header: Any) -> Command:
    return decode(json.dumps({"code": 310} | header).encode(), b"")


def test_reads_and_writes_a_request_as_a_java_client_does() -> None:
    command = decode(ROUTE_REQUEST, b"body")
    assert command == Command(
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        language=LanguageCode.JAVA,
        ext_fields={"topic": "TopicA"},
        body=b"body",
    )
    assert not command.is_response and not command.is_oneway
    assert encode(command) == ROUTE_REQUEST


def test_reads_and_writes_a_response_as_a_java_server_does() -> None:
    command = decode(NO_ROUTE, b"")
    assert command.code == ResponseCode.TOPIC_NOT_EXIST and command.remark == "no route"
    assert command.is_response and command.ext_fields == {}
    assert encode(command) == NO_ROUTE


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


def test_a_cpp_client_ends_the_header_in_a_line_feed_and_sends_an_empty_remark() -> None:
    header = (
        b'{"code":310,"extFields":{"AccessKey":"","Signature":"","OnsChannel":"","d":4,"e":3},'
        b'"flag":0,"language":"CPP","opaque":5,"remark":"","version":333}\n'
    )
    command = decode(header, b"")
    assert (command.language, command.opaque, command.remark) == (LanguageCode.CPP, 5, "")
    assert command.ext_fields == {"AccessKey": "", "Signature": "", "OnsChannel": "", "d": "4", "e": "3"}


def test_header_numbers_may_stand_in_quotes() -> None:
    command = from_json(
        code="310", opaque="9", flag="2", version="121", language="JAVA", extFields={"b": "T"}
    )
    assert (command.code, command.opaque, command.flag, command.version) == (310, 9, 2, 121)
    assert command.is_oneway


@pytest.mark.parametrize("language", ["COBOL", 99, None, ""])
def test_an_unknown_language_is_taken_as_some_other_one(language: object) -> None:
    assert from_json(language=language).language is LanguageCode.OTHER


def test_unknown_members_are_ignored() -> None:
    assert from_json(extra={"a": [1]}, body="!", serialize_type=1) == from_json()


def test_absent_and_null_members_are_empty() -> None:
    assert from_json() == from_json(extFields=None, remark=None, flag=None, version=None, opaque=None)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"", "JSON header of 0 bytes"),
        (b"[]", "JSON header of 2 bytes, b'\\[\\]'"),
        (b'{"code":"x"}', "Expected `int`"),
        (b'{"flag":0}', "missing required field `code`"),
        (b'{"code":2147483648}', "<= 2147483647"),
        (b'{"code":1,"extFields":{"a":{}}}', "got `object`"),
        (b'{"code":1,"extFields":{"a":' + b"1" * 5000 + b"}}", "out of range"),
        (b'{"code":1,"remark":"\xff"}', "utf-8"),
        (b'{"code":1,"remark":"\\ud800"}', "JSON header of 28 bytes"),
        (b'{"code":' + b"[" * 100_000, "JSON header of 100008 bytes"),
    ],
)
def test_what_is_no_header_is_refused(header: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode(header, b"")


def test_half_a_surrogate_pair_is_not_written() -> None:
    with pytest.raises(ProtocolError, match="is not text"):
        encode(Command(10, remark="\ud800"))
