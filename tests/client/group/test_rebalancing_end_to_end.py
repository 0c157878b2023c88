"""Shares of queues, at a broker of whatever make; whole consumers are in ``test_consumer_end_to_end``."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

import pytest
from tests.client.members import settings_of
from tests.pulled import pulled
from tests.shop import Shop, shop_at

from cometmq.admin.topics import TopicAdmin
from cometmq.broker.state.locks import LOCK_LIFETIME_MS
from cometmq.client.group import rebalancing
from cometmq.client.group.rebalancing import LockDecisions, Locks, Rebalancing, members
from cometmq.client.handling.consumed_queue import ConsumedQueue
from cometmq.client.requests.heartbeat import send_heartbeat
from cometmq.client.requests.offset_store import OffsetStore, RemoteOffsets
from cometmq.cluster.rebalance import Strategy, averagely
from cometmq.errors import NoRoute, RemoteError, RequestTimeout
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.wire.bodies.heartbeat import ConsumerData, Heartbeat


def rebalancing_of(
    here: Shop,
    name: str,
    *,
    topics: dict[str, bool] | None = None,
    strategy: Strategy | None = averagely,
    on_change: Callable[[list[MessageQueue]], None] = lambda _: None,
    offsets: OffsetStore | None = None,
) -> Rebalancing:
    def consume(_: MessageQueue) -> ConsumedQueue:
        return ConsumedQueue(pulled())

    settings = settings_of(name, group=here.group_name, strategy=strategy, on_rebalance=on_change)
    stored = offsets or RemoteOffsets(here.requests)
    return Rebalancing(
        here.connections, here.routes, settings, topics or {here.queue.topic: False}, stored, consume
    )


class Desk:
    """A store of offsets that fails as often as it shall, and only works when open."""

    def __init__(self, failures: int = 0) -> None:
        self.told: list[dict[MessageQueue, int]] = []
        self.asked = asyncio.Event()
        self.open = asyncio.Event()
        self._failures = failures

    async def read(self, _: MessageQueue) -> int | None:
        return None

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        self.asked.set()
        await self.open.wait()
        if self._failures > 0:
            self._failures -= 1
            raise RequestTimeout("no answer within 3000 ms")
        self.told.append(dict(offsets))


async def join(here: Shop, name: str) -> None:
    await send_heartbeat(
        here.connections, {here.live.broker}, Heartbeat(name, consumers=[ConsumerData(here.group_name)])
    )


async def test_who_is_not_known_as_a_member_takes_nothing_and_keeps_what_it_has(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic, queues=2) as here:
        one = rebalancing_of(here, "one")
        assert not await one.rebalance()
        assert one.owned() == []
        await join(here, "one")
        assert await one.rebalance()
        assert one.owned() == here.queues
        await join(here, "two")  # over the same connection: the broker knows only the last name
        assert not await one.rebalance()
        assert one.owned() == here.queues
        await one.stop()


async def test_all_is_had_without_a_strategy(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic, queues=2) as here:
        one = rebalancing_of(here, "one", strategy=None, topics={topic: True})
        assert await one.rebalance()
        assert one.owned() == here.queues
        await one.stop()


async def test_more_queues_are_found_in_the_next_round(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        one = rebalancing_of(here, "one")
        await join(here, "one")
        await one.rebalance()
        assert one.owned() == [here.queue]
        async with TopicAdmin(here.live.name_server) as admin:
            await admin.create(topic, queues=2)
        await one.rebalance()
        assert one.owned() == [here.queue, here.queue._replace(queue_id=1)]
        await one.stop()


async def test_a_topic_that_is_not_there_yet_is_looked_for_again(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        one = rebalancing_of(here, "one", topics={"Later": False, topic: False})
        await join(here, "one")
        assert not await one.rebalance()
        assert one.owned() == [here.queue]
        await one.stop()


async def test_offsets_are_committed_once(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        one = rebalancing_of(here, "one")
        await join(here, "one")
        await one.rebalance()
        one.queues[here.queue].pulling.restart(3)
        await one.commit()
        assert await here.committed() == 3
        await here.requests.commit(here.queue, 9)
        await one.commit()
        assert await here.committed() == 9
        await one.stop()


async def test_the_last_commit_is_tried_again(
    name_server: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalancing, "COMMIT_RETRY_S", 0.0)

    async with shop_at(name_server, topic) as here:
        for failures, told in ((2, [{here.queue: 3}]), (3, [])):
            desk = Desk(failures)
            desk.open.set()
            one = rebalancing_of(here, "one", offsets=desk)
            await join(here, "one")
            await one.rebalance()
            one.queues[here.queue].pulling.restart(3)
            await one.commit_with_retries()
            assert desk.told == told
            await one.stop()


async def test_no_commit_overtakes_one_that_is_under_way(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        desk = Desk()
        one = rebalancing_of(here, "one", offsets=desk)
        await join(here, "one")
        await one.rebalance()
        one.queues[here.queue].pulling.restart(3)
        given_up = asyncio.create_task(one.commit())
        await desk.asked.wait()
        given_up.cancel()
        await asyncio.wait((given_up,))
        one.queues[here.queue].pulling.restart(4)
        last = asyncio.create_task(one.commit_with_retries())
        desk.open.set()
        await last
        assert desk.told == [{here.queue: 3}, {here.queue: 4}]
        await one.stop()


async def test_an_ordered_queue_is_had_with_its_lock(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        changed = asyncio.Event()
        one = rebalancing_of(here, "one", topics={topic: True}, on_change=lambda _: changed.set())
        await join(here, "one")
        assert not await one.rebalance()
        assert (one.owned(), one.holds(here.queue)) == ([], False)
        locking = asyncio.create_task(one.run_locks())
        await changed.wait()
        assert one.holds(here.queue)
        assert await one.rebalance()
        locking.cancel()
        await one.release()
        await one.stop()


async def test_a_lock_of_which_the_broker_has_not_heard_is_given_back_again(
    name_server: str, topic: str
) -> None:
    async with asyncio.timeout(60), locked(name_server, topic) as (here, one, locking):
        unlock, lost = one._locks.unlock, asyncio.Event()

        async def lose(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
            assert set(queues) == {here.queue}
            one._locks.unlock = unlock  # type: ignore[method-assign]  # the next one is heard
            lost.set()
            return []

        one._locks.unlock = lose  # type: ignore[method-assign]  # the broker does not hear it
        one.assign([])
        await lost.wait()
        two = Locks(here.connections, here.routes, here.group_name, "two")
        while not (await two.lock([here.queue])).granted:
            assert not locking.done()
            await asyncio.sleep(0.05)


async def test_a_renewal_that_no_broker_answered_is_tried_again_soon(
    name_server: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalancing, "LOCK_RENEWAL_S", 3_600.0)  # soon is what does not wait for this

    async with asyncio.timeout(60), locked(name_server, topic) as (here, one, locking):
        lock, renewed, tries = one._locks.lock, asyncio.Event(), 0

        async def lose_first(queues: Iterable[MessageQueue]) -> LockDecisions:
            nonlocal tries
            tries += 1
            if tries == 1:
                return LockDecisions([], [])
            decided = await lock(queues)
            renewed.set()
            return decided

        one._locks.lock = lose_first  # type: ignore[method-assign]  # the first is not answered
        one._locks_due.set()
        await renewed.wait()
        assert one.owned() == [here.queue] and not locking.done()


async def test_a_lock_that_is_being_given_back_is_not_renewed(name_server: str, topic: str) -> None:
    async with asyncio.timeout(60), locked(name_server, topic) as (here, one, locking):
        unlock, heard, go_on = one._locks.unlock, asyncio.Event(), asyncio.Event()

        async def linger(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
            answer = await unlock(queues)
            heard.set()
            await go_on.wait()
            return answer

        locking.cancel()
        await asyncio.wait((locking,))
        one._locks.unlock = linger  # type: ignore[method-assign]  # the answer takes its time
        one.assign([])
        await heard.wait()
        await one._lock()
        two = Locks(here.connections, here.routes, here.group_name, "two")
        assert (await two.lock([here.queue])).granted == [here.queue]
        go_on.set()


async def test_a_lock_that_was_granted_before_it_was_given_back_is_not_relied_on(
    name_server: str, topic: str
) -> None:
    async with asyncio.timeout(60), locked(name_server, topic) as (here, one, locking):
        lock, granted, go_on = one._locks.lock, asyncio.Event(), asyncio.Event()

        async def linger(queues: Iterable[MessageQueue]) -> LockDecisions:
            decided = await lock(queues)
            granted.set()
            await go_on.wait()
            return decided

        locking.cancel()
        await asyncio.wait((locking,))
        one._locks.lock = linger  # type: ignore[method-assign]  # the answer takes its time
        renewing = asyncio.create_task(one._lock())
        await granted.wait()
        one.assign([])
        one.assign([here.queue])
        await asyncio.wait(set(one._tasks))  # it has left, and wants it again
        two = Locks(here.connections, here.routes, here.group_name, "two")
        assert (await two.lock([here.queue])).granted == [here.queue]
        go_on.set()
        await renewing
        assert one.owned() == []


async def test_a_lock_that_was_granted_unheard_is_given_back_when_it_is_not_wanted_any_more(
    name_server: str, topic: str
) -> None:
    # Sooner than the broker would free it by itself.
    async with asyncio.timeout(LOCK_LIFETIME_MS / 1000 - 10), shop_at(name_server, topic) as here:
        share = [here.queue]
        one = rebalancing_of(here, "one", topics={topic: True}, strategy=lambda *_: share)
        await join(here, "one")
        lock, granted = one._locks.lock, asyncio.Event()

        async def lose(queues: Iterable[MessageQueue]) -> LockDecisions:
            await lock(queues)
            granted.set()
            return LockDecisions([], [])

        one._locks.lock = lose  # type: ignore[method-assign]  # no answer is heard
        await one.rebalance()
        locking = asyncio.create_task(one.run_locks())
        await granted.wait()
        share.clear()
        await one.rebalance()
        two = Locks(here.connections, here.routes, here.group_name, "two")
        while not (await two.lock([here.queue])).granted:
            assert not locking.done()
            await asyncio.sleep(0.05)
        locking.cancel()
        await one.stop()


async def test_a_topic_that_is_in_order_no_more_is_given_up_and_taken_anew(
    name_server: str, topic: str
) -> None:
    async with asyncio.timeout(60), locked(name_server, topic) as (here, one, _):
        before = one.queues[here.queue]
        one.subscribe({topic: False})
        while True:
            if here.queue not in one.queues:
                break
            await asyncio.sleep(0.05)
        assert before.pulling.stopped
        await one.rebalance()
        assert one.owned() == [here.queue]
        two = Locks(here.connections, here.routes, here.group_name, "two")
        assert (await two.lock([here.queue])).granted == [here.queue]


async def test_a_share_of_a_topic_that_is_given_up_meanwhile_is_not_taken(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here:

        def give_up(*_: object, **__: object) -> list[MessageQueue]:
            one.subscribe({})
            return [here.queue]

        one = rebalancing_of(here, "one", strategy=give_up)
        await join(here, "one")
        await one.rebalance()
        assert one.owned() == []
        await one.stop()


@asynccontextmanager
async def locked(name_server: str, topic: str) -> AsyncIterator[tuple[Shop, Rebalancing, asyncio.Task[None]]]:
    """Provide a member that has the queue in order, and the task that keeps its lock."""
    async with shop_at(name_server, topic) as here:
        changed = asyncio.Event()
        one = rebalancing_of(here, "one", topics={topic: True}, on_change=lambda _: changed.set())
        await join(here, "one")
        await one.rebalance()
        locking = asyncio.create_task(one.run_locks())
        await changed.wait()
        yield here, one, locking
        locking.cancel()
        await one.stop()


async def test_members_are_sorted_and_one_name_twice_is_there_twice(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        others = [Connections() for _ in range(3)]
        for connections, name in zip(others, ("b", "a", "b"), strict=True):
            await send_heartbeat(
                connections, {here.live.broker}, Heartbeat(name, consumers=[ConsumerData(topic)])
            )
        assert await members(here.connections, here.routes, topic, topic) == ["a", "b", "b"]
        for connections in others:
            await connections.close()


async def test_a_group_or_topic_that_no_broker_knows_has_no_members(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        with pytest.raises(RemoteError):
            await members(here.connections, here.routes, topic, "strangers")
        with pytest.raises(NoRoute):
            await members(here.connections, here.routes, "Nothing", topic)


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
