"""The settings of a member of a consumer group."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cometmq.arguments import TEXT, check, number, or_none
from cometmq.client.identity import client_id
from cometmq.client.requests.heartbeat import HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL_MS
from cometmq.cluster.rebalance import Strategy
from cometmq.format.layout import valid_group
from cometmq.io.clock import Clock, SystemClock
from cometmq.message import MessageQueue
from cometmq.net.address import parse_name_servers
from cometmq.net.tls.client import TLS
from cometmq.wire.acl import Credentials
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel


class MemberSettings(NamedTuple):
    """The settings of a member.

    Attributes:
        instance: the user's name for the client; None if its id is random.
        process_id: of the process that made the client id.
        consume_type: whether messages are pushed to handlers or polled: shown to operators only.
        strategy: how queues are divided; None to own all.
        offsets_path: the file of the offsets; None to keep them at the brokers.
        commit_ms: interval of commits; None to commit only on request.
        on_rebalance: called with the owned queues whenever they change.
        start_timeout_ms: how long a start waits for a name server; None for no limit.
        heartbeat_interval_ms: interval of heartbeats to each broker.
        credentials: sign the requests; None if they are not signed.
        tls: how to connect by TLS; None to connect plainly.
    """

    name_servers: tuple[str, ...]
    group: str
    client_id: str
    instance: str | None
    process_id: int
    consume_type: ConsumeType
    where: ConsumeFromWhere
    clock: Clock
    start_timeout_ms: int | None = None
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS
    credentials: Credentials | None = None
    tls: TLS | None = None
    model: MessageModel = MessageModel.CLUSTERING
    strategy: Strategy | None = None
    offsets_path: Path | None = None
    commit_ms: int | None = None
    on_rebalance: Callable[[list[MessageQueue]], None] = lambda _: None

    @classmethod
    def new(
        cls,
        name_servers: str,
        group: str,
        instance: str | None,
        consume_type: ConsumeType,
        where: ConsumeFromWhere,
        clock: Clock | None,
        start_timeout_ms: int | None,
        heartbeat_interval_ms: int,
    ) -> "MemberSettings":
        """Build the settings of a new member of this process from the arguments of its consumer.

        Raises SettingsError or IllegalName for one that cannot be used.
        """
        check(or_none(TEXT), instance=instance)
        check(or_none(number(0)), start_timeout_ms=start_timeout_ms)
        check(HEARTBEAT_INTERVAL, heartbeat_interval_ms=heartbeat_interval_ms)
        return cls(
            tuple(parse_name_servers(name_servers)),
            valid_group(group),
            client_id(instance),
            instance,
            os.getpid(),
            consume_type,
            where,
            clock or SystemClock(),
            start_timeout_ms,
            heartbeat_interval_ms,
        )

    def of_this_process(self) -> "MemberSettings":
        """Return the settings with a client id of this process: forked members must not share one."""
        if self.instance is not None or self.process_id == os.getpid():
            return self
        return self._replace(client_id=client_id(), process_id=os.getpid())
