"""Rebalancing without a broker: shares, commits, locks and their failures, by scripted responses."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from tests.client.members import (
    GROUP,
    TOPIC,
    Answer,
    FixedRoutes,
    ScriptedConnections,
    queues_of,
    refused,
    settings_of,
    settled,
)

from cometmq.client.group import rebalancing
from cometmq.client.group.rebalancing import LockDecisions, Locks, Rebalancing, members
from cometmq.client.handling.consumed_queue import ConsumedQueue
from cometmq.client.handling.pulling import Pulling, PullSource
from cometmq.client.handling.start import Start
from cometmq.client.requests.queue_requests import QueueRequests
from cometmq.cluster.rebalance import Strategy, averagely
from cometmq.cluster.rebalance_state import LOCK_TRUSTED_MS
from cometmq.errors import NetworkError, NoRoute, RemoteError, RequestTimeout
from cometmq.io.clock import ManualClock
from cometmq.message import MessageQueue
from cometmq.wire.bodies.body import decode, encode
from cometmq.wire.bodies.group import ConsumerIds
from cometmq.wire.bodies.locks import LockRequest, LockResponse
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, response

QUEUES = queues_of("a", 4)


class StoredOffsets:
    """An offset store that fails as often as a test wants."""

    def __init__(self) -> None:
        self.failures = 0
        self.written: list[dict[MessageQueue, int]] = []

    async def read(self, queue: MessageQueue) -> int | None:
        await asyncio.Event().wait()  # so nothing is pulled
        raise AssertionError(f"the offset of {queue} is not awaited any more")

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        if self.failures:
            self.failures -= 1
            raise RequestTimeout("no response within 3000 ms")
        self.written.append(dict(offsets))


class Member(NamedTuple):
    """A rebalancing, and what it works with.

    Attributes:
        ids: the client ids of the group's members; empty if the broker does not respond.
        grants: the queues whose locks the broker grants.
        changes: the owned queues at each change.
    """

    rebalancing: Rebalancing
    connections: ScriptedConnections
    offsets: StoredOffsets
    clock: ManualClock
    ids: list[str]
    grants: set[MessageQueue]
    changes: list[list[MessageQueue]]

    def owned(self) -> list[MessageQueue]:
        return self.rebalancing.owned()

    def locks(self, code: RequestCode) -> list[list[MessageQueue]]:
        """Return the queues of each lock or unlock request."""
        return [decode(LockRequest, command.body).queues for _, command in self.connections.sent(code)]


def member(*, ordered: bool = False, strategy: Strategy | None = averagely, queues: int = 4) -> Member:
    """Create a member ``one``, alone in its group until a test changes ``ids``."""
    ids, grants, changes, clock = ["one"], set[MessageQueue](), list[list[MessageQueue]](), ManualClock()

    def answer(_: str, command: Command) -> Answer:
        if command.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            return response(command, body=encode(ConsumerIds(sorted(ids)))) if ids else NetworkError("away")
        if command.code == RequestCode.LOCK_BATCH_MQ:
            asked = decode(LockRequest, command.body).queues
            return response(command, body=encode(LockResponse([one for one in asked if one in grants])))
        return NetworkError("held") if command.code == RequestCode.PULL_MESSAGE else response(command)

    connections, offsets = ScriptedConnections(answer), StoredOffsets()
    routes = FixedRoutes({"a": queues}).as_routes()
    requests = QueueRequests(connections.as_connections(), routes, GROUP, 3_000)
    source = PullSource(requests, offsets, Start.FIRST)
    made = Rebalancing(
        connections.as_connections(),
        routes,
        settings_of("one", strategy=strategy, on_rebalance=changes.append, clock=clock),
        {TOPIC: ordered},
        offsets,
        lambda queue: ConsumedQueue(Pulling(queue, source, lambda *_: None)),
    )
    return Member(made, connections, offsets, clock, ids, grants, changes)


async def test_a_member_owns_its_share_and_releases_what_another_gets() -> None:
    one = member()
    assert await one.rebalancing.rebalance()
    assert one.owned() == QUEUES
    one.ids.append("two")
    assert not await one.rebalancing.rebalance()  # two queues are still leaving
    await settled(lambda: set(one.rebalancing.queues) == set(QUEUES[:2]))
    assert await one.rebalancing.rebalance()
    assert one.changes == [QUEUES, QUEUES[:2]]
    await one.rebalancing.stop()


async def test_a_member_that_the_broker_does_not_list_keeps_its_queues() -> None:
    one = member()
    await one.rebalancing.rebalance()
    one.ids[:] = ["two"]
    assert not await one.rebalancing.rebalance()
    one.ids.clear()  # no response at all
    assert not await one.rebalancing.rebalance()
    assert one.owned() == QUEUES
    await one.rebalancing.stop()


async def test_broadcasting_needs_no_list_of_members() -> None:
    one = member(strategy=None)
    one.ids.clear()
    assert await one.rebalancing.rebalance()
    assert one.owned() == QUEUES
    assert one.connections.requests == []
    await one.rebalancing.stop()


async def test_members_with_one_client_id_are_reported_when_they_are_seen_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = member()
    one.ids.append("one")
    assert not await one.rebalancing.rebalance()  # it may be our old connection
    assert one.rebalancing.twins == 0
    assert await one.rebalancing.rebalance()
    assert one.rebalancing.twins == 1
    assert f"1 other(s) in group {GROUP} have the client id one too" in caplog.text
    one.ids.remove("one")
    await one.rebalancing.rebalance()
    assert one.rebalancing.twins == 0
    await one.rebalancing.stop()


async def test_a_commit_that_fails_is_part_of_the_next_one() -> None:
    one = member(queues=1)
    await one.rebalancing.rebalance()
    one.offsets.failures = 1
    one.rebalancing.queues[QUEUES[0]].pulling.restart(3)
    assert isinstance(await one.rebalancing.try_commit(), RequestTimeout)
    assert await one.rebalancing.try_commit() is None
    assert one.offsets.written == [{QUEUES[0]: 3}]
    assert await one.rebalancing.commit()
    assert one.offsets.written == [{QUEUES[0]: 3}], "it is committed once"
    one.rebalancing.mark_uncommitted()
    assert await one.rebalancing.commit()
    assert one.offsets.written == [{QUEUES[0]: 3}] * 2
    await one.rebalancing.stop()


@pytest.mark.parametrize(("failures", "written"), [(2, [{QUEUES[0]: 3}]), (3, [])])
async def test_a_last_commit_has_three_tries(
    failures: int, written: list[dict[MessageQueue, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalancing, "COMMIT_RETRY_S", 0.0)
    one = member(queues=1)
    await one.rebalancing.rebalance()
    one.rebalancing.queues[QUEUES[0]].pulling.restart(3)
    one.offsets.failures = failures
    await one.rebalancing.commit_with_retries()
    assert one.offsets.written == written
    await one.rebalancing.stop()


async def test_a_reset_is_committed_in_queues_that_are_consumed_here() -> None:
    one = member(queues=1)
    await one.rebalancing.rebalance()
    one.rebalancing.restart({QUEUES[0]: 7, QUEUES[3]: 9})
    await settled(lambda: one.offsets.written == [{QUEUES[0]: 7}])
    await one.rebalancing.stop()


async def test_an_ordered_queue_is_owned_while_its_lock_is_trusted() -> None:
    one = member(ordered=True, queues=2)
    one.grants.add(QUEUES[0])
    assert not await one.rebalancing.rebalance()
    assert one.owned() == []
    assert await one.rebalancing._lock()  # the broker has decided both
    assert one.owned() == QUEUES[:1]
    one.clock.advance(LOCK_TRUSTED_MS - 1)
    assert one.rebalancing.holds(QUEUES[0])
    one.clock.advance(1)
    assert not one.rebalancing.holds(QUEUES[0])
    one.connections.answer = lambda _, command: refused(command)
    assert not await one.rebalancing._lock()
    assert one.owned() == [], "a lock that is not renewed in time is not relied on"
    await one.rebalancing.stop()


async def test_a_queue_that_another_member_gets_is_unlocked_after_it_has_left() -> None:
    one = member(ordered=True, queues=2)
    one.grants.update(QUEUES)
    await one.rebalancing.rebalance()
    await one.rebalancing._lock()
    one.rebalancing.queues[QUEUES[1]].pulling.restart(5)
    one.ids.append("two")
    await one.rebalancing.rebalance()
    await settled(lambda: set(one.rebalancing.queues) == {QUEUES[0]})
    assert one.locks(RequestCode.UNLOCK_BATCH_MQ) == [[QUEUES[1]]]
    assert one.offsets.written == [{QUEUES[1]: 5}], "the next owner begins there"
    await one.rebalancing.stop()


async def test_an_unlock_that_no_broker_confirmed_is_sent_again() -> None:
    one = member(ordered=True, queues=1)
    one.grants.update(QUEUES)
    await one.rebalancing.rebalance()
    await one.rebalancing._lock()
    respond, one.connections.answer = one.connections.answer, lambda *_: NetworkError("away")
    one.rebalancing.assign([])
    await settled(lambda: not one.rebalancing.queues)
    one.connections.answer = respond
    assert await one.rebalancing._lock()
    assert await one.rebalancing._lock()
    assert one.locks(RequestCode.UNLOCK_BATCH_MQ) == [[QUEUES[0]], [QUEUES[0]]]
    await one.rebalancing.stop()


async def test_a_release_reports_no_queues_and_unlocks_those_that_may_be_locked() -> None:
    one = member(ordered=True, queues=2)
    one.grants.add(QUEUES[0])
    await one.rebalancing.rebalance()
    await one.rebalancing._lock()
    await one.rebalancing.release()
    assert one.changes == [QUEUES[:1], []]
    assert one.locks(RequestCode.UNLOCK_BATCH_MQ) == [QUEUES[:1]]
    await one.rebalancing.stop()


async def test_a_topic_that_is_not_subscribed_to_any_more_is_released() -> None:
    one = member(queues=1)
    await one.rebalancing.rebalance()
    one.rebalancing.subscribe({})
    await settled(lambda: not one.rebalancing.queues)
    assert await one.rebalancing.rebalance()
    assert (one.owned(), one.rebalancing.is_busy()) == ([], False)
    await one.rebalancing.stop()


async def test_it_rebalances_at_once_when_it_is_told_to() -> None:
    one = member()
    running = asyncio.create_task(one.rebalancing.run())
    await settled(lambda: one.owned() == QUEUES)
    one.ids.append("two")
    one.rebalancing.rebalance_soon()
    await settled(lambda: one.owned() == QUEUES[:2])
    running.cancel()
    await one.rebalancing.stop()


async def members_at(connections: ScriptedConnections, *brokers: str) -> list[str]:
    routes = FixedRoutes(dict.fromkeys(brokers, 1))
    return await members(connections.as_connections(), routes.as_routes(), TOPIC, GROUP)


async def test_the_first_broker_that_responds_returns_them_sorted() -> None:
    def answer(address: str, command: Command) -> Command | NetworkError:
        if address == "address-a":
            return NetworkError("no connection")
        if address == "address-b":
            return refused(command)
        return response(command, body=encode(ConsumerIds(["two", "one", "two"])))

    connections = ScriptedConnections(answer)
    assert await members_at(connections, "d", "c", "b", "a") == ["one", "two", "two"]
    assert [address for address, _ in connections.requests] == ["address-a", "address-b", "address-c"]
    assert connections.requests[0][1].ext_fields == {"consumerGroup": GROUP}


async def test_if_none_returns_them_the_last_failure_is_raised() -> None:
    with pytest.raises(RemoteError, match="code 1: no"):
        await members_at(ScriptedConnections(lambda _, command: refused(command)), "a")
    with pytest.raises(NetworkError, match="away"):
        await members_at(ScriptedConnections(lambda *_: NetworkError("away")), "a", "b")


async def test_a_topic_without_brokers_has_no_members_to_ask_for() -> None:
    with pytest.raises(NoRoute, match=f"no broker of topic '{TOPIC}'"):
        await members_at(ScriptedConnections())


A, B, C = queues_of("a", 2), queues_of("b", 1), queues_of("c", 1)


def locks_of(connections: ScriptedConnections) -> Locks:
    routes = FixedRoutes({"a": 2, "b": 1, "c": 1})
    return Locks(connections.as_connections(), routes.as_routes(), GROUP, "one")


def grants_first(_: str, command: Command) -> Command:
    """Grant the first queue of each request."""
    return response(command, body=encode(LockResponse(decode(LockRequest, command.body).queues[:1])))


async def test_each_broker_gets_one_request_with_its_queues() -> None:
    connections = ScriptedConnections(grants_first)
    decided, granted = await locks_of(connections).lock([A[0], B[0], A[1]])
    assert sorted(decided) == [*A, *B] and sorted(granted) == [A[0], B[0]]
    requests = {
        address: decode(LockRequest, command.body)
        for address, command in connections.sent(RequestCode.LOCK_BATCH_MQ)
    }
    assert requests == {
        "address-a": LockRequest("one", GROUP, A),
        "address-b": LockRequest("one", GROUP, B),
    }


async def test_brokers_that_do_not_respond_refuse_or_send_nonsense_decide_nothing() -> None:
    def answer(address: str, command: Command) -> Command | RequestTimeout:
        if address == "address-a":
            return RequestTimeout("no response within 3000 ms")
        return refused(command) if address == "address-b" else response(command, body=b"{]")

    connections = ScriptedConnections(answer)
    assert await locks_of(connections).lock([*A, *B, *C]) == LockDecisions([], [])
    assert len(connections.requests) == 3


async def test_a_broker_without_a_master_keeps_no_other_from_deciding() -> None:
    away = queues_of("z", 1)
    decided, granted = await locks_of(ScriptedConnections(grants_first)).lock([*away, *B])
    assert (decided, granted) == (B, B)


async def test_an_unlock_returns_the_queues_whose_broker_confirmed() -> None:
    connections = ScriptedConnections(
        lambda address, command: refused(command) if address == "address-b" else response(command)
    )
    assert await locks_of(connections).unlock([*A, *B, *C]) == [*A, *C]
    assert {command.code for _, command in connections.requests} == {RequestCode.UNLOCK_BATCH_MQ}


async def test_without_queues_nothing_is_sent() -> None:
    connections = ScriptedConnections()
    assert await locks_of(connections).lock([]) == LockDecisions([], [])
    assert await locks_of(connections).unlock([]) == []
    assert connections.requests == []
