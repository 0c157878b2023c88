"""A master and its slaves, from end to end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import Client, bodies, pull_header
from tests.replication.conftest import (
    caught_up,
    client_of,
    log_bytes,
    name_server,
    running,
    slave,
    status_of,
    until,
)
from tests.store.conftest import new_message

from cometmq.broker.broker import Broker
from cometmq.broker.safe_sends import REJECTED
from cometmq.broker.slave_requests import READ_ONLY
from cometmq.errors import SettingsError
from cometmq.replication.settings import BrokerRole
from cometmq.wire.bodies import TextTable, TopicConfig, decode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import (
    CreateTopicHeader,
    EndTransactionHeader,
    RegisterBrokerResponseHeader,
    TopicHeader,
    UpdateConsumerOffsetHeader,
)

PULL = RequestCode.PULL_MESSAGE
MANY = 3_000
SYNC: dict[str, Any] = {"broker_role": BrokerRole.SYNC_MASTER, "in_sync_replicas": 2}


@asynccontextmanager
async def pair(
    root: Path, master: dict[str, Any] | None = None, follower: dict[str, Any] | None = None
) -> AsyncIterator[tuple[Broker, Broker, Client, Client]]:
    """Run a master and a slave; yield both, and a client of each."""
    async with (
        name_server() as names,
        running(root / "m", names, **master or {}) as leads,
        slave(root / "s", names, **follower or {}) as follows,
        client_of(leads) as of_master,
        client_of(follows) as of_slave,
    ):
        await until(lambda: bool(leads.parts.replica.acks.by_slave))
        yield leads, follows, of_master, of_slave


async def test_a_slave_has_its_masters_log_byte_by_byte_and_can_be_read(tmp_path: Path) -> None:
    async with (
        name_server() as names,
        running(tmp_path / "m", names) as master,
        client_of(master) as producer,
    ):
        for number in range(20):
            await producer.send("T", b"before %d" % number)
        async with slave(tmp_path / "s", names) as follower, client_of(follower) as consumer:
            master.store.append([new_message(topic="T", queue_id=0, body=b"x" * 700)] * MANY)
            await caught_up(master, follower)
            await until(lambda: acked(master) == master.store.written_offset)
            status = await status_of(producer)
            assert status.master and status.in_sync_slaves == 1
            assert status.connections[0].behind == 0 and status.connections[0].is_in_sync
            await until(lambda: follower.parts.topics.find("T") is not None)
            assert bodies(await consumer.ask(PULL, pull_header("T")))[0] == b"before 0"
            held = consumer.ask_later(PULL, pull_header("T", 20 + MANY, wait_ms=60_000))
            await producer.send("T", b"new")
            assert bodies(await held) == [b"new"]
            status = await status_of(consumer)
            assert not status.master and status.slave.master_address
            assert status.slave.max_offset == follower.store.written_offset
    files = list(log_bytes(tmp_path / "m"))
    assert len(files) > 1, "one file is no test of the others"
    assert files == list(log_bytes(tmp_path / "s"))


async def test_a_slave_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    async with name_server() as names, running(tmp_path / "m", names) as master:
        for _ in range(3):
            master.store.append([new_message(topic="T", body=b"y" * 3000)] * 100)
            async with slave(tmp_path / "s", names) as follower:
                await caught_up(master, follower)
                assert follower.store.max_queue_offset("T", 0) == master.store.max_queue_offset("T", 0)
    assert list(log_bytes(tmp_path / "m")) == list(log_bytes(tmp_path / "s"))


async def test_a_slave_follows_a_master_that_comes_back_at_another_port(tmp_path: Path) -> None:
    async with name_server() as names, slave(tmp_path / "s", names) as follower:
        for count in (1, 2):
            async with running(tmp_path / "m", names) as master:
                master.store.append([new_message(topic="T")])
                follower.parts.replica.registered(answer_of(master))
                await caught_up(master, follower)
                assert follower.store.max_queue_offset("T", 0) == count
            await until(lambda: bool(follower.parts.replica.problems()))


async def test_sends_of_a_sync_master_wait_for_the_slave(tmp_path: Path) -> None:
    async with pair(tmp_path, SYNC) as (master, follower, producer, _):
        for number in range(3):
            answer = await producer.send("T", b"%d" % number)
            assert answer.code == ResponseCode.SUCCESS
            assert acked(master) == master.store.written_offset == follower.store.written_offset


async def test_without_a_slave_such_sends_are_stored_and_time_out(tmp_path: Path) -> None:
    async with (
        name_server() as names,
        running(tmp_path, names, slave_timeout=1, **SYNC) as master,
        client_of(master) as producer,
    ):
        answer = await producer.send("T", b"lonely")
        assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert answer.remark is not None and "after 1 ms (slaveTimeout)" in answer.remark
        assert answer.ext_fields["queueOffset"] == "0"
        answer = await producer.send("T", b"in no hurry", WAIT="false")
        assert answer.code == ResponseCode.SUCCESS
        assert master.store.max_queue_offset("T", 0) == 2


async def test_with_too_few_in_sync_nothing_is_stored_of_sends_that_wait(tmp_path: Path) -> None:
    few = SYNC | {"min_in_sync_replicas": 2}
    async with (
        name_server() as names,
        running(tmp_path / "m", names, **few) as master,
        client_of(master) as producer,
    ):
        answer = await producer.send("T", b"lonely")
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")
        answer = await producer.send("T", b"in no hurry", WAIT="false")
        assert answer.code == ResponseCode.SUCCESS and master.store.max_queue_offset("T", 0) == 1
        async with slave(tmp_path / "s", names):
            await until(lambda: not master.parts.safe.are_too_few)
            assert (await producer.send("T", b"together")).code == ResponseCode.SUCCESS
        await until(lambda: master.parts.safe.are_too_few)


async def test_a_slave_refuses_what_only_its_master_can_do(tmp_path: Path) -> None:
    async with pair(tmp_path) as (_, follower, producer, client):
        await producer.send("T", b"0")
        await until(lambda: follower.parts.topics.find("T") is not None)
        answer = await client.send("T", b"1")
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED)
        topic = CreateTopicHeader("New", "TBW102", 1, 1, 6, "SINGLE_TAG")
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, READ_ONLY)
        answer = await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, READ_ONLY)
        ended = EndTransactionHeader("pg", 0, 0, 8, "id")
        answer = await client.ask(RequestCode.END_TRANSACTION, ended)
        assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert follower.store.max_queue_offset("T", 0) == 1


async def test_a_slave_that_may_not_be_read_refuses_pulls(tmp_path: Path) -> None:
    async with pair(tmp_path, None, {"slave_read_enable": False}) as (_, follower, producer, client):
        await producer.send("T", b"0")
        await until(lambda: follower.store.max_queue_offset("T", 0) == 1)
        answer = await client.ask(PULL, pull_header("T"))
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED)


async def test_a_slave_copies_topics_groups_and_offsets(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, follower, producer, _):
        await producer.send("Kept", b"0")
        follower.parts.topics.put(TopicConfig(topic="OnlyHere"))
        await producer.heartbeat("cg", "Kept")
        offset = UpdateConsumerOffsetHeader("cg", "Kept", 0, 1)
        await producer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, offset)
        replica = follower.parts.replica
        replica.copy_soon()
        await until(lambda: follower.parts.offsets.committed("cg", "Kept", 0) == 1)
        assert follower.parts.topics.find("OnlyHere") is None
        assert follower.parts.topics.data_version == master.parts.topics.data_version
        assert follower.parts.groups.find("cg") == master.parts.groups.find("cg")


async def test_a_slave_with_messages_that_its_master_lacks_says_so_and_appends_nothing(
    tmp_path: Path,
) -> None:
    async with name_server() as names:
        async with running(tmp_path / "s", names) as former:
            former.store.append([new_message(topic="Old", body=b"z" * 500)] * 3)
            end = former.store.written_offset
        async with running(tmp_path / "m", names) as master, slave(tmp_path / "s", names) as follower:
            master.store.append([new_message(topic="T")])
            replica = follower.parts.replica
            await until(lambda: replica.has_diverged)
            async with client_of(follower) as client:
                answer = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
                problems = decode(TextTable, answer.body).table["replicationProblems"]
            assert "start this slave with an empty store" in problems
            assert str(end) in problems
            assert follower.store.written_offset == end
            master.store.append([new_message(topic="T", body=b"other" * 300)] * 9)
            assert master.store.written_offset > end
            await until(lambda: "does not continue this log" in "".join(replica.problems()))
            assert follower.store.written_offset == end


async def test_only_allowed_addresses_are_slaves(tmp_path: Path) -> None:
    async with (
        name_server() as names,
        running(tmp_path, names, ha_allowed_addresses="10.1.2.3") as master,
    ):
        assert master.parts.replica.port is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", master.parts.replica.port)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        assert not master.parts.replica.acks.by_slave


async def test_where_requests_are_signed_slaves_must_be_named(tmp_path: Path) -> None:
    user = '{"username":"u","password":"secret-of-u"}'
    signed: dict[str, Any] = {"authentication_enabled": True, "init_authentication_user": user}
    async with name_server() as names:
        async with running(tmp_path / "a", names, **signed) as broker:
            assert broker.parts.replica.port is None
        async with running(tmp_path / "b", names, ha_allowed_addresses="::1", **signed) as broker:
            assert broker.parts.replica.port is not None
        with pytest.raises(SettingsError, match=r"sends wait for slaves .* set haAllowedAddresses"):
            async with running(tmp_path / "c", names, **signed, **SYNC):
                pass


def answer_of(master: Broker) -> RegisterBrokerResponseHeader:
    """Return what a name server answers to a slave, without waiting for its next registration."""
    return RegisterBrokerResponseHeader(f"127.0.0.1:{master.parts.replica.port}", master.address)


def acked(master: Broker) -> int:
    """Return what the only slave has acknowledged."""
    return next(iter(master.parts.replica.acks.by_slave.values()), -1)
