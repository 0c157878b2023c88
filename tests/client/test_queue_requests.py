"""What only a broker of ours heeds of requests about queues; the rest is in ``..._end_to_end``."""

import asyncio
from pathlib import Path

from tests.shop import QUEUE, shop

from cometmq.format.record import decode_many


def test_a_pull_gives_no_more_bytes_than_are_wanted_but_for_the_first_message(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            await here.send(b"0", b"1", b"2")
            one = await here.requests.pull_records(QUEUE, 0, max_bytes=1)
            assert [record.body for record in decode_many(one.body)] == [b"0"]

    asyncio.run(main())
