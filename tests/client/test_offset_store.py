import asyncio
from pathlib import Path

import pytest
from tests.shop import QUEUE, shop

from cometmq.client.offset_store import LocalOffsets, RemoteOffsets
from cometmq.errors import FormatError, NoRoute
from cometmq.message import MessageQueue

OTHER = QUEUE._replace(queue_id=1)
GONE = MessageQueue("Gone", "broker-a", 0)


def test_remote_offsets_are_the_groups_at_the_brokers(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path, queues=2) as here:
            offsets = RemoteOffsets(here.requests)
            await offsets.write({QUEUE: 0, OTHER: 5})
            assert (await offsets.read(QUEUE), await offsets.read(OTHER)) == (0, 5)
            with pytest.raises(NoRoute):
                await offsets.write({GONE: 1, OTHER: 6})
            assert await offsets.read(OTHER) == 6

    asyncio.run(main())


def test_local_offsets_are_found_again_in_rocketmqs_own_form(tmp_path: Path) -> None:
    path = tmp_path / "me" / "offsets.json"
    offsets = LocalOffsets(path)
    assert asyncio.run(offsets.read(QUEUE)) is None
    asyncio.run(offsets.write({QUEUE: 7}))
    asyncio.run(offsets.write({OTHER: 8}))
    again = LocalOffsets(path)
    assert [asyncio.run(again.read(queue)) for queue in (QUEUE, OTHER)] == [7, 8]
    assert '{"brokerName":"broker-a","queueId":0,"topic":"Orders"}:7' in "".join(path.read_text().split())


def test_a_damaged_file_is_replaced_by_the_one_of_before(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    offsets = LocalOffsets(path)
    asyncio.run(offsets.write({QUEUE: 7}))
    asyncio.run(offsets.write({QUEUE: 8}))
    path.write_text("{")
    assert asyncio.run(LocalOffsets(path).read(QUEUE)) == 7
    path.with_name("offsets.json.bak").unlink()
    with pytest.raises(FormatError):
        LocalOffsets(path)
