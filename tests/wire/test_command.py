import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cometmq.wire.codes import VERSION, LanguageCode, RequestCode, ResponseCode
from cometmq.wire.command import (
    ONEWAY_FLAG,
    REMARK_LENGTH_MAX,
    RESPONSE_FLAG,
    Command,
    SerializeType,
    response,
)


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


def test_a_trace_holds_no_secrets() -> None:
    command = Command(10, ext_fields={"AccessKey": "me", "Signature": "c2VjcmV0", "SecurityToken": "t"})
    assert str(command) == "→ SEND_MESSAGE #0 AccessKey=me Signature=… SecurityToken=… [0 bytes]"


@given(st.from_type(Command))
@example(Command(10, remark="a\nb\ud800"))
def test_a_trace_is_always_one_line(command: Command) -> None:
    assert len(str(command).splitlines()) == 1


def test_a_long_remark_loses_its_end() -> None:
    answer = response(Command(10), ResponseCode.SYSTEM_ERROR, "no " + "x" * 100_000)
    assert answer.remark == "no " + "x" * (REMARK_LENGTH_MAX - 3) + "…"
