"""Masters and slaves: how far each has come, and what is wrong."""

import asyncio
from typing import NamedTuple

from cometmq.admin.broker_status import runtime_info_of
from cometmq.admin.cluster import ClusterAdmin
from cometmq.client.answer import answers_of
from cometmq.cluster.route import MASTER
from cometmq.errors import NetworkError, RemoteError, UnreadableAnswer
from cometmq.wire.bodies import decode
from cometmq.wire.bodies.stats import ReplicationStatus, SlaveConnection, seconds_behind
from cometmq.wire.codes import RequestCode


class ConnectedSlave(NamedTuple):
    """A slave as its master sees it.

    Attributes:
        address: of its end of the connection, whose port is not the one that it listens at.
        acked_offset: the end of its log by its last report.
        behind: bytes of the master's log that it has not acknowledged.
        bytes_per_second: how much the master has sent to it in the last second.
    """

    address: str
    acked_offset: int
    behind: int
    bytes_per_second: int
    in_sync: bool

    @property
    def behind_s(self) -> float | None:
        """How long what it lacks takes at the present rate, in s; None if nothing is sent of it."""
        return seconds_behind(self.behind, self.bytes_per_second)


class ReplicaLine(NamedTuple):
    """One broker's part in replication.

    Attributes:
        broker_id: 0 for a master.
        role: ``master`` or ``slave``; None if the broker does not answer.
        end_offset: the end of its CommitLog.
        behind: bytes that a slave lacks of its master's log, or that the slave of a master furthest behind
            has not acknowledged; None if that is not known, or there are no slaves.
        slaves: number of slaves that are connected to a master; None for a slave.
        in_sync: number of them that are in sync.
        problem: why nothing is replicated, or the broker does not answer; None if all is well.
        heard_time: when a slave last heard from its master, by its own clock, ms since the epoch; 0 for
            never, None for a master.
        connected: the slaves that are connected to a master.
    """

    broker_name: str
    broker_id: int
    address: str
    role: str | None = None
    end_offset: int | None = None
    behind: int | None = None
    slaves: int | None = None
    in_sync: int | None = None
    problem: str | None = None
    heard_time: int | None = None
    connected: tuple[ConnectedSlave, ...] = ()

    @property
    def is_unreadable(self) -> bool:
        """Whether it answers, but what cannot be read."""
        return self.role is None and self.problem is not None and UnreadableAnswer.what in self.problem


async def replicas(cluster: ClusterAdmin) -> list[ReplicaLine]:
    """Return all brokers with their part in replication. Raises NoBroker, NetworkError as ``registered``."""
    brokers = sorted((await cluster.registered()).brokers.items())
    groups = await asyncio.gather(*(_group(cluster, name, data.addrs) for name, data in brokers))
    return [line for group in groups for line in group]


async def _group(cluster: ClusterAdmin, name: str, addresses: dict[int, str]) -> list[ReplicaLine]:
    """Return the brokers of one name; the master is asked last, so that it is not behind its slaves."""
    slaves = {broker_id: address for broker_id, address in addresses.items() if broker_id != MASTER}
    lines = list(await asyncio.gather(*(_line(cluster, name, *one) for one in sorted(slaves.items()))))
    if MASTER not in addresses:
        return lines
    master = await _line(cluster, name, MASTER, addresses[MASTER])
    return [master, *(_compared(line, master) for line in lines)]


def _compared(slave: ReplicaLine, master: ReplicaLine) -> ReplicaLine:
    """Return a slave's line with how far it is behind its master."""
    if slave.end_offset is None or master.end_offset is None:
        return slave
    return slave._replace(behind=max(master.end_offset - slave.end_offset, 0))


async def _line(cluster: ClusterAdmin, name: str, broker_id: int, address: str) -> ReplicaLine:
    line = ReplicaLine(name, broker_id, address)
    try:
        answer = await cluster.ask(address, RequestCode.GET_BROKER_HA_STATUS)
        info = await runtime_info_of(cluster.connections, address)
        with answers_of(address):
            status = decode(ReplicationStatus, answer.body)
    except (RemoteError, NetworkError) as error:
        return line._replace(problem=str(error))
    problem = info.get("replicationProblems")
    if not status.master:
        slave = status.slave
        return line._replace(
            role="slave", end_offset=slave.max_offset, problem=problem, heard_time=slave.last_read_time
        )
    return line._replace(
        role="master",
        end_offset=status.max_offset,
        behind=max((slave.behind for slave in status.connections), default=None),
        slaves=len(status.connections),
        in_sync=status.in_sync_slaves,
        problem=problem,
        connected=tuple(map(_connected, status.connections)),
    )


def _connected(slave: SlaveConnection) -> ConnectedSlave:
    return ConnectedSlave(
        slave.address, slave.acked_offset, slave.behind, slave.bytes_per_second, slave.is_in_sync
    )
