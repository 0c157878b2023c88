import pytest
from tests.kit.grpc_clients import call_of, nothing
from tests.proxy.conftest import key_of

from cometmq.proxy import clients as proxy_clients
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.clients import SILENT_S_MAX, Clients
from cometmq.proxy.outcomes import Failure
from cometmq.proxy.settings import ProxySettings
from cometmq.proxy.transport import CLIENT_ID, Call, Exchange


def stream() -> Exchange:
    return Exchange(nothing(), lambda _: None)


def member(group: str) -> pb.Settings:
    return pb.Settings(subscription=pb.Subscription(group=pb.Resource(name=group)))


async def test_a_client_is_known_by_its_settings() -> None:
    clients = Clients()
    clients.heard(key_of("c"))
    assert clients.find(key_of("c")) is None
    known = clients.update(call_of("c"), member("G"), stream())
    assert clients.find(key_of("c")) is known and known.group == "G" and clients.has_member("G")
    assert known.has_settings and list(clients) == [known]
    clients.remove(key_of("c"))
    assert list(clients) == [] and not clients.has_member("G")


async def test_a_client_without_settings_is_known_by_its_claims_and_expires() -> None:
    clients = Clients()
    clients.claim(key_of("c"), "G")
    clients.claim(key_of("c"), "H")
    client = clients.find(key_of("c"))
    assert client is not None and not client.has_settings and client.group is None
    assert client.all_groups == {"G", "H"} and clients.has_member("H") and clients.is_heard(key_of("c"))
    assert list(clients) == [], "it has sent no settings"
    client.heard_at -= SILENT_S_MAX + 1
    assert clients.silent() == [client]
    clients.claim(key_of("c"), "G")
    assert clients.silent() == []


async def test_the_claims_of_a_client_outlast_its_settings() -> None:
    clients = Clients()
    clients.claim(key_of("c"), "H")
    client = clients.update(call_of("c"), member("G"), stream())
    assert client.all_groups == {"G", "H"}


async def test_clients_and_their_groups_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_clients, "CLIENTS_MAX", 2)
    monkeypatch.setattr(proxy_clients, "GROUPS_MAX", 2)
    clients = Clients()
    for name in ("c", "d"):
        for group in ("G", "H", "G"):
            clients.claim(key_of(name), group)
    with pytest.raises(Failure, match="receives in 2 groups: use a client of its own for each") as caught:
        clients.claim(key_of("c"), "I")
    assert caught.value.code == pb.TOO_MANY_REQUESTS
    with pytest.raises(Failure, match="knows 2 clients already: use another one") as caught:
        clients.update(call_of("e"), member("G"), stream())
    assert caught.value.code == pb.TOO_MANY_REQUESTS
    clients.remove(key_of("c"))
    clients.update(call_of("e"), member("G"), stream())


def producer(*topics: str) -> pb.Settings:
    return pb.Settings(publishing=pb.Publishing(topics=[pb.Resource(name=topic) for topic in topics]))


async def test_settings_with_too_many_topics_are_refused() -> None:
    clients = Clients(limits=ProxySettings(request_items_max=2))
    clients.update(call_of("c"), producer("T", "U"), stream())
    with pytest.raises(
        Failure, match=r"3 topics and subscriptions in one request: .*requestItemsMax"
    ) as caught:
        clients.update(call_of("c"), producer("T", "U", "V"), stream())
    assert caught.value.code == pb.BAD_REQUEST


async def test_settings_that_are_too_long_are_refused_and_so_are_those_of_all_together() -> None:
    long, size = producer("T" * 50_000), producer("T" * 50_000).ByteSize()
    clients = Clients(limits=ProxySettings(settings_bytes_max=65_536, settings_bytes_total_max=2 * size + 10))
    with pytest.raises(Failure, match="settingsBytesMax") as caught:
        clients.update(call_of("c"), producer("T" * 65_536), stream())
    assert caught.value.code == pb.BAD_REQUEST and clients.find(key_of("c")) is None
    former = clients.update(call_of("c"), member("G"), stream()).settings
    client = clients.update(call_of("c"), long, stream())
    clients.update(call_of("d"), long, stream())
    with pytest.raises(Failure, match="settingsBytesTotalMax") as caught:
        clients.update(call_of("e"), producer("T" * 20), stream())
    assert caught.value.code == pb.TOO_MANY_REQUESTS and clients.find(key_of("e")) is None
    clients.restore(client, former)
    clients.update(call_of("e"), producer("T" * 20), stream())
    for name in "cde":
        clients.remove(key_of(name))
    clients.restore(client, long)
    assert clients._settings_bytes == 0


async def test_a_producer_publishes_its_topics() -> None:
    settings = pb.Settings(publishing=pb.Publishing(topics=[pb.Resource(name="T")]))
    client = Clients().update(call_of("c"), settings, stream())
    assert client.publishes("T") and not client.publishes("U") and client.group is None


async def test_a_client_is_silent_without_heartbeat_and_stream() -> None:
    clients, exchange = Clients(), stream()
    client = clients.update(call_of("c"), member("G"), exchange)
    client.heard_at -= SILENT_S_MAX + 1
    assert clients.silent() == []
    clients.end(key_of("c"), exchange)
    clients.end(key_of("unknown"), exchange)
    assert clients.silent() == [client]
    clients.heard(key_of("c"))
    assert clients.silent() == []


async def test_a_client_is_heard_unless_it_is_silent_or_unknown() -> None:
    clients, exchange = Clients(), stream()
    client = clients.update(call_of("c"), member("G"), exchange)
    clients.end(key_of("c"), exchange)
    assert clients.is_heard(key_of("c")) and not clients.is_heard(key_of("d"))
    client.heard_at -= SILENT_S_MAX + 1
    assert not clients.is_heard(key_of("c"))


async def test_under_one_id_each_user_has_a_client_of_its_own() -> None:
    clients = Clients()
    anns = clients.update(call_of("c", "ann"), member("G"), exchange := stream())
    bobs = clients.update(call_of("c", "bob"), member("H"), stream())
    assert anns is not bobs and anns.client_id == bobs.client_id == "c"
    clients.claim(bobs.key, "I")
    clients.end(bobs.key, exchange)
    assert (anns.group, anns.groups, list(anns.exchanges)) == ("G", set(), [exchange])
    clients.remove(bobs.key)
    assert list(clients) == [anns] and clients.is_heard(anns.key) and not clients.has_member("I")


async def test_of_a_clients_streams_the_newest_that_is_admitted_now_is_found() -> None:
    refused: set[str] = set()

    async def admit(rpc: str, request: object, call: Call) -> str:
        assert (rpc, request) == ("Heartbeat", beat)
        if call.peer in refused:
            raise Failure(pb.UNAUTHORIZED, "no permission")
        return "ann"

    clients, first, second, beat = Clients(admit), stream(), stream(), pb.HeartbeatRequest()
    client = clients.update(call_of("c", "ann"), member("G"), first)
    clients.update(Call({CLIENT_ID: "c"}, "127.0.0.2:1", user="ann"), member("G"), second)
    assert await clients.find_exchange(client, "Heartbeat", beat) is second
    refused.add("127.0.0.2:1")
    assert await clients.find_exchange(client, "Heartbeat", beat) is first
    refused.add("127.0.0.1:1")
    assert await clients.find_exchange(client, "Heartbeat", beat) is None


async def test_a_stream_that_ends_while_its_user_is_looked_up_is_not_found() -> None:
    async def admit(_rpc: str, _request: object, call: Call) -> str:
        clients.end(call.client, exchange)
        return "ann"

    clients, exchange = Clients(admit), stream()
    client = clients.update(call_of("c", "ann"), member("G"), exchange)
    assert await clients.find_exchange(client, "Heartbeat", pb.HeartbeatRequest()) is None
