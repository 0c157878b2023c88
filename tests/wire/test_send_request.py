"""A request written in one go is the frame that ``frame.encode`` makes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cometmq.errors import ProtocolError
from cometmq.wire.acl import Credentials, signed_fields
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import FRAME_LENGTH_MAX, ONEWAY_FLAG, Command, encode
from cometmq.wire.headers import SendHeaderV2, fields
from cometmq.wire.send_request import SendRequest

INTS = st.integers(-(2**31), 2**31 - 1)
NAMES = st.from_regex(r"\A[%|a-zA-Z0-9_-]+\Z")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))

USER = Credentials('user "1"', "secret")
REPLY = RequestCode.SEND_REPLY_MESSAGE_V2
REQUEST = SendRequest("producers", "Orders", 3, 0, 1_000, 0, "", "broker-a", is_batch=False, body=b"body")


@given(
    names=st.tuples(NAMES, NAMES, TEXTS),
    numbers=st.tuples(INTS, INTS, st.integers(0, 2**63 - 1), INTS),
    properties=TEXTS,
    body=st.binary(max_size=20),
    code=st.sampled_from([RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, REPLY]),
    opaque=INTS,
    is_oneway=st.booleans(),
)
def test_a_request_is_the_frame_that_encode_makes(
    names: tuple[str, str, str],
    numbers: tuple[int, int, int, int],
    properties: str,
    body: bytes,
    code: RequestCode,
    opaque: int,
    is_oneway: bool,
) -> None:
    group, topic, broker_name = names
    queue_id, sys_flag, born_time, flag = numbers
    is_batch = code == RequestCode.SEND_BATCH_MESSAGE
    header = SendHeaderV2(
        producer_group=group,
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_count=4,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_time=born_time,
        flag=flag,
        properties=properties,
        batch=is_batch,
        broker_name=broker_name,
    )
    command_flag = ONEWAY_FLAG if is_oneway else 0
    whole = Command(code, opaque, command_flag, ext_fields=fields(header), body=body)
    made = SendRequest(
        producer_group=group,
        topic=topic,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_time=born_time,
        flag=flag,
        properties=properties,
        broker_name=broker_name,
        is_batch=is_batch,
        body=body,
        is_reply=code == REPLY,
    )
    assert made.encode(opaque, command_flag) == encode(whole)
    whole.ext_fields = signed_fields(whole.ext_fields, body, whole.version, USER)
    assert made.encode(opaque, command_flag, USER) == encode(whole)


def test_a_request_over_a_limit_is_refused() -> None:
    with pytest.raises(ProtocolError, match=f"outside 4 to {FRAME_LENGTH_MAX}"):
        replace(REQUEST, body=bytes(FRAME_LENGTH_MAX)).encode(1)
