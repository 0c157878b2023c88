"""QUERY_ASSIGNMENT: a client asks which queues it reads, and whether it pulls or pops them.

Operators set the mode of a group in a topic by SET_MESSAGE_REQUEST_MODE; it holds from the clients' next
query on. The queues are those of the topic's route, which the name servers tell; without name servers those
of this broker. (RocketMQ: QueryAssignmentProcessor.java.)
"""

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Any

from cometmq.broker.handlers import Handlers
from cometmq.broker.refused import Refused, outcome
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.pop.message_modes import RequestModes
from cometmq.broker.state.topics import Topics
from cometmq.client.routes import Routes
from cometmq.cluster.assignment import STRATEGIES, popped_queues
from cometmq.errors import CometMQError, StoreNotWritable
from cometmq.format.layout import RETRY_PREFIX
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.net.server import Session
from cometmq.wire.bodies import (
    AssignmentRequest,
    AssignmentResponse,
    MessageModel,
    MessageModeRequest,
    QueueAssignment,
    RequestMode,
    encode,
)
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import NoFields

_log = logging.getLogger(__name__)


class Assignments:
    """Answers which queues a client reads, and sets the modes of groups."""

    def __init__(
        self,
        modes: RequestModes,
        topics: Topics,
        groups: Groups,
        consumers: Consumers[Session],
        bodies: RequestBodies,
        settings: BrokerSettings,
    ) -> None:
        self._modes = modes
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._bodies = bodies
        self._settings = settings
        self._connections = Connections()
        servers = settings.name_servers
        self._routes = Routes(self._connections, servers) if servers else None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writing = asyncio.Lock()

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.all_modes,
        }

    def query(self, session: Session, command: Command, _header: NoFields) -> None:
        """QUERY_ASSIGNMENT."""
        request = self._bodies.decode(AssignmentRequest, command)
        self._begin(self._answer(session, command, request))

    def set_mode(self, session: Session, command: Command, _header: NoFields) -> None:
        """SET_MESSAGE_REQUEST_MODE: answered once the mode is on the disk."""
        request = self._bodies.decode(MessageModeRequest, command)
        topic, group = request.topic, request.consumer_group
        if topic.startswith(RETRY_PREFIX):
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"retry topic is not allowed to set mode: {topic[:150]} is always pulled",
            )
        if self._topics.find(topic) is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic[:150]}] not exist: create it first")
        if self._groups.find(group) is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{group[:150]}] does not exist: create it first",
            )
        self._begin(self._set(session, command, request))

    def all_modes(self, _session: Session, command: Command, _header: NoFields) -> Command:
        """GET_ALL_MESSAGE_REQUEST_MODE."""
        return response(command, body=encode(self._modes.as_table()))

    def topics_changed(self, names: Collection[str]) -> None:
        """Remove the modes of topics that were deleted."""
        deleted = [name for name in names if self._topics.find(name) is None and self._modes.delete(name)]
        if deleted:
            self._begin(self._save())

    async def stop(self) -> None:
        """Answer what waits, and close the connections to name servers."""
        await asyncio.gather(*self._tasks)
        await self._connections.close()

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, session: Session, command: Command, request: AssignmentRequest) -> None:
        mode = self._mode_of(request)
        queues = await self._assigned(request, mode)
        found = None if queues is None else [QueueAssignment(queue, mode.mode) for queue in queues]
        if not command.is_oneway:
            session.send(response(command, body=encode(AssignmentResponse(found))))

    async def _set(self, session: Session, command: Command, mode: MessageModeRequest) -> None:
        """Set a mode and write the table; if the disk refuses, the former mode holds."""
        topic, group = mode.topic, mode.consumer_group
        before = self._modes.find(topic, group)
        self._modes.put(topic, group, mode)
        if (error := await self._save()) is not None:
            self._modes.put(topic, group, before)
        if not command.is_oneway:
            session.send(outcome(command, error))

    async def _save(self) -> StoreNotWritable | None:
        """Write the table if it has changed; return the error if the disk refuses."""
        async with self._writing:
            try:
                if (changes := self._modes.take_changed()) is not None:
                    await asyncio.to_thread(self._modes.write, changes)
            except (OSError, StoreNotWritable) as error:
                _log.error("the modes of groups are not saved: %s", error)
                return StoreNotWritable(f"the mode is not saved: {error}")
        return None

    def _mode_of(self, request: AssignmentRequest) -> MessageModeRequest:
        """Return the mode of a group in a topic, or the one that holds by default."""
        topic, group = request.topic, request.consumer_group
        if (mode := self._modes.find(topic, group)) is not None:
            return mode
        if topic.startswith(RETRY_PREFIX):
            return MessageModeRequest(topic, group)
        settings = self._settings
        return MessageModeRequest(
            topic, group, settings.default_message_request_mode, settings.default_pop_share_queue_num
        )

    async def _assigned(
        self, request: AssignmentRequest, mode: MessageModeRequest
    ) -> list[MessageQueue] | None:
        """Return the queues that a client reads; None if it keeps those that it has."""
        queues = await self._queues_of(request.topic)
        if queues is None or request.message_model is MessageModel.BROADCASTING:
            return queues
        group = self._consumers.find(request.consumer_group)
        strategy = STRATEGIES.get(request.strategy or "")
        if group is None or not group.members or strategy is None:
            return None
        client_ids = sorted({member.client_id for member in group.members.values()})
        if mode.mode is RequestMode.POP:
            return popped_queues(request.client_id, queues, client_ids, strategy, mode.pop_share_queue_count)
        if not self._settings.server_load_balancer_enable:
            return queues
        return strategy(request.client_id, queues, client_ids)

    async def _queues_of(self, topic: str) -> list[MessageQueue] | None:
        """Return all queues of a topic that can be read, sorted; None if no route is known."""
        if self._routes is None:
            own = self._topics.find(topic)
            if own is None:
                return None
            return [
                MessageQueue(topic, self._settings.broker_name, queue_id)
                for queue_id in range(own.read_queue_count)
            ]
        try:
            return (await self._routes.get(topic)).subscribe_queues()
        except CometMQError:
            return None
