"""Requests about queues that the tests of the pull consumer do not make, at a broker of whatever make."""

from tests.shop import shop_at

from cometmq.client.queue_requests import PullStatus
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
        pulled = await here.requests.pull_records(here.queue, 1)
        assert [record.body for record in decode_many(pulled.body)] == [b"1", b"2"]
        assert (pulled.status, pulled.next_offset, pulled.max_offset) == (PullStatus.FOUND, 3, 3)
        assert (await here.requests.pull_records(here.queue, 3)).body == b""
