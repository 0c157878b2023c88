"""Requests about queues that the tests of the pull consumer do not make, at a broker of whatever make."""

from tests.shop import shop_at

from cometmq.client.requests.queue_requests import PullStatus, QueuePull
from cometmq.format.record import decode_many


async def test_a_young_queue_may_count_as_committed_to_its_beginning(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        await here.send(b"0")
        assert await here.requests.committed(here.queue) is None
        assert await here.requests.committed(here.queue, young_is_zero=True) == 0


async def test_a_pull_can_commit_along_the_way(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        await here.send(b"0", b"1")
        await here.requests.pull(here.queue, 1, commit_offset=1)
        assert await here.requests.committed(here.queue) == 1


async def test_records_can_be_pulled_as_they_are(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        await here.send(b"0", b"1", b"2")
        pulled = await here.requests.pull_records(QueuePull(here.queue, 1))
        assert [record.body for record in decode_many(pulled.body)] == [b"1", b"2"]
        assert (pulled.status, pulled.next_offset, pulled.max_offset) == (PullStatus.FOUND, 3, 3)
        assert (await here.requests.pull_records(QueuePull(here.queue, 3))).body == b""


async def test_one_request_returns_the_ends_of_all_queues_as_a_request_for_each_does(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic, queues=3) as here:
        await here.send(b"0", b"1", queue=here.queues[0])
        await here.send(b"2", queue=here.queues[2])
        stats = await here.requests.topic_stats(topic, here.queue.broker_name)
        ends = {queue: (at.min_offset, at.max_offset) for queue, at in stats.items()}
        assert ends == dict(zip(here.queues, ((0, 2), (0, 0), (0, 1)), strict=True))
        for queue, (first, end) in ends.items():
            assert await here.requests.max_offset(queue) == end
            assert await here.requests.min_offset(queue) == first
            assert (await here.requests.pull_records(QueuePull(queue, first))).next_offset == end


async def test_a_queue_says_when_its_first_message_was_stored_and_how_long_its_records_are(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic, queues=2) as here:
        await here.send(b"0", bytes(5_000), b"2", queue=here.queue)
        wanted = [QueuePull(here.queue, n, max_count=1) for n in range(3)]
        alone = [(await here.requests.pull_records(one)).body for one in wanted]
        (first,) = decode_many(alone[0])
        assert await here.requests.first_store_time(here.queue) == first.store_time
        assert await here.requests.first_store_time(here.queues[1]) is None
        assert await here.requests.record_sizes(here.queue, 0, 2) == [len(body) for body in alone[:2]]
        assert await here.requests.record_sizes(here.queue, 2, 9) == [len(alone[2])]
        assert await here.requests.record_sizes(here.queue, 3, 2) == []
