import asyncio
from pathlib import Path

from tests.shop import QUEUE, shop

from cometmq.client.locks import Locked, Locks
from cometmq.message import MessageQueue

OTHER = QUEUE._replace(queue_id=1)
AWAY = MessageQueue("Orders", "broker-z", 0)


def test_a_queue_has_one_owner_until_it_is_given_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path, queues=2) as here:
            one, two = (Locks(here.connections, here.routes, "readers", name) for name in ("one", "two"))
            assert await one.lock([QUEUE]) == Locked([QUEUE], [QUEUE])
            assert await two.lock([QUEUE, OTHER]) == Locked([QUEUE, OTHER], [OTHER])
            assert await one.lock([QUEUE]) == Locked([QUEUE], [QUEUE])
            assert await one.unlock([QUEUE, OTHER]) == [QUEUE, OTHER]
            assert await two.lock([QUEUE]) == Locked([QUEUE], [QUEUE])
            assert await one.lock([OTHER]) == Locked([OTHER], [])

    asyncio.run(main())


def test_a_broker_that_is_not_there_has_decided_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            locks = Locks(here.connections, here.routes, "readers", "one")
            assert await locks.lock([AWAY, QUEUE]) == Locked([QUEUE], [QUEUE])
            assert await locks.lock([]) == Locked([], [])
            assert await locks.unlock([AWAY, QUEUE]) == [QUEUE]

    asyncio.run(main())
