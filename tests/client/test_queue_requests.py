"""Requests about queues that the tests of the pull consumer do not make."""

import asyncio
from pathlib import Path

from tests.shop import QUEUE, shop


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
