"""Lock requests: which broker gets which queues, and what a missing or bad response decides."""

from tests.client.members import GROUP, FixedRoutes, ScriptedConnections, queues_of, refused

from cometmq.client.group.locks import LockDecisions, Locks
from cometmq.errors import RequestTimeout
from cometmq.wire.bodies.body import decode, encode
from cometmq.wire.bodies.locks import LockRequest, LockResponse
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, response

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
