"""A pull written in one go is the frame that ``frame.encode`` makes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.wire import pull_request
from cometmq.wire.acl import Credentials, signed_fields
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import ONEWAY_FLAG, Command, encode
from cometmq.wire.headers import PullHeader, fields
from cometmq.wire.pull_request import PullRequest

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))

USER = Credentials('user "1"', "secret")
HEADERS = st.builds(
    PullHeader,
    consumer_group=TEXTS,
    topic=TEXTS,
    queue_id=INTS,
    queue_offset=LONGS,
    max_message_count=INTS,
    sys_flag=INTS,
    commit_offset=LONGS,
    suspend_timeout_ms=LONGS,
    subscription=st.none() | TEXTS | st.sampled_from(["100 %d", '"flag":0', '"opaque":0']),
    sub_version=LONGS,
    expression_type=st.none() | TEXTS,
    max_message_bytes=st.none() | INTS,
    broker_name=st.none() | TEXTS,
)


@given(header=HEADERS, opaque=INTS, is_oneway=st.booleans())
def test_a_pull_is_the_frame_that_encode_makes(header: PullHeader, opaque: int, is_oneway: bool) -> None:
    command_flag = ONEWAY_FLAG if is_oneway else 0
    whole = Command(RequestCode.PULL_MESSAGE, opaque, command_flag, ext_fields=fields(header))
    pull = PullRequest(header)
    assert pull.encode(opaque, command_flag) == encode(whole)
    assert pull.encode(opaque, command_flag) == encode(whole)  # by the format that is kept
    whole.ext_fields = signed_fields(whole.ext_fields, b"", whole.version, USER)
    assert pull.encode(opaque, command_flag, USER) == encode(whole)


def test_all_queues_of_a_topic_have_one_format() -> None:
    pull_request._format.cache_clear()
    for queue_id in range(9):
        PullRequest(PullHeader("readers", "Orders", queue_id, 7, 32, 4, 0, 0)).encode(1)
    assert pull_request._format.cache_info().misses == 1


def test_half_a_character_is_refused() -> None:
    pull = PullRequest(PullHeader("readers", "Orders", 3, 7, 32, 4, 0, 0, subscription="\ud800"))
    with pytest.raises(ProtocolError, match="is not text"):
        pull.encode(1)
