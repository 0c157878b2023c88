"""Locks of queues, at a broker of whatever make."""

from tests.shop import shop_at

from cometmq.client.group.locks import LockDecisions, Locks


async def test_a_queue_has_one_owner_until_it_is_given_back(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic, queues=2) as here:
        one, two = (Locks(here.connections, here.routes, topic, name) for name in ("one", "two"))
        first, second = here.queues
        assert await one.lock([first]) == LockDecisions([first], [first])
        assert await two.lock([first, second]) == LockDecisions([first, second], [second])
        assert await one.lock([first]) == LockDecisions([first], [first])
        assert await one.unlock([first, second]) == [first, second]
        assert await two.lock([first]) == LockDecisions([first], [first])
        assert await one.lock([second]) == LockDecisions([second], [])


async def test_a_broker_that_is_not_there_has_decided_nothing(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        locks = Locks(here.connections, here.routes, topic, "one")
        away = here.queue._replace(broker_name="broker-z")
        assert await locks.lock([away, here.queue]) == LockDecisions([here.queue], [here.queue])
        assert await locks.lock([]) == LockDecisions([], [])
        assert await locks.unlock([away, here.queue]) == [here.queue]
