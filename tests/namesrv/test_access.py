"""A name server with users answers only what they sign and may do; a route can stay open."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.certificates import Authority

from cometmq.errors import NetworkError, SettingsError
from cometmq.namesrv.access import FROM_FILES, NameServerAccess, NameServerGuard
from cometmq.namesrv.name_server import NameServer
from cometmq.net import exposure
from cometmq.net.client import Connections
from cometmq.net.tls.settings import TlsSettings
from cometmq.wire import bodies
from cometmq.wire.acl import Credentials, signed_fields
from cometmq.wire.codes import VERSION, RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.requests import TO_NAME_SERVERS

ADMIN: Final = Credentials("admin", "secret of the admin")
BROKERS: Final = Credentials("brokers", "secret of brokers")
READER: Final = Credentials("reader", "secret of a reader")
USERS: Final = {
    "admin": {"password": ADMIN.secret_key, "type": "Super"},
    "brokers": {"password": BROKERS.secret_key},
    "reader": {"password": READER.secret_key},
}
SAFE: Final = "192.0.2.1:10911"
STRANGER: Final = "198.51.100.6:10911"


def entry(resource: str, *actions: str) -> dict[str, Any]:
    return {"resource": resource, "actions": actions, "sources": [], "decision": "Allow"}


@pytest.fixture
def users(tmp_path: Path) -> Path:
    acls = {
        "brokers": {"Custom": [entry("Cluster:*", "Update")], "Default": []},
        "reader": {"Custom": [entry("Topic:Orders", "Sub")], "Default": []},
    }
    for name, content in (("users", USERS), ("acls", acls)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({name: content}))
        path.chmod(0o600)
    return tmp_path / "users.json"


@asynccontextmanager
async def name_server(access: NameServerAccess) -> AsyncIterator[NameServer]:
    server = NameServer(port=0, access=access)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def registration(address: str = SAFE) -> Command:
    fields = {
        "brokerName": "broker-a",
        "brokerAddr": address,
        "clusterName": "DefaultCluster",
        "haServerAddr": address,
        "brokerId": "0",
    }
    topics = {name: bodies.TopicConfig(topic=name) for name in ("Orders", "Other")}
    table = bodies.TopicTable(bodies.DataVersion(), topics=topics)
    return Command(
        RequestCode.REGISTER_BROKER, ext_fields=fields, body=bodies.encode(bodies.Registration(table=table))
    )


def route_of(topic: str) -> Command:
    return Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields={"topic": topic})


class Client:
    """Sends requests to a name server as some user; each user's connection stays open."""

    def __init__(self, server: NameServer) -> None:
        self._server = server
        self._connections: dict[Credentials | None, Connections] = {}

    async def ask(self, command: Command, user: Credentials | None = None) -> Command:
        if user not in self._connections:
            self._connections[user] = Connections(credentials=user)
        return await self._connections[user].request(self._server.address, command)

    async def code(self, command: Command, user: Credentials | None = None) -> int:
        return (await self.ask(command, user)).code

    async def address(self, user: Credentials | None = None) -> str:
        route = bodies.decode(bodies.TopicRoute, (await self.ask(route_of("Orders"), user)).body)
        return route.brokers[0].addrs[0]

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in self._connections.values()))


@asynccontextmanager
async def client_of(access: NameServerAccess) -> AsyncIterator[Client]:
    async with name_server(access) as server:
        client = Client(server)
        try:
            yield client
        finally:
            await client.close()


async def test_a_stranger_cannot_take_the_place_of_a_broker(users: Path) -> None:
    async with client_of(NameServerAccess(users)) as client:
        assert await client.code(registration(), BROKERS) == ResponseCode.SUCCESS
        for stranger in (None, Credentials("brokers", "guessed"), Credentials("nobody", "x"), READER):
            answer = await client.ask(registration(STRANGER), stranger)
            assert answer.code == ResponseCode.NO_PERMISSION
            assert await client.address() == SAFE


async def test_a_forged_registration_with_the_signature_of_another_is_refused(users: Path) -> None:
    async with client_of(NameServerAccess(users)) as client:
        true, forged = registration(), registration(STRANGER)
        signed = signed_fields(true.ext_fields, true.body, VERSION, ADMIN)
        forged.ext_fields = signed | {"brokerAddr": STRANGER}
        answer = await client.ask(forged)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == f"check signature failed.{FROM_FILES}"


async def test_without_users_a_stranger_can_and_the_log_names_both_addresses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with client_of(NameServerAccess()) as client:
        assert await client.code(registration(), BROKERS) == ResponseCode.SUCCESS
        with caplog.at_level(logging.WARNING):
            assert await client.code(registration(STRANGER)) == ResponseCode.SUCCESS
        assert await client.address() == STRANGER
    (told,) = (record.getMessage() for record in caplog.records if "from now on" in record.getMessage())
    assert SAFE in told and STRANGER in told and "127.0.0.1" in told


CHANGES: Final = sorted(
    code for code, request in TO_NAME_SERVERS.items() if "Update" in " ".join(map(str, request.access))
)


@pytest.mark.parametrize("code", CHANGES)
async def test_each_change_needs_a_user_who_may_update_the_cluster(users: Path, code: RequestCode) -> None:
    async with client_of(NameServerAccess(users)) as client:
        command = Command(code, ext_fields={"brokerName": "broker-a", "topic": "Orders", "namespace": "n"})
        for stranger in (None, READER):
            assert await client.code(command, stranger) == ResponseCode.NO_PERMISSION
        assert await client.code(command, ADMIN) != ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("code", sorted(TO_NAME_SERVERS.keys() - {RequestCode.GET_ROUTEINFO_BY_TOPIC}))
def test_no_request_but_an_open_route_is_answered_without_a_signature(users: Path, code: int) -> None:
    guard = NameServerGuard(NameServerAccess(users), _no_body, lambda: 0)
    assert guard.refusal(Command(code), "127.0.0.1") == "username cannot be null."


async def test_who_sends_too_many_requests_of_nobody_loses_the_connection(users: Path) -> None:
    async with client_of(NameServerAccess(users, failed_signatures_max=2)) as client:
        for _ in range(2):
            assert await client.code(registration(), None) == ResponseCode.NO_PERMISSION
        with pytest.raises(NetworkError):
            await client.code(registration(), None)


async def test_an_open_route_is_for_all_even_with_a_signature_that_only_brokers_know(users: Path) -> None:
    async with client_of(NameServerAccess(users)) as client:
        await client.code(registration(), BROKERS)
        for who in (None, READER, Credentials("known to brokers", "only")):
            assert await client.address(who) == SAFE


async def test_a_closed_route_is_for_those_who_send_to_the_topic_or_read_it(users: Path) -> None:
    async with client_of(NameServerAccess(users, closed_routes=True)) as client:
        await client.code(registration(), BROKERS)
        assert await client.address(READER) == await client.address(ADMIN) == SAFE
        for topic, who in (("Orders", None), ("Orders", BROKERS), ("Other", READER)):
            answer = await client.ask(route_of(topic), who)
            assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark is not None and "reader" in answer.remark and "Other" in answer.remark


async def test_a_user_who_is_added_later_is_known_at_the_next_look(users: Path) -> None:
    late = Credentials("late", "secret")
    content = json.dumps({"users": USERS | {"late": {"password": "secret", "type": "Super"}}})
    async with name_server(NameServerAccess(users)) as server:
        client = Client(server)
        assert await client.code(registration(), late) == ResponseCode.NO_PERMISSION
        await asyncio.to_thread(users.write_text, content)
        server.refresh()
        assert await client.code(registration(), late) == ResponseCode.SUCCESS
        await client.close()


async def test_users_of_the_program_need_no_file() -> None:
    async with client_of(NameServerAccess(supers=(ADMIN,))) as client:
        assert await client.code(registration()) == ResponseCode.NO_PERMISSION
        assert await client.code(registration(), ADMIN) == ResponseCode.SUCCESS


async def test_a_name_server_that_others_reach_needs_users_or_a_word(
    users: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match=r"^cannot listen on 0\.0\.0\.0.*--users FILE.*--insecure"):
        await NameServer("0.0.0.0", 0).start()
    monkeypatch.setattr(exposure, "is_loopback", lambda _: False)
    made = Authority(tmp_path).certify()
    tls = TlsSettings(tls_server_cert_path=str(made.cert), tls_server_key_path=str(made.key))
    for access, encrypted, told in (
        (NameServerAccess(users), tls, ""),
        (NameServerAccess(users), None, "signed and not encrypted"),
        (NameServerAccess(insecure=True), None, "without a signature"),
    ):
        caplog.clear()
        server = NameServer(port=0, access=access, tls=encrypted)
        await server.start()
        await server.stop()
        warnings = [text for text in caplog.messages if text.startswith("the name server is insecure")]
        assert len(warnings) == bool(told) and all(told in text for text in warnings)


def _no_body(*_: object) -> Any:
    raise AssertionError("no request to a name server is judged by its body")
