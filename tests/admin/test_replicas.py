"""The list of masters and slaves."""

from pathlib import Path

import pytest
from tests.fuzzed_broker import NAME, fuzzed_broker
from tests.kit.controllers import master_names
from tests.live import serving
from tests.replication.conftest import caught_up, name_server, pair, running, slave, until
from tests.store.conftest import new_message

from cometmq.admin.cluster import ClusterAdmin, brokers
from cometmq.admin.replicas import ConnectedSlave, replicas
from cometmq.errors import NoBroker


async def test_a_pair_is_listed_with_how_far_both_are(tmp_path: Path) -> None:
    async with name_server() as names, running(tmp_path / "m", names) as master:
        async with slave(tmp_path / "s", names) as follower, ClusterAdmin(names) as admin:
            master.store.append([new_message("T")])
            await caught_up(master, follower)
            await until(lambda: not follower.parts.replication.problems())
            end = master.store.written_offset
            await until(lambda: end in master.parts.replication.acks.by_slave.values())
            first, second = await replicas(admin)
            (connected,) = first.connected
            assert first == ("pair", 0, master.address, "master", end, 0, 1, 1, None, None, (connected,))
            assert connected._replace(address="", bytes_per_second=0) == ("", end, 0, 0, True)
            assert connected.behind_s == 0
            heard = follower.store.clock.now_ms() - (second.heard_time or 0)
            assert second[:9] == ("pair", 1, follower.address, "slave", end, 0, None, None, None)
            assert 0 <= heard < 60_000
        async with ClusterAdmin(names) as admin:
            await until(lambda: not master.parts.replication.acks.by_slave)
            (alone,) = await replicas(admin)
            assert (alone.slaves, alone.in_sync, alone.behind) == (0, 0, None)


async def test_a_slave_without_a_master_is_listed_with_the_reason(tmp_path: Path) -> None:
    async with name_server() as names, slave(tmp_path, names), ClusterAdmin(names) as admin:
        (line,) = await replicas(admin)
        assert (line.role, line.behind, line.heard_time) == ("slave", None, 0)
        assert [broker.broker_id for broker in await brokers(admin)] == [1]
        with pytest.raises(NoBroker, match="knows slaves of broker pair, and no master: start its master"):
            await admin.masters()
        assert line.problem is not None and "no name server knows the master's address yet" in line.problem


async def test_a_broker_that_does_not_answer_is_listed_with_the_reason(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, follower, _, _), ClusterAdmin(master_names(master)) as admin:
        await follower.server.stop()
        _, line = await replicas(admin)
        assert line.role is None and line.problem is not None and follower.address in line.problem


async def test_a_broker_whose_answer_cannot_be_read_is_listed_with_the_reason(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, ClusterAdmin(live.name_server) as admin, fuzzed_broker(admin):
        sound, line = await replicas(admin)
        assert sound.role == "master" and not sound.is_unreadable
        assert line.broker_name == NAME and line.role is None and line.is_unreadable


def test_what_a_slave_lacks_has_seconds_only_while_it_is_sent_something() -> None:
    slow = ConnectedSlave("127.0.0.1:40000", 1_000, 3_000, 2_000, in_sync=True)
    assert slow.behind_s == 1.5
    assert slow._replace(bytes_per_second=0).behind_s is None
    assert slow._replace(behind=10**400).behind_s is None
    assert slow._replace(behind=0, bytes_per_second=0).behind_s == 0
