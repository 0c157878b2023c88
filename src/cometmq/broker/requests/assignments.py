"""Which queues the members of a group read, whether they pull or pop, and which they lock.

Members that leave the division of queues to the broker ask it for their share every 20 s. (RocketMQ:
QueryAssignmentProcessor.java.)
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from cometmq.broker.handlers import Handlers
from cometmq.broker.large_answers import encoded, made, with_body
from cometmq.broker.name_servers.topic_routes import TopicRoutes
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused, outcome
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.settings_by_subject import AssignmentSettings
from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.locks import QueueLocks
from cometmq.broker.state.pop.message_modes import MODES_MAX, RequestModes
from cometmq.broker.state.topics import Topics, is_legal
from cometmq.cluster.assignment import STRATEGIES, popped_queues
from cometmq.cluster.route import Route
from cometmq.errors import StoreNotWritable
from cometmq.format.layout import RETRY_PREFIX
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.net.boundary import attempt
from cometmq.net.server import Session
from cometmq.wire.bodies import (
    AssignmentRequest,
    AssignmentResponse,
    LockRequest,
    LockResponse,
    MessageModel,
    MessageModeRequest,
    QueueAssignment,
    RequestMode,
    encode,
)
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import NoFields

_log = get_logger(__name__)

Share: TypeAlias = Callable[[list[MessageQueue]], list[MessageQueue] | None]
"""Chooses a client's queues from all queues of a topic, sorted; None if that cannot be decided."""


class Assignments:
    """Assigns queues to the members of groups, and sets how they read them."""

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        consumers: Consumers[Session],
        modes: RequestModes,
        reads: Reads,
        routes: TopicRoutes,
        bodies: RequestBodies,
        settings: AssignmentSettings,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._modes = modes
        self._routes = routes
        self._reads = reads
        self._bodies = bodies
        self._divides = settings.server_load_balancer_enable
        self._default_mode = settings.default_message_request_mode
        self._default_share_count = settings.default_pop_share_queue_num

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.all_modes,
        }

    async def stop(self) -> None:
        """Close the connections to the name servers; queries that wait for them are not answered."""
        await self._routes.stop()

    def query(self, session: Session, command: Command, _header: NoFields) -> None:
        """QUERY_ASSIGNMENT: the queues that a client reads; null if it should keep those that it has."""
        request = self._bodies.decode(AssignmentRequest, command)

        def answer(route: Route | None) -> None:
            attempt(session, (command,), self._answer, session, command, request, route)

        if is_legal(request.topic):
            self._routes.when_known(request.topic, answer)
        else:
            answer(None)

    def set_mode(self, session: Session, command: Command, _header: NoFields) -> None:
        """SET_MESSAGE_REQUEST_MODE: set whether a group pulls or pops; answered once that is saved.

        A group that does not exist yet is created, as its first heartbeat would do.
        """
        mode = self._bodies.decode(MessageModeRequest, command)
        if mode.topic.startswith(RETRY_PREFIX):
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"topic[{mode.topic:.130}] is a retry topic, which has no mode: set that of the topic itself",
            )
        if self._topics.find(mode.topic) is None:
            raise Refused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{mode.topic:.130}] not exist: create it first"
            )
        if not self._modes.has_room(mode.topic, mode.consumer_group):
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"{MODES_MAX} modes are set, the most that are kept: delete groups or topics without use",
            )
        if self._groups.find_or_create(mode.consumer_group) is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group[{mode.consumer_group:.130}] not exist: create it, "
                "or set autoCreateSubscriptionGroup",
            )
        self._modes.put(mode)
        if not command.is_oneway:
            self._modes.when_saved(mode.topic, lambda error: session.send(outcome(command, error)))

    def all_modes(self, session: Session, command: Command, _header: NoFields) -> Command | None:
        """GET_ALL_MESSAGE_REQUEST_MODE: the modes of all groups, as they are in the broker's file."""
        table = self._modes.as_table()
        count = sum(map(len, table.modes.values()))
        return self._reads.answer(session, command, encoded(table, count), partial(with_body, command))

    def _answer(
        self, session: Session, command: Command, request: AssignmentRequest, route: Route | None
    ) -> None:
        """Answer a QUERY_ASSIGNMENT by a topic's route; if that has many queues, in a thread."""
        if session.closed:
            return
        mode = self._mode(request.topic, request.consumer_group)
        make = partial(_encode, route, mode.mode, self._share(request, mode))
        count = 0 if route is None else sum(counts.read_count for counts in route.queues)
        answer = self._reads.answer(session, command, made(make, count), partial(with_body, command))
        if answer is not None and not command.is_oneway:
            session.send(answer)

    def _mode(self, topic: str, group: str) -> MessageModeRequest:
        """Return the mode of a group and topic: what an operator has set, else the default."""
        if (mode := self._modes.find(topic, group)) is not None:
            return mode
        default = RequestMode.PULL if topic.startswith(RETRY_PREFIX) else self._default_mode
        return MessageModeRequest(topic, group, default, self._default_share_count)

    def _share(self, request: AssignmentRequest, mode: MessageModeRequest) -> Share:
        """Return what chooses the queues that a client reads."""
        if request.message_model is MessageModel.BROADCASTING or not self._divides:
            return lambda queues: queues
        group = self._consumers.find(request.consumer_group)
        strategy = STRATEGIES.get(request.strategy or "")
        if group is None or not group.members or strategy is None:
            return lambda _: None
        client_id, client_ids = request.client_id, group.client_ids()
        if mode.mode is RequestMode.PULL:
            return lambda queues: strategy(client_id, queues, client_ids)
        share_count = mode.pop_share_queue_count
        return lambda queues: popped_queues(client_id, queues, client_ids, strategy, share_count)


class LockRequests:
    """Locks and unlocks queues for clients of orderly groups: granted once the owner is on the disk."""

    def __init__(self, locks: QueueLocks, bodies: RequestBodies) -> None:
        self._locks = locks
        self._bodies = bodies
        self._waiting: list[tuple[Session, Command]] = []
        self._saving: asyncio.Task[None] | None = None
        self._stopping = False

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
        }

    def lock(self, session: Session, command: Command, _header: NoFields) -> Command | None:
        """LOCK_BATCH_MQ: lock queues for a client, or renew its locks."""
        if self._stopping:
            raise Refused(ResponseCode.SYSTEM_BUSY, "the broker is stopping: try again")
        body = self._bodies.decode(LockRequest, command)
        granted = self._locks.lock(body.consumer_group, body.client_id, body.queues, session.user)
        answer = response(command, body=encode(LockResponse(granted)))
        if command.is_oneway or not (self._locks.changed or self._saving):
            return answer
        self._waiting.append((session, answer))
        self._save_soon()
        return None

    def unlock(self, session: Session, command: Command, _header: NoFields) -> Command:
        """UNLOCK_BATCH_MQ: unlock queues of a client."""
        body = self._bodies.decode(LockRequest, command)
        self._locks.unlock(body.consumer_group, body.client_id, body.queues, session.user)
        self._save_soon()
        return response(command)

    async def stop(self) -> None:
        """Grant no more locks, and wait until all waiting requests are answered."""
        self._stopping = True
        if self._saving is not None:
            await self._saving

    def _save_soon(self) -> None:
        if self._saving is None and not self._stopping:
            self._saving = asyncio.create_task(self._save())

    async def _save(self) -> None:
        """Write changed locks, then answer the requests that came before; repeat while there are more."""
        answers: list[tuple[Session, Command]] = []
        try:
            while self._waiting or self._locks.changed:
                answers, self._waiting = self._waiting, []
                if (changes := self._locks.take_changed()) is not None:
                    await asyncio.to_thread(self._locks.write, changes)
                for session, answer in answers:
                    session.send(answer)
        except (OSError, StoreNotWritable) as error:
            _log.error("locks are granted that a restart of this broker would lose: %s", error)
            for session, answer in [*answers, *self._waiting]:
                session.send(answer)
            self._waiting.clear()
        finally:
            self._saving = None


def _encode(route: Route | None, mode: RequestMode, share: Share) -> bytes:
    """Encode a client's share of a topic's queues. Safe from any thread."""
    queues = None if route is None else share(route.subscribe_queues())
    assignments = None if queues is None else [QueueAssignment(queue, mode) for queue in queues]
    return encode(AssignmentResponse(assignments))
