"""Offsets that a broker keeps, at a broker of whatever make."""

import pytest
from tests.shop import shop_at

from cometmq.client.requests.offset_store import RemoteOffsets
from cometmq.errors import NoRoute


async def test_remote_offsets_are_the_groups_at_the_brokers(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic, queues=2) as here:
        offsets = RemoteOffsets(here.requests)
        first, second = here.queues
        await here.requests.pull(first, 0)  # a Java broker makes the group with it
        await offsets.write({first: 0, second: 5})
        assert (await offsets.read(first), await offsets.read(second)) == (0, 5)
        with pytest.raises(NoRoute):
            await offsets.write({first._replace(topic="Gone"): 1, second: 6})
        assert await offsets.read(second) == 6
