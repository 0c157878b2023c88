import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.replication.controller.model import ModelController, Refusal

from cometmq.errors import NetworkError, SettingsError
from cometmq.net.client import Connections
from cometmq.net.server import Server, Session
from cometmq.replication.controller.client import ControllerClient, ControllerError
from cometmq.replication.controller.identity import BrokerSet, IdApplication
from cometmq.replication.controller.in_sync_set import Proposal
from cometmq.replication.controller.life import MasterNews
from cometmq.wire.bodies import BrokerMembers, decode, encode
from cometmq.wire.bodies.controller import ElectedMembers, SyncStateSet
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.controller_requests import TO_CONTROLLERS
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import BrokerHeartbeatHeader, NoFields, fields, parse
from cometmq.wire.headers.controller import (
    AlterSyncStateSetHeader,
    AlterSyncStateSetResponseHeader,
    ApplyBrokerIdHeader,
    ControllerMetadataHeader,
    ElectMasterHeader,
    MasterHeader,
    NextBrokerIdResponseHeader,
    RegisterAtControllerHeader,
)
from cometmq.wire.headers.fields import Header

MEMBERS = BrokerSet("DefaultCluster", "broker-x")
OWN = "127.0.0.1:10911"
Answer = tuple[Header, bytes]


class Controller:
    """One of several controllers that share a state, served over loopback.

    Attributes:
        leader: the address of the leader by its word.
        silent: request codes on which it closes the connection instead of answering.
    """

    server: Server
    address: str

    def __init__(self, state: ModelController) -> None:
        self.state = state
        self.leader = ""
        self.silent: set[int] = set()
        self.codes: list[int] = []
        self.beats = asyncio.Event()

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            self.codes.append(command.code)
            if command.code in self.silent:
                self.silent.discard(command.code)
                session.close()
            elif command.code == RequestCode.BROKER_HEARTBEAT:
                assert command.is_oneway
                self.state.heartbeat(parse(BrokerHeartbeatHeader, command.ext_fields).broker_id or 0)
                self.beats.set()
            else:
                session.send(self.answer(command))

    def closed(self, session: Session) -> None:
        pass

    def answer(self, command: Command) -> Command:
        code = RequestCode(command.code)
        header = parse(TO_CONTROLLERS[code].header, command.ext_fields)
        if code is RequestCode.CONTROLLER_GET_METADATA_INFO:
            is_leader = self.leader == self.address
            answer = ControllerMetadataHeader("group1", "n0", self.leader or None, is_leader)
            return response(command, ext_fields=fields(answer))
        if self.leader != self.address:
            return response(command, ResponseCode.CONTROLLER_NOT_LEADER, "not the leader")
        code_out = ResponseCode.SUCCESS
        if isinstance(header, ElectMasterHeader) and self.state.master in self.state.alive:
            code_out = ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        try:
            answered, body = self.carry_out(header, command.body)
        except Refusal as refusal:
            return response(command, refusal.code, "refused")
        return response(command, code_out, ext_fields=fields(answered), body=body)

    def carry_out(self, header: Header, body: bytes) -> Answer:
        state = self.state
        match header:
            case ApplyBrokerIdHeader():
                state.apply(header.broker_id, header.check_code)
                return NoFields(), b""
            case RegisterAtControllerHeader():
                return _with_set(state.register(header.broker_id, header.broker_address))
            case ElectMasterHeader():
                news = state.elect(header.broker_id)
                if news.broker_id is None:
                    raise Refusal(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED)
                members = BrokerMembers(state.addresses, MEMBERS.broker_name, MEMBERS.cluster_name)
                return _with_set(news)[0], encode(ElectedMembers(members, news.in_sync))
            case AlterSyncStateSetHeader():
                asked = decode(SyncStateSet, body)
                news = state.alter(
                    header.master_id, header.master_epoch, Proposal(asked.members, asked.set_epoch)
                )
                return AlterSyncStateSetResponseHeader(news.set_epoch), _with_set(news)[1]
        if hasattr(header, "cluster_name"):
            return NextBrokerIdResponseHeader(*MEMBERS, state.next_id()), b""
        if not state.masters:
            raise Refusal(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST)
        news_header, found = _with_set(state.news())
        assert isinstance(news_header, MasterHeader)
        return MasterHeader(news_header.broker_id, news_header.address, news_header.epoch), found


def _with_set(news: MasterNews) -> tuple[Header, bytes]:
    body = encode(SyncStateSet(news.in_sync, max(news.set_epoch, 0)))
    if news.broker_id is None:
        return MasterHeader(epoch=news.epoch), body
    return MasterHeader(news.broker_id, news.address, news.epoch, news.set_epoch), body


@asynccontextmanager
async def controllers(count: int) -> AsyncIterator[tuple[list[Controller], ControllerClient]]:
    """Run controllers, of which the first leads, and a client of them."""
    state = ModelController()
    async with AsyncExitStack() as stack:
        found = [Controller(state) for _ in range(count)]
        for controller in found:
            controller.server = Server(controller)
            controller.address = f"127.0.0.1:{await controller.server.start('127.0.0.1', 0)}"
            stack.push_async_callback(controller.server.stop)
        lead(found, 0)
        connections = Connections()
        stack.push_async_callback(connections.close)
        addresses = [controller.address for controller in found]
        yield found, ControllerClient(addresses, MEMBERS, connections, lambda: 1_000)


def lead(found: list[Controller], number: int) -> None:
    for controller in found:
        controller.leader = found[number].address


async def refusal(call: Callable[[], object]) -> ControllerError:
    with pytest.raises(ControllerError) as raised:
        await call()  # type: ignore[misc]  # any of the client's requests
    return raised.value


async def test_a_broker_gets_an_id_and_is_elected() -> None:
    async with controllers(1) as ([controller], client):
        assert await client.next_id() == 1
        await client.apply(IdApplication(1, "code"))
        assert await client.register(1, OWN) == MasterNews()
        sent = await client.send_heartbeats(BrokerHeartbeatHeader("c", OWN, "broker-x", broker_id=1))
        assert sent == [controller.address]
        await controller.beats.wait()
        elected = MasterNews(1, OWN, 1, frozenset({1}), 1)
        assert await client.elect(1) == elected
        assert await client.elect(1) == elected, "the master lives"
        assert await client.replicas() == elected
        assert await client.register(1, OWN) == elected


async def test_a_set_is_altered_and_a_refusal_names_its_code() -> None:
    async with controllers(1) as ([controller], client):
        for broker_id in (1, 2):
            controller.state.apply(broker_id, str(broker_id))
            controller.state.heartbeat(broker_id)
        await client.register(1, OWN)
        await client.elect(1)
        both = frozenset({1, 2})
        assert await client.alter_set(1, 1, Proposal(both, 1)) == SyncStateSet(both, 2)
        alone = frozenset({1})
        error = await refusal(lambda: client.alter_set(1, 1, Proposal(alone, 1)))
        assert str(error) == "CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH: refused"
        assert (await refusal(lambda: client.alter_set(2, 1, Proposal(alone, 2)))).code == 2002


async def test_an_id_of_another_broker_and_an_unknown_set_are_refused() -> None:
    async with controllers(1) as (_, client):
        await client.apply(IdApplication(1, "code"))
        error = await refusal(lambda: client.apply(IdApplication(1, "another")))
        assert error.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
        assert (await refusal(client.replicas)).code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST


async def test_an_election_without_a_winner_is_no_error() -> None:
    async with controllers(1) as ([controller], client):
        controller.state.apply(1, "code")
        controller.state.masters[1] = 9
        assert await client.elect(1) == MasterNews()


async def test_another_leader_is_found_when_the_old_one_says_that_it_is_none() -> None:
    async with controllers(3) as (found, client):
        assert await client.next_id() == 1
        lead(found, 2)
        assert await client.next_id() == 1
        assert client.leader == found[2].address


async def test_another_leader_is_found_when_the_old_one_is_gone() -> None:
    async with controllers(3) as (found, client):
        assert await client.find_leader() == found[0].address
        await found[0].server.stop()
        lead(found, 1)
        assert await client.next_id() == 1
        assert client.leader == found[1].address


async def test_most_controllers_know_the_leader_better_than_an_old_one() -> None:
    async with controllers(3) as (found, client):
        lead(found, 1)
        found[0].leader = found[0].address
        assert await client.find_leader() == found[1].address


async def test_a_lost_request_for_another_set_is_not_sent_again_as_it_may_be_carried_out() -> None:
    async with controllers(1) as ([controller], client):
        await client.find_leader()
        controller.silent = {
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
        }
        with pytest.raises(NetworkError):
            await client.alter_set(1, 1, Proposal(frozenset({1}), 1))
        await client.find_leader()
        assert await client.next_id() == 1, "that is sent again"
        assert controller.codes.count(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET) == 1
        assert controller.codes.count(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID) == 2


async def test_without_a_leader_the_error_has_what_each_controller_said() -> None:
    async with controllers(2) as (found, client):
        found[0].leader = found[1].leader = ""
        await found[1].server.stop()
        with pytest.raises(
            NetworkError, match=r"no leader among the controllers.*it knows no leader; .*refused"
        ):
            await client.find_leader()


async def test_a_heartbeat_reaches_those_that_can_be_reached() -> None:
    async with controllers(2) as (found, client):
        await found[0].server.stop()
        header = BrokerHeartbeatHeader("c", OWN, "broker-x", broker_id=4)
        assert await client.send_heartbeats(header) == [found[1].address]
        await found[1].beats.wait()
        assert found[1].state.alive == {4}


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError):
        ControllerClient(["nowhere"], MEMBERS, Connections(), lambda: 0)
