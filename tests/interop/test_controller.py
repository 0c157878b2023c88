"""CometMQ's side of controller mode, judged by RocketMQ's own controller: ids, elections, sets, failover."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.interop import peers
from tests.interop.patience import PATIENCE_S, patient_clients
from tests.kit.controllers import RecordedRoles

from cometmq.errors import NetworkError
from cometmq.io.clock import SystemClock
from cometmq.io.files import Disk
from cometmq.net.client import Connections
from cometmq.net.server import Server, Session
from cometmq.replication.controller.client import ControllerClient, ControllerError
from cometmq.replication.controller.identity import BrokerSet, IdApplication, IdentityFiles
from cometmq.replication.controller.in_sync_set import InSyncSet, Proposal
from cometmq.replication.controller.life import BrokerLife, MasterNews
from cometmq.replication.controller.running import ControlledBroker
from cometmq.replication.epochs import EpochEntry
from cometmq.wire.bodies import decode
from cometmq.wire.bodies.controller import ReplicasOfSet, SyncStateData, SyncStateSet, encode_broker_names
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import BrokerHeartbeatHeader, parse
from cometmq.wire.headers.controller import MasterHeader
from cometmq.wire.requests import TO_BROKERS

pytestmark = pytest.mark.interop

MEMBERS = BrokerSet("DefaultCluster", "broker-x")
ALONE, BOTH = frozenset({1}), frozenset({1, 2})


class Broker(RecordedRoles):
    """What a broker is to its controller: an address that answers, a role, heartbeats."""

    patience_s = PATIENCE_S
    server: Server
    running: "asyncio.Task[None]"
    connections: Connections
    controlled: ControlledBroker

    def __init__(self) -> None:
        super().__init__()
        self.address = ""

    def handle(self, _: Session, commands: list[Command]) -> None:
        for command in commands:
            assert command.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED and command.is_oneway
            request = TO_BROKERS[RequestCode.NOTIFY_BROKER_ROLE_CHANGED]
            header = parse(request.header, command.ext_fields)
            assert isinstance(header, MasterHeader) and header.epoch is not None
            body = decode(SyncStateSet, command.body)
            news = MasterNews(
                header.broker_id, header.address or "", header.epoch, body.members, header.set_epoch or 0
            )
            self.record("notice", news)
            self.controlled.notified()

    def closed(self, session: Session) -> None:
        pass

    def heartbeat(self, broker_id: int) -> BrokerHeartbeatHeader:
        return BrokerHeartbeatHeader(
            *MEMBERS[:1],
            self.address,
            MEMBERS.broker_name,
            broker_id=broker_id,
            epoch=self.controlled.life.epoch,
            max_offset=714,
            confirm_offset=714,
            heartbeat_timeout_ms=int(PATIENCE_S * 1_000),  # it sees at once when a connection closes
            election_priority=2**31 - 1,
        )


@asynccontextmanager
async def broker(controller: str, root: Path) -> AsyncIterator[Broker]:
    found, clock = Broker(), SystemClock()
    found.server, found.connections = Server(found), Connections()
    found.address = f"{peers.HOST}:{await found.server.start(peers.HOST, 0)}"
    files = IdentityFiles(Disk(), root, MEMBERS)
    life = BrokerLife(found.address, broker_id=files.load_id(), application=files.load_application())
    client = ControllerClient([controller], MEMBERS, found.connections, clock.now_ms)
    found.controlled = ControlledBroker(life, client, files, found, found.address, clock)
    found.running = asyncio.create_task(found.controlled.run())
    try:
        yield found
    finally:
        found.running.cancel()
        await asyncio.gather(found.running, return_exceptions=True)
        await found.connections.close()
        await found.server.stop()


async def take_into_set(master: Broker, slave_id: int) -> None:
    """Add a slave to the set: the controller refuses until its heartbeat has arrived."""
    in_sync = InSyncSet(1, EpochEntry(1, 0), ALONE, master.controlled.life.set_epoch, all_ack=True)
    while in_sync.members != BOTH:
        follower = in_sync.connect(slave_id, 0)
        proposal = in_sync.acked(follower, 714, 714, 0)
        assert proposal is not None
        await master.controlled.propose(in_sync, proposal)


@pytest.fixture
async def client() -> AsyncIterator[Connections]:
    connections = Connections()
    yield connections
    await connections.close()


async def test_brokers_are_elected_and_the_loss_of_a_master_is_noticed(
    tmp_path: Path, client: Connections
) -> None:
    with (
        peers.rocketmq_controller(tmp_path / "controller") as controller,
        patient_clients(controller),
    ):
        asker = ControllerClient([controller], MEMBERS, client, lambda: 1)
        async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
            with pytest.raises(ControllerError, match="CONTROLLER_BROKER_METADATA_NOT_EXIST"):
                await asker.replicas()
            first = await stack.enter_async_context(broker(controller, tmp_path / "1"))
            await first.until("master", 1, False)
            assert (tmp_path / "1" / "brokerIdentity").read_bytes() == b"DefaultCluster#broker-x#1"
            second = await stack.enter_async_context(broker(controller, tmp_path / "2"))
            await second.until("slave", first.address, 1, False)
            await refusals(asker)
            await take_into_set(first, 2)
            replicas = await known_replicas(client, controller)
            assert {replica.broker_id for replica in replicas.in_sync} == BOTH
            assert (replicas.master_id, replicas.master_epoch) == (1, 1)

            first.running.cancel()  # as if killed: its connection to the controller closes
            await first.connections.close()
            await second.until("master", 2, False)
            assert ("notice", MasterNews(2, second.address, 2, frozenset({2}), 3)) in second.said
            again = await stack.enter_async_context(broker(controller, tmp_path / "1"))
            await again.until("slave", second.address, 2, False)
    with pytest.raises(NetworkError, match="no leader among the controllers"):
        await asker.find_leader()


async def known_replicas(client: Connections, controller: str) -> ReplicasOfSet:
    """Return what the controller tells operators of the set."""
    body = encode_broker_names([MEMBERS.broker_name])
    command = Command(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=body)
    return decode(SyncStateData, (await client.request(controller, command)).body).sets[MEMBERS.broker_name]


async def refusals(asker: ControllerClient) -> None:
    """Check what the controller refuses, and by which codes."""
    for call, code in (
        (asker.apply(IdApplication(1, "mine")), ResponseCode.CONTROLLER_BROKER_ID_INVALID),
        (asker.register(9, "127.0.0.1:1"), ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED),
        (asker.alter_set(2, 1, Proposal(BOTH, 1)), ResponseCode.CONTROLLER_INVALID_MASTER),
        (asker.alter_set(1, 7, Proposal(BOTH, 1)), ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH),
        (asker.alter_set(1, 1, Proposal(BOTH, 7)), ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH),
        (asker.alter_set(1, 1, Proposal(frozenset({1, 9}), 1)), ResponseCode.CONTROLLER_INVALID_REPLICAS),
    ):
        with pytest.raises(ControllerError) as raised:
            await call
        assert raised.value.code == code, str(raised.value)
    assert (await asker.elect(1)).broker_id == 1, "the master lives"
    assert await asker.next_id() == 3
