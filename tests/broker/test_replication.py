"""A master and its slaves, from end to end."""

from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import bodies, pull_header
from tests.replication.conftest import (
    acked,
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

from cometmq.errors import SettingsError
from cometmq.replication.settings import BrokerRole
from cometmq.wire.codes import RequestCode

PULL = RequestCode.PULL_MESSAGE
MANY = 3_000
SYNC: dict[str, Any] = {"broker_role": BrokerRole.SYNC_MASTER, "in_sync_replicas": 2}


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
            await producer.send("T", b"new")
            await until(lambda: follower.store.max_queue_offset("T", 0) == 21 + MANY)
            assert bodies(await consumer.ask(PULL, pull_header("T", 20 + MANY))) == [b"new"]
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


async def test_where_requests_are_signed_slaves_must_be_named(tmp_path: Path) -> None:
    user = '{"username":"u","password":"secret-of-u"}'
    signed: dict[str, Any] = {"authentication_enabled": True, "init_authentication_user": user}
    async with name_server() as names:
        async with running(tmp_path / "a", names, **signed) as broker:
            assert broker.parts.replication.port is None
        async with running(tmp_path / "b", names, ha_allowed_addresses="::1", **signed) as broker:
            assert broker.parts.replication.port is not None
        with pytest.raises(SettingsError, match=r"sends wait for slaves .* set haAllowedAddresses"):
            async with running(tmp_path / "c", names, **signed, **SYNC):
                pass
