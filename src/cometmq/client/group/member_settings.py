"""The settings of a member of a consumer group."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cometmq.client.identity import client_id
from cometmq.cluster.rebalance import Strategy
from cometmq.io.clock import Clock
from cometmq.message import MessageQueue
from cometmq.net.tls.client import TLS
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
        tls: how to connect by TLS; None to connect plainly.
    """

    name_servers: tuple[str, ...]
    group: str
    client_id: str
    instance: str | None
    process_id: int
    consume_type: ConsumeType
    model: MessageModel
    where: ConsumeFromWhere
    strategy: Strategy | None
    offsets_path: Path | None
    commit_ms: int | None
    on_rebalance: Callable[[list[MessageQueue]], None]
    clock: Clock
    start_timeout_ms: int | None = None
    tls: TLS | None = None

    def of_this_process(self) -> "MemberSettings":
        """Return the settings with a client id of this process: forked members must not share one."""
        if self.instance is not None or self.process_id == os.getpid():
            return self
        return self._replace(client_id=client_id(), process_id=os.getpid())
