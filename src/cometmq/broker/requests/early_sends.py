"""Sends that came before the disk has their topic: they wait for that, and are handled then.

So no message is stored under a topic that a crash would forget, and if the disk refuses the topic, nothing is
stored at all. Those of a connection keep their order.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from cometmq.broker.refused import Refused
from cometmq.broker.state.saved_entries import Change
from cometmq.errors import StoreNotWritable
from cometmq.net.boundary import attempt
from cometmq.net.server import Session
from cometmq.wire.bodies import TopicConfig
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command

SEND_BYTES: Final = 2_048
"""What a send counts beside its body, for its header and what is kept of it."""


class EarlySends:
    """Keeps sends until their topics are saved.

    Args:
        handle: takes the sends of a session that can be handled.
        refuse: answers a send whose topic cannot be saved.
        bytes_max: so many bytes wait in all; more sends to new topics are refused.

    Attributes:
        waiting_bytes: what those that wait count.
    """

    def __init__(
        self,
        handle: Callable[[Session, Sequence[Command]], None],
        refuse: Callable[[Session, Command, ResponseCode, str], None],
        bytes_max: int,
    ) -> None:
        self.waiting_bytes = 0
        self._bytes_max = bytes_max
        self._handle = handle
        self._refuse = refuse
        self._waiting: dict[Change[TopicConfig], list[tuple[Session, Command]]] = {}

    def add(self, creation: Change[TopicConfig], session: Session, command: Command) -> None:
        """Keep a send until its topic is saved. Raises Refused if too much waits."""
        if self.waiting_bytes + _size(command) > self._bytes_max:
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                f"[OVERLOAD]system busy: {self.waiting_bytes} bytes wait for new topics to be saved, at most "
                f"{self._bytes_max} may (earlyBytesTotalMax): try again, or create the topic before",
            )
        self.waiting_bytes += _size(command)
        if (sends := self._waiting.get(creation)) is not None:
            sends.append((session, command))
            return
        self._waiting[creation] = [(session, command)]
        creation.when_saved(lambda error: self._go_on(creation, error))

    def _go_on(self, creation: Change[TopicConfig], error: StoreNotWritable | None) -> None:
        sends = self._waiting.pop(creation)
        self.waiting_bytes -= sum(_size(command) for _, command in sends)
        for session, group in groupby(sends, itemgetter(0)):
            commands = [command for _, command in group]
            if error is None:
                attempt(session, commands, self._handle, session, commands)
                continue
            for command in commands:
                self._refuse(session, command, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))


def _size(command: Command) -> int:
    return SEND_BYTES + len(command.body)
