"""What shares a batch, and where one ends."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.producer.packing import Lane, pack
from cometmq.format import properties
from cometmq.message import Message, MessageQueue
from cometmq.wire import batch

QUEUES = [MessageQueue("A", "broker-a", 0), MessageQueue("A", "broker-a", 1)]


def packed(messages: list[Message], batch_bytes: int = 1 << 20) -> list[Lane]:
    ids = count()
    return pack(
        messages,
        lambda message: QUEUES[int(message.sharding_key)] if message.sharding_key else None,
        lambda number: [f"id{next(ids)}" for _ in range(number)],
        batch_bytes=batch_bytes,
    )


def test_messages_of_one_topic_share_a_batch() -> None:
    lanes = packed([Message("A", b"0"), Message("B", b"1"), Message("A", b"2"), Message("B", b"3")])
    assert [[request.indexes for request in lane.requests] for lane in lanes] == [[[0, 2]], [[1, 3]]]
    assert all(request.ready.is_batch for lane in lanes for request in lane.requests)


def test_what_is_delayed_or_alone_or_from_a_retry_topic_travels_alone() -> None:
    late, lonely, retried = Message("A", b"0", delay_level=1), Message("B", b"1"), Message("%RETRY%g", b"2")
    timed = Message("A", b"3", delay_ms=1)
    lanes = packed([late, timed, lonely, retried, retried])
    assert [[request.indexes for request in lane.requests] for lane in lanes] == [
        [[0]],
        [[1]],
        [[3]],
        [[4]],
        [[2]],
    ]
    assert not any(request.ready.is_batch for lane in lanes for request in lane.requests)


def test_a_batch_ends_where_it_is_full() -> None:
    lanes = packed([Message("A", bytes(1 + 400 * (n % 2))) for n in range(20)], batch_bytes=1_000)
    requests = [request for lane in lanes for request in lane.requests]
    assert [index for request in requests for index in request.indexes] == list(range(20))
    assert all(len(request.ready.body) <= 1_000 for request in requests)
    assert len(requests) == 5


def test_a_message_larger_than_a_batch_travels_alone() -> None:
    (lane,) = packed([Message("A", bytes(5_000))], batch_bytes=1_000)
    assert not lane.requests[0].ready.is_batch


def test_messages_of_one_queue_are_sent_one_part_after_the_other() -> None:
    lanes = packed([Message("A", bytes(400), sharding_key=str(n % 2)) for n in range(12)], batch_bytes=1_000)
    assert [lane.queue for lane in lanes] == QUEUES
    assert [[index for request in lane.requests for index in request.indexes] for lane in lanes] == [
        list(range(0, 12, 2)),
        list(range(1, 12, 2)),
    ]


@given(
    st.lists(
        st.builds(
            Message,
            topic=st.sampled_from(["A", "B", "%RETRY%g"]),
            body=st.binary(min_size=1, max_size=600),
            tags=st.none() | st.text("aü😀", max_size=9),
            keys=st.lists(st.text("ab", min_size=1), max_size=3).map(tuple),
            properties=st.dictionaries(st.text("xü", min_size=1), st.text("y😀", min_size=1), max_size=2),
            delay_level=st.sampled_from([0, 0, 0, 3]),
            sharding_key=st.sampled_from([None, None, "0", "1"]),
        ),
        max_size=40,
    )
)
def test_every_message_is_packed_once_with_an_id_of_its_own(messages: list[Message]) -> None:
    requests = [request for lane in packed(messages, batch_bytes=1_500) for request in lane.requests]
    assert sorted(index for request in requests for index in request.indexes) == list(range(len(messages)))
    ids = [unique_id for request in requests for unique_id in request.ids]
    assert len(set(ids)) == len(messages)
    for request in requests:
        if request.ready.is_batch:
            members = batch.decode(request.ready.body)
            assert [member.body for member in members] == [messages[index].body for index in request.indexes]
            found = [properties.decode(member.properties)[properties.UNIQ_KEY] for member in members]
            assert found == request.ids
            assert len(request.ready.body) <= 1_500
