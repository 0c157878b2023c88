"""Sends of a SYNC_MASTER: when they are answered, and with what."""

from pathlib import Path
from typing import Any

from tests.replication.conftest import (
    acked,
    client_of,
    name_server,
    pair,
    running,
    slave,
    until,
)

from cometmq.replication.settings import BrokerRole
from cometmq.store.settings import FlushDiskType
from cometmq.wire.codes import ResponseCode

SYNC: dict[str, Any] = {"broker_role": BrokerRole.SYNC_MASTER, "in_sync_replicas": 2}


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


async def test_under_sync_flush_both_disk_and_slave_are_waited_for(tmp_path: Path) -> None:
    store = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    async with (
        name_server() as names,
        running(tmp_path / "m", names, store, **SYNC) as master,
        slave(tmp_path / "s", names),
        client_of(master) as producer,
    ):
        answer = await producer.send("T", b"safe")
        assert answer.code == ResponseCode.SUCCESS
        assert acked(master) == master.store.flushed_offset == master.store.written_offset
    async with (
        name_server() as names,
        running(tmp_path / "m", names, store, slave_timeout=1, **SYNC) as master,
        client_of(master) as producer,
    ):
        answer = await producer.send("T", b"on the disk only")
        assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert master.store.flushed_offset == master.store.written_offset
