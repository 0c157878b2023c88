from collections.abc import AsyncIterator

import pytest

from cometmq.proxy import clients as proxy_clients
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
    clients.heard("c")
    assert clients.find("c") is None
    known = clients.update("c", member("G"), stream())
    assert clients.find("c") is known and known.group == "G" and clients.has_member("G")
    assert known.has_settings and list(clients) == [known]
    clients.remove("c")
    assert list(clients) == [] and not clients.has_member("G")


async def test_a_client_without_settings_is_known_by_its_claims_and_expires() -> None:
    clients = Clients()
    clients.claim("c", "G")
    clients.claim("c", "H")
    client = clients.find("c")
    assert client is not None and not client.has_settings and client.group is None
    assert client.all_groups == {"G", "H"} and clients.has_member("H") and clients.is_heard("c")
    assert list(clients) == [], "it has sent no settings"
    client.heard_at -= SILENT_S_MAX + 1
    assert clients.silent() == [client]
    clients.claim("c", "G")
    assert clients.silent() == []


async def test_the_claims_of_a_client_outlast_its_settings() -> None:
    clients = Clients()
    clients.claim("c", "H")
    client = clients.update("c", member("G"), stream())
    assert client.all_groups == {"G", "H"}


async def test_clients_and_their_groups_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_clients, "CLIENTS_MAX", 2)
    monkeypatch.setattr(proxy_clients, "GROUPS_MAX", 2)
    clients = Clients()
    for name in ("c", "d"):
        for group in ("G", "H", "G"):
            clients.claim(name, group)
    with pytest.raises(Failure, match="receives in 2 groups: use a client of its own for each") as caught:
        clients.claim("c", "I")
    assert caught.value.code == pb.TOO_MANY_REQUESTS
    with pytest.raises(Failure, match="knows 2 clients already: use another one") as caught:
        clients.update("e", member("G"), stream())
    assert caught.value.code == pb.TOO_MANY_REQUESTS
    clients.remove("c")
    clients.update("e", member("G"), stream())


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
