"""Controllers that answer a broker, and what brokers do with the answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tests.replication.controller.model import ModelController, Refusal

from cometmq.net.client import Connections
from cometmq.net.server import Server, Session
from cometmq.replication.controller.client import ControllerClient
from cometmq.replication.controller.identity import BrokerSet
from cometmq.replication.controller.in_sync_set import Proposal
from cometmq.replication.controller.life import MasterNews
from cometmq.wire import headers as h
from cometmq.wire.bodies import BrokerMembers, decode, encode
from cometmq.wire.bodies.controller import ElectedMembers, SyncStateSet
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.controller_requests import TO_CONTROLLERS
from cometmq.wire.frame import Command, response

MEMBERS = BrokerSet("DefaultCluster", "broker-x")
OWN = "127.0.0.1:10911"
Answer = tuple[h.Header, bytes]


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
                self.state.heartbeat(h.parse(h.BrokerHeartbeatHeader, command.ext_fields).broker_id or 0)
                self.beats.set()
            else:
                session.send(self.answer(command))

    def closed(self, session: Session) -> None:
        pass

    def answer(self, command: Command) -> Command:
        code = RequestCode(command.code)
        header = h.parse(TO_CONTROLLERS[code].header, command.ext_fields)
        if code is RequestCode.CONTROLLER_GET_METADATA_INFO:
            is_leader = self.leader == self.address
            answer = h.ControllerMetadataHeader("group1", "n0", self.leader or None, is_leader)
            return response(command, ext_fields=h.fields(answer))
        if self.leader != self.address:
            return response(command, ResponseCode.CONTROLLER_NOT_LEADER, "not the leader")
        code_out = ResponseCode.SUCCESS
        if isinstance(header, h.ElectMasterHeader) and self.state.master in self.state.alive:
            code_out = ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        try:
            answered, body = self.carry_out(header, command.body)
        except Refusal as refusal:
            return response(command, refusal.code, "refused")
        return response(command, code_out, ext_fields=h.fields(answered), body=body)

    def carry_out(self, header: h.Header, body: bytes) -> Answer:
        state = self.state
        match header:
            case h.ApplyBrokerIdHeader():
                state.apply(header.broker_id, header.check_code)
                return h.NoFields(), b""
            case h.RegisterAtControllerHeader():
                return _with_set(state.register(header.broker_id, header.broker_address))
            case h.ElectMasterHeader():
                news = state.elect(header.broker_id)
                if news.broker_id is None:
                    raise Refusal(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED)
                members = BrokerMembers(state.addresses, MEMBERS.broker_name, MEMBERS.cluster_name)
                return _with_set(news)[0], encode(ElectedMembers(members, news.in_sync))
            case h.AlterSyncStateSetHeader():
                asked = decode(SyncStateSet, body)
                news = state.alter(
                    header.master_id, header.master_epoch, Proposal(asked.members, asked.set_epoch)
                )
                return h.AlterSyncStateSetResponseHeader(news.set_epoch), _with_set(news)[1]
        if hasattr(header, "cluster_name"):
            return h.NextBrokerIdResponseHeader(*MEMBERS, state.next_id()), b""
        if not state.masters:
            raise Refusal(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST)
        news_header, found = _with_set(state.news())
        assert isinstance(news_header, h.MasterHeader)
        return h.MasterHeader(news_header.broker_id, news_header.address, news_header.epoch), found


def _with_set(news: MasterNews) -> tuple[h.Header, bytes]:
    body = encode(SyncStateSet(news.in_sync, max(news.set_epoch, 0)))
    if news.broker_id is None:
        return h.MasterHeader(epoch=news.epoch), body
    return h.MasterHeader(news.broker_id, news.address, news.epoch, news.set_epoch), body


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


class RecordedRoles:
    """Records what a broker was told to be.

    Attributes:
        patience_s: how long to wait for that.
    """

    patience_s = 60.0

    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []
        self.changed = asyncio.Event()
        self.error: Exception | None = None

    def record(self, *said: object) -> None:
        self.said.append(said)
        self.changed.set()

    async def become_master(self, news: MasterNews, *, stays: bool) -> None:
        if self.error is not None:
            raise self.error
        self.record("master", news.epoch, stays)

    async def become_slave(self, news: MasterNews, *, stays: bool) -> None:
        self.record("slave", news.address, news.epoch, stays)

    async def settle_set(self, in_sync: frozenset[int], set_epoch: int) -> None:
        self.record("set", in_sync, set_epoch)

    async def unfence(self) -> None:
        self.record("serves")

    def heartbeat(self, broker_id: int) -> h.BrokerHeartbeatHeader:
        return h.BrokerHeartbeatHeader(*MEMBERS[:1], OWN, MEMBERS[1], broker_id=broker_id)

    async def until(self, *said: object) -> None:
        while said not in self.said:
            self.changed.clear()
            async with asyncio.timeout(self.patience_s):
                await self.changed.wait()


def master_names(master: object) -> str:
    return str(master._settings.broker.network.namesrv_addr)  # type: ignore[attr-defined]  # a broker keeps it to itself
