import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.kit.controllers import MEMBERS, OWN, Controller, RecordedRoles, controllers

from cometmq.errors import NetworkError, StoreDamaged
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.net.client import Connections
from cometmq.replication.controller.client import ControllerClient
from cometmq.replication.controller.identity import IdApplication, IdentityFiles
from cometmq.replication.controller.in_sync_set import InSyncSet, Proposal
from cometmq.replication.controller.life import AskReplicas, BrokerLife
from cometmq.replication.controller.running import ControlledBroker
from cometmq.replication.epochs import EpochEntry
from cometmq.wire.codes import RequestCode

ALONE, BOTH = frozenset({1}), frozenset({1, 2})


@dataclass
class Under:
    broker: ControlledBroker
    roles: RecordedRoles
    files: IdentityFiles
    clock: ManualClock
    running: "asyncio.Task[None]"


@asynccontextmanager
async def under(client: ControllerClient, root: Path, address: str = OWN) -> AsyncIterator[Under]:
    """Run a broker under the client's controllers."""
    files, roles, clock = IdentityFiles(Disk(), root, MEMBERS), RecordedRoles(), ManualClock()
    life = BrokerLife(address, broker_id=files.load_id(), application=files.load_application())
    broker = ControlledBroker(life, client, files, roles, address, clock)
    running = asyncio.create_task(broker.run())
    try:
        yield Under(broker, roles, files, clock, running)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def one_controller() -> AsyncIterator[tuple[Controller, ControllerClient]]:
    async with controllers(1) as ([controller], client):
        yield controller, client


async def heard_of(controller: Controller, broker_id: int) -> None:
    """Wait for a broker's heartbeat."""
    while broker_id not in controller.state.alive:
        controller.beats.clear()
        async with asyncio.timeout(60):
            await controller.beats.wait()


async def test_a_new_broker_becomes_master_and_serves(tmp_path: Path) -> None:
    async with one_controller() as (controller, client), under(client, tmp_path) as one:
        await one.roles.until("serves")
        assert one.roles.said == [("master", 1, False), ("serves",)]
        assert one.files.load_id() == 1 and one.files.load_application() is None
        await heard_of(controller, 1)
        assert controller.state.addresses == {1: OWN}


async def test_a_second_broker_follows_and_takes_over_by_the_controllers_word(tmp_path: Path) -> None:
    async with one_controller() as (controller, client), AsyncExitStack() as stack:
        connections = Connections()
        stack.push_async_callback(connections.close)
        other = ControllerClient([controller.address], MEMBERS, connections, lambda: 1_000)
        first = await stack.enter_async_context(under(client, tmp_path / "1"))
        await first.roles.until("serves")
        second = await stack.enter_async_context(under(other, tmp_path / "2", "127.0.0.1:20911"))
        await second.roles.until("slave", OWN, 1, False)
        await heard_of(controller, 2)
        in_sync = InSyncSet(1, EpochEntry(1, 0), ALONE, first.broker.life.set_epoch, all_ack=True)
        follower = in_sync.connect(2, 0)
        proposal = in_sync.acked(follower, 0, 0, 0)
        assert proposal is not None
        await first.broker.propose(in_sync, proposal)
        assert in_sync.members == in_sync.counted == BOTH
        news = controller.state.lose(1)
        assert news is not None and news.broker_id == 2
        second.broker.notified()
        first.broker.notified()
        await second.roles.until("master", 2, False)
        await first.roles.until("slave", "127.0.0.1:20911", 2, False)


async def test_a_refused_set_leaves_the_old_one(tmp_path: Path) -> None:
    async with one_controller() as (controller, client), under(client, tmp_path) as one:
        await one.roles.until("serves")
        in_sync = InSyncSet(1, EpochEntry(1, 0), ALONE, one.broker.life.set_epoch, all_ack=True)
        proposal = in_sync.acked(in_sync.connect(9, 0), 0, 0, 0)
        assert proposal is not None
        await one.broker.propose(in_sync, proposal)
        assert in_sync.counted == ALONE
        controller.silent = {RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET}
        proposal = in_sync.acked(in_sync.connect(2, 0), 0, 0, 0)
        assert proposal is not None
        await one.broker.propose(in_sync, proposal)
        assert in_sync.counted == BOTH, "it may have been carried out"


async def test_a_set_that_was_replaced_is_asked_for_anew(tmp_path: Path) -> None:
    async with one_controller() as (controller, client), under(client, tmp_path) as one:
        await one.roles.until("serves")
        controller.state.apply(2, "code")
        controller.state.heartbeat(2)
        controller.state.alter(1, 1, Proposal(BOTH, controller.state.set_epoch))
        in_sync = InSyncSet(1, EpochEntry(1, 0), ALONE, one.broker.life.set_epoch, all_ack=True)
        proposal = in_sync.acked(in_sync.connect(2, 0), 0, 0, 0)
        assert proposal is not None
        await one.broker.propose(in_sync, proposal)
        await one.roles.until("set", BOTH, controller.state.set_epoch)


async def test_an_id_that_another_broker_has_is_replaced_by_the_next(tmp_path: Path) -> None:
    async with one_controller() as (controller, client):
        controller.state.apply(1, "of another broker")
        IdentityFiles(Disk(), tmp_path, MEMBERS).save_application(IdApplication(1, "mine"))
        async with under(client, tmp_path) as one:
            await one.roles.until("serves")
            assert one.files.load_id() == 2


async def test_a_broker_that_the_controller_forgot_registers_again(tmp_path: Path) -> None:
    async with one_controller() as (controller, client):
        IdentityFiles(Disk(), tmp_path, MEMBERS).save_id(1)
        controller.state.codes[1] = "code"
        async with under(client, tmp_path) as one:
            await one.roles.until("serves")
            controller.state.masters.clear()
            controller.codes.clear()
            one.clock.advance(6_000)  # it asks about the replicas
            async with asyncio.timeout(60):
                while RequestCode.CONTROLLER_REGISTER_BROKER not in controller.codes:
                    controller.beats.clear()
                    await controller.beats.wait()
                    one.clock.advance(1_000)


async def test_a_question_that_keeps_failing_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with one_controller() as (_, client), under(client, tmp_path) as one:
        await one.roles.until("serves")
        for _ in range(3):
            assert one.broker._failed(AskReplicas(), NetworkError("it is gone")) == []
        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
            "controller: a question has failed, and is asked again: AskReplicas: it is gone"
        ]


async def test_a_change_of_the_role_that_fails_ends_the_run(tmp_path: Path) -> None:
    async with one_controller() as (_, client), under(client, tmp_path) as one:
        one.roles.error = StoreDamaged("no consistent point")
        with pytest.raises(ExceptionGroup) as raised:
            await one.running
        assert raised.value.subgroup(StoreDamaged) is not None
