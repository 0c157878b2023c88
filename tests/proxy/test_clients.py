from collections.abc import AsyncIterator

import pytest

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.clients import SILENT_S_MAX, Clients
from cometmq.proxy.outcomes import Failure
from cometmq.proxy.transport import Exchange


async def nothing() -> AsyncIterator[pb.TelemetryCommand]:
    return
    yield


def stream() -> Exchange:
    return Exchange(nothing(), lambda _: None)


def member(group: str) -> pb.Settings:
    return pb.Settings(subscription=pb.Subscription(group=pb.Resource(name=group)))


async def test_a_client_is_known_by_its_settings() -> None:
    clients = Clients()
    with pytest.raises(Failure) as caught:
        clients.heard("c")
    assert caught.value.code == pb.UNRECOGNIZED_CLIENT_TYPE
    known = clients.update("c", member("G"), stream())
    assert clients.heard("c") is known and known.group == "G" and clients.has_member("G")
    clients.remove("c")
    assert list(clients) == [] and not clients.has_member("G")


async def test_a_producer_publishes_its_topics() -> None:
    settings = pb.Settings(publishing=pb.Publishing(topics=[pb.Resource(name="T")]))
    client = Clients().update("c", settings, stream())
    assert client.publishes("T") and not client.publishes("U") and client.group is None


async def test_a_client_is_silent_without_heartbeat_and_stream() -> None:
    clients, exchange = Clients(), stream()
    client = clients.update("c", member("G"), exchange)
    client.heard_at -= SILENT_S_MAX + 1
    assert clients.silent() == []
    clients.end("c", exchange)
    clients.end("unknown", exchange)
    assert clients.silent() == [client]
    clients.heard("c")
    assert clients.silent() == []


async def test_a_client_is_heard_unless_it_is_silent_or_unknown() -> None:
    clients, exchange = Clients(), stream()
    client = clients.update("c", member("G"), exchange)
    clients.end("c", exchange)
    assert clients.is_heard("c") and not clients.is_heard("d")
    client.heard_at -= SILENT_S_MAX + 1
    assert not clients.is_heard("c")
