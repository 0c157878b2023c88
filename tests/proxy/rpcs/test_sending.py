import time
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from tests.proxy.conftest import Front, message_of

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.rpcs.sending import bucket_of
from cometmq.proxy.settings import ProxySettings


async def test_each_message_of_a_send_has_its_entry(front: Front) -> None:
    await front.create_topic("T")
    answer = await front.send("T", b"a", b"b", b"c")
    assert answer.status.code == pb.OK
    assert [entry.message_id for entry in answer.entries] == ["ID-a", "ID-b", "ID-c"]
    stored = front.broker.messages("T")
    assert sorted(message.message_id for message in stored) == ["ID-a", "ID-b", "ID-c"]
    assert {message.properties["PGROUP"] for message in stored} == {"T"}


async def test_messages_of_a_group_go_to_one_queue_in_their_order(front: Front) -> None:
    await front.create_topic("T", "FIFO")
    bodies = [b"%d" % number for number in range(8)]
    await front.send("T", *bodies, message_group="g")
    stored = front.broker.messages("T")
    assert [message.body for message in stored] == bodies
    assert len({message.queue_id for message in stored}) == 1


@pytest.mark.parametrize(
    ("kind", "system"),
    [("NORMAL", {"message_group": "g"}), ("FIFO", {}), ("DELAY", {}), ("NORMAL", {"priority": 1})],
)
async def test_a_message_of_another_type_than_its_topic_is_refused(
    front: Front, kind: str, system: dict[str, Any]
) -> None:
    await front.create_topic("T", kind)
    answer = await front.send("T", b"x", **system)
    assert answer.status.code == pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert f"the expected type is {kind}, but actual type is" in answer.status.message
    assert front.broker.messages("T") == []


async def test_a_message_is_stored_with_when_and_where_it_was_born(front: Front) -> None:
    await front.create_topic("T")
    await front.send("T", b"x", born_timestamp=Timestamp(seconds=5), born_host="elsewhere")
    (stored,) = front.broker.messages("T")
    assert stored.born_time == 5000 and stored.properties["__BORNHOST"] == "elsewhere"


async def test_a_delayed_message_can_be_recalled(front: Front) -> None:
    await front.create_topic("T", "DELAY")
    later = Timestamp(seconds=int(time.time()) + 600)
    sent = await front.send("T", b"x", delivery_timestamp=later)
    handle = sent.entries[0].recall_handle
    assert sent.status.code == pb.OK and handle
    request = pb.RecallMessageRequest(topic=pb.Resource(name="T"), recall_handle=handle)
    recalled = await front.client.call("RecallMessage", request)
    assert recalled.status.code == pb.OK and recalled.message_id == "ID-x"


async def test_what_is_no_recall_handle_is_refused(front: Front) -> None:
    await front.create_topic("T", "DELAY")
    await front.create_topic("N")
    for topic, code in (("T", pb.INTERNAL_SERVER_ERROR), ("N", pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE)):
        request = pb.RecallMessageRequest(topic=pb.Resource(name=topic), recall_handle="x")
        assert (await front.client.call("RecallMessage", request)).status.code == code


async def test_a_topic_that_does_not_exist_is_not_created_by_a_send(front: Front) -> None:
    request = pb.SendMessageRequest(messages=[message_of("no")])
    answer = await front.client.call("SendMessage", request)
    assert answer.status.code == pb.TOPIC_NOT_FOUND


async def test_the_brokers_refusal_fails_the_call(front: Front) -> None:
    await front.create_topic("T")
    front.broker.fail_next(topic="T")
    answer = await front.send("T", b"x")
    assert answer.status.code == pb.TOO_MANY_REQUESTS and not answer.entries
    front.broker.fail_next(topic="T")
    answer = await front.send("T", b"a", b"b")
    assert answer.status.code == pb.MULTIPLE_RESULTS
    assert {entry.status.code for entry in answer.entries} == {pb.OK, pb.TOO_MANY_REQUESTS}


async def test_a_send_of_too_many_messages_is_refused(front: Front) -> None:
    messages = [message_of("T") for _ in range(ProxySettings().request_items_max + 1)]
    answer = await front.client.call("SendMessage", pb.SendMessageRequest(messages=messages))
    assert answer.status.code == pb.BAD_REQUEST
    assert (
        "1001 messages in one request: at most 1000 are possible (requestItemsMax)" in answer.status.message
    )


@given(st.text(), st.integers(1, 64))
def test_a_group_has_one_of_the_queues(group: str, count: int) -> None:
    assert 0 <= bucket_of(group, count) < count


@given(st.text(), st.integers(1, 64))
def test_a_further_queue_moves_a_group_only_there(group: str, count: int) -> None:
    assert bucket_of(group, count + 1) in (bucket_of(group, count), count)


def test_groups_are_spread() -> None:
    counts = [0] * 8
    for number in range(8000):
        counts[bucket_of(f"group-{number}", 8)] += 1
    assert min(counts) > 500
