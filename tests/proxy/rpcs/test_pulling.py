import sys
from collections.abc import Iterable
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from tests.proxy.conftest import Front

from cometmq.message import Message, StoredMessage
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.http2.unsent import AnswersHeld, Recipient
from cometmq.proxy.rpcs import pulling
from cometmq.proxy.rpcs.pulling import PullingQueues
from cometmq.proxy.transport import Call

GROUP = pb.Resource(name="G")


def queue_of(queue_id: int = 0, topic: str = "T", broker: str = "embedded") -> pb.MessageQueue:
    return pb.MessageQueue(topic=pb.Resource(name=topic), id=queue_id, broker=pb.Broker(name=broker))


async def pull(front: Front, offset: int, **more: Any) -> tuple[pb.Status, list[bytes], int]:
    """Return the status, the bodies and the next offset."""
    request = pb.PullMessageRequest(group=GROUP, message_queue=queue_of(), offset=offset, **more)
    async with front.client.open("PullMessage") as stream:
        await stream.send_message(request, end=True)
        first, *answers, last = [answer async for answer in stream]
    return first.status, [answer.message.body for answer in answers], last.next_offset


async def query(front: Front, policy: pb.QueryOffsetPolicy, **more: Any) -> pb.QueryOffsetResponse:
    request = pb.QueryOffsetRequest(message_queue=queue_of(), query_offset_policy=policy, **more)
    answer: pb.QueryOffsetResponse = await front.client.call("QueryOffset", request)
    return answer


async def test_a_queue_is_pulled_from_an_offset_on(front: Front) -> None:
    await front.create_topic("T", queues=1)
    for number in range(4):
        front.broker.send(Message("T", b"%d" % number * 6_000, tags="even" if number % 2 == 0 else "odd"))
    status, bodies, next_offset = await pull(front, 1, batch_size=2)
    assert status.code == pb.OK and bodies == [b"1" * 6_000, b"2" * 6_000] and next_offset == 3
    odd = pb.FilterExpression(type=pb.TAG, expression="odd")
    assert (await pull(front, 0, filter_expression=odd))[1:] == ([b"1" * 6_000, b"3" * 6_000], 4)
    is_even = pb.FilterExpression(type=pb.SQL, expression="TAGS = 'even'")
    assert (await pull(front, 0, filter_expression=is_even))[1] == [b"0" * 6_000, b"2" * 6_000]


async def test_a_pull_where_nothing_is_says_so(front: Front) -> None:
    await front.create_topic("T", queues=1)
    front.broker.send(Message("T", b"x"))
    status, bodies, next_offset = await pull(front, 1, long_polling_timeout=Duration(nanos=50_000_000))
    assert status.code == pb.MESSAGE_NOT_FOUND and (bodies, next_offset) == ([], 1)
    status, bodies, next_offset = await pull(front, 9)
    assert status.code == pb.ILLEGAL_OFFSET and bodies == []
    assert status.message == "offset 9 is not in 0 to 1 of queue 0 of topic 'T' at broker 'embedded'"


async def test_a_refusal_that_waits_for_its_client_keeps_no_messages(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsent, pulled = front.proxy._server._shared.unsent, list[StoredMessage]()

    def more_than_fit(messages: Iterable[StoredMessage]) -> int:
        pulled.extend(messages)
        return unsent.messages_max

    monkeypatch.setattr(pulling, "held_bytes", more_than_fit)
    await front.create_topic("T", queues=1)
    front.broker.send(Message("T", b"x"))
    recipient = Recipient(unsent, lambda _: None)
    recipient.hold(1)
    request = pb.PullMessageRequest(group=GROUP, message_queue=queue_of(), offset=0)
    call = Call(front.client.metadata, "peer", answers=AnswersHeld(recipient))
    answers = PullingQueues(front.proxy._brokers, front.proxy._bodies).pull_message(request, call)
    refusal = await anext(answers)
    assert refusal.status.code == pb.TOO_MANY_REQUESTS
    references = sys.getrefcount(pulled[0])
    assert references <= 2  # our list, and the argument


@pytest.mark.parametrize("wrong", [queue_of(4), queue_of(-1), queue_of(broker="other")])
async def test_a_queue_that_does_not_exist_is_refused(front: Front, wrong: pb.MessageQueue) -> None:
    await front.create_topic("T")
    request = pb.GetOffsetRequest(group=GROUP, message_queue=wrong)
    assert (await front.client.call("GetOffset", request)).status.code == pb.BAD_REQUEST
    async with front.client.open("PullMessage") as stream:
        await stream.send_message(pb.PullMessageRequest(group=GROUP, message_queue=wrong), end=True)
        (answer,) = [one async for one in stream]
    assert answer.status.code == pb.BAD_REQUEST


async def test_a_group_commits_offsets(front: Front) -> None:
    await front.create_topic("T", queues=1)
    await front.create_group("G")
    front.broker.send(Message("T", b"x"))
    asked = pb.GetOffsetRequest(group=GROUP, message_queue=queue_of())
    assert (await front.client.call("GetOffset", asked)).status.code == pb.OFFSET_NOT_FOUND
    for offset, code in ((1, pb.OK), (-1, pb.ILLEGAL_OFFSET)):
        request = pb.UpdateOffsetRequest(group=GROUP, message_queue=queue_of(), offset=offset)
        assert (await front.client.call("UpdateOffset", request)).status.code == code
    answer = await front.client.call("GetOffset", asked)
    assert answer.status.code == pb.OK and answer.offset == 1


async def test_offsets_are_found_by_place_and_time(front: Front) -> None:
    await front.create_topic("T", queues=1)
    stored = [front.broker.send(Message("T", b"x")) for _ in range(2)]
    assert (await query(front, pb.BEGINNING)).offset == 0
    assert (await query(front, pb.END)).offset == 2
    later = Timestamp()
    later.FromMilliseconds(stored[-1].store_time + 60_000)
    assert (await query(front, pb.TIMESTAMP, timestamp=later)).offset == 2
    assert (await query(front, pb.TIMESTAMP, timestamp=Timestamp())).offset == 0
