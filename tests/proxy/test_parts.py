from typing import Any

import pytest
from tests.proxy.conftest import message_of

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.parts import PARTS_MAX, UNCOUNTED_BYTES_MAX, has_too_many_parts

SENDS: Any = pb.SendMessageRequest.DESCRIPTOR


def test_requests_with_many_messages_and_long_bodies_have_few_parts() -> None:
    batch = [message_of("T", b"x" * 4_000, tag="a", keys=["k", "l"]) for _ in range(1_000)]
    assert not has_too_many_parts(pb.SendMessageRequest(messages=batch).SerializeToString(), SENDS)
    bodies = pb.SendMessageRequest(messages=[message_of("T", bytes(4 << 20))]).SerializeToString()
    assert not has_too_many_parts(bodies, SENDS)


@pytest.mark.parametrize(
    "request_",
    [
        pb.SendMessageRequest(messages=[pb.Message()] * (PARTS_MAX + 1)),
        pb.SendMessageRequest(
            messages=[pb.Message(system_properties=pb.SystemProperties(keys=[""] * (PARTS_MAX + 1)))]
        ),
        pb.SendMessageRequest(messages=[pb.Message(user_properties={str(i): "" for i in range(PARTS_MAX)})]),
    ],
)
def test_messages_texts_and_properties_are_counted(request_: pb.SendMessageRequest) -> None:
    assert has_too_many_parts(request_.SerializeToString(), SENDS)


@pytest.mark.parametrize("part", [b"\xff", b"\x0a\xff\xff\x7f", b"\x0b", b"\x0d\0", b"\x08"])
def test_what_is_no_request_is_left_to_the_decoder(part: bytes) -> None:
    for data in (part, part * UNCOUNTED_BYTES_MAX):
        assert not has_too_many_parts(data, SENDS) or len(data) > UNCOUNTED_BYTES_MAX
