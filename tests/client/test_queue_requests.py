"""Requests about queues that the tests of the pull consumer do not make."""

import asyncio
from pathlib import Path

from tests.shop import QUEUE, shop

from cometmq.client.queue_requests import PullStatus
from cometmq.format.record import decode_many


def test_a_young_queue_may_count_as_committed_to_its_beginning(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            await here.send(b"0")
            assert await here.requests.committed(QUEUE) is None
            assert await here.requests.committed(QUEUE, young_is_zero=True) == 0

    asyncio.run(main())


def test_a_pull_can_commit_along_the_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            await here.send(b"0", b"1")
            await here.requests.pull(QUEUE, 1, commit_offset=1)
            assert await here.requests.committed(QUEUE) == 1

    asyncio.run(main())


def test_records_can_be_pulled_as_they_are(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            await here.send(b"0", b"1", b"2")
            pulled = await here.requests.pull_records(QUEUE, 1)
            assert [record.body for record in decode_many(pulled.body)] == [b"1", b"2"]
            assert (pulled.status, pulled.next_offset, pulled.max_offset) == (PullStatus.FOUND, 3, 3)
            one = await here.requests.pull_records(QUEUE, 0, max_bytes=1)
            assert [record.body for record in decode_many(one.body)] == [b"0"]
            assert (await here.requests.pull_records(QUEUE, 3)).body == b""

    asyncio.run(main())
