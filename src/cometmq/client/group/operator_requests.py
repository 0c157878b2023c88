"""Requests that operators send to a consumer through its brokers: running info, and one message to handle.

(RocketMQ: ClientRemotingProcessor.java.)
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from cometmq.client.handling.consumed_queue import ConsumedQueue
from cometmq.errors import CometMQError, FormatError
from cometmq.format.record import decode as decode_record
from cometmq.format.stored import message_as_stored
from cometmq.message import MessageQueue, StoredMessage
from cometmq.net.connection import Connection, refuse_request
from cometmq.wire.bodies.body import encode
from cometmq.wire.bodies.heartbeat import ConsumeType, SubscriptionData
from cometmq.wire.bodies.running import ConsumedDirectly, ConsumeStatus, RunningInfo, RunningQueue
from cometmq.wire.codes import RequestCode, ResponseCode, version_name
from cometmq.wire.frame import Command, response

MIB: Final = 1024 * 1024

ConsumeDirectly = Callable[[StoredMessage], Awaitable[ConsumedDirectly]]
"""Handles a message that an operator sends; the outcome changes no offset."""


class MemberFacts(NamedTuple):
    """The facts of a member that change only with its subscriptions.

    Attributes:
        ordered: the topics that are handled in order.
        started_time: ms since the epoch.
    """

    name_servers: tuple[str, ...]
    consume_type: ConsumeType
    ordered: frozenset[str]
    started_time: int
    subscriptions: tuple[SubscriptionData, ...]


class OperatorRequests:
    """Handles the requests of operators.

    Args:
        queues: the queues that are consumed now.
        holds: returns whether an ordered queue's lock is held.
        consume: handles a message; None without handlers.

    Attributes:
        member: replaced when the subscriptions change.
    """

    def __init__(
        self,
        member: MemberFacts,
        queues: Mapping[MessageQueue, ConsumedQueue],
        holds: Callable[[MessageQueue], bool],
        consume: ConsumeDirectly | None,
    ) -> None:
        self.member = member
        self._queues = queues
        self._holds = holds
        self._consume = consume
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, connection: Connection, command: Command) -> None:
        """Respond to a request, now or later; refuse an unknown one."""
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            connection.send(response(command, body=encode(self.running_info())))
        elif command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY and self._consume is not None:
            self._start(self._consume_directly(connection, command, self._consume))
        else:
            refuse_request(connection, command)

    def running_info(self) -> RunningInfo:
        """Return the state of the member, its subscriptions and its queues."""
        member = self.member
        properties = {
            "PROP_NAMESERVER_ADDR": ";".join(member.name_servers),
            "PROP_CONSUME_TYPE": member.consume_type.value,
            "PROP_CONSUMEORDERLY": str(bool(member.ordered)).lower(),
            "PROP_CONSUMER_START_TIMESTAMP": str(member.started_time),
            "PROP_CLIENT_VERSION": version_name(Command(0).version),
        }
        queues = {queue: self._running(queue, consumed) for queue, consumed in self._queues.items()}
        topics = {data.topic: ConsumeStatus() for data in member.subscriptions}
        return RunningInfo(properties, list(member.subscriptions), queues, topics)

    async def stop(self, own: AbstractSet[asyncio.Task[Any]] = frozenset()) -> None:
        """Cancel all requests that are being handled, but not ``own``, whose handler calls this."""
        others = self._tasks - own
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _running(self, queue: MessageQueue, consumed: ConsumedQueue) -> RunningQueue:
        pulling = consumed.pulling
        locked = queue.topic in self.member.ordered and self._holds(queue)
        if (waiting := pulling.waiting) is None:
            return RunningQueue(locked=locked, dropped=pulling.stopped)
        return RunningQueue(
            commit_offset=waiting.commit_offset,
            waiting_min_offset=waiting.commit_offset if len(waiting) else 0,
            waiting_max_offset=waiting.commit_offset + waiting.span if len(waiting) else 0,
            waiting_count=len(waiting),
            waiting_mib=waiting.size // MIB,
            locked=locked,
            dropped=pulling.stopped,
        )

    async def _consume_directly(
        self, connection: Connection, command: Command, consume: ConsumeDirectly
    ) -> None:
        try:
            message = message_as_stored(decode_record(command.body))
            answer = response(command, body=encode(await consume(message)))
        except (FormatError, CometMQError) as error:
            answer = response(command, ResponseCode.SYSTEM_ERROR, str(error))
        connection.send(answer)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="consume directly")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
