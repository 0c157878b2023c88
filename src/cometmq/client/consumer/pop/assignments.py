"""The assignments of a member that pops: which queues it pops, as the brokers decide.

Each broker of a topic assigns its queues to the members that it knows. Usually every member pops all queues;
an operator can restrict each to a share (``popShareQueueNum``). (RocketMQ: RebalanceImpl.java,
getRebalanceResultFromBroker.)
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from cometmq.client.answer import successful
from cometmq.client.consumer.pop.loop import PopLoop
from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.group.pop_membership import PopMembership
from cometmq.client.requests.pop_requests import whole_brokers
from cometmq.client.waiting import wait_within
from cometmq.cluster.assignment import ALL_QUEUES
from cometmq.cluster.route import Route
from cometmq.errors import CometMQError
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.wire.bodies.body import decode, encode
from cometmq.wire.bodies.pop import AssignmentRequest, AssignmentResponse, RequestMode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

ASSIGNMENT_S: Final = 20.0
UNKNOWN_S: Final = 1.0
"""Interval of queries while an assignment is unknown."""
STRATEGY: Final = "AVG"

_log = get_logger(__name__)


class PopAssignments:
    """The loops of one member.

    Args:
        topics: the topics to consume.
        new_loop: creates the loop of an assignment.
    """

    def __init__(
        self,
        member: PopMembership,
        settings: MemberSettings,
        topics: Mapping[str, object],
        new_loop: Callable[[MessageQueue], PopLoop],
    ) -> None:
        self._member = member
        self._settings = settings
        self._topics = topics
        self._new_loop = new_loop
        self._loops: dict[MessageQueue, PopLoop] = {}
        self._ending: set[PopLoop] = set()
        self._due = asyncio.Event()

    @property
    def queues(self) -> list[MessageQueue]:
        """The assigned queues, sorted; queue id -1 stands for all queues of the topic on the broker."""
        return sorted(self._loops)

    def query_soon(self) -> None:
        """Query the assignments without waiting for the interval."""
        self._due.set()

    async def run(self) -> None:
        """Query the assignments every 20 s, and at ``query_soon``."""
        while True:
            self._due.clear()
            is_known = await self.query()
            await wait_within(self._due, ASSIGNMENT_S if is_known else UNKNOWN_S)

    async def query(self) -> bool:
        """Query and apply the assignments of all topics; return whether all are known and can be popped."""
        assigned = {topic: await self._query_topic(topic) for topic in list(self._topics)}
        not_begun = await self._member.begin(assigned)
        before = self.queues
        for queue in before:
            wanted = assigned.get(queue.topic) if queue.topic in self._topics else []
            if wanted is not None and queue not in wanted:
                self._end(queue)
        for queue in (queue for queues in assigned.values() for queue in queues or ()):
            is_new = queue not in self._loops and queue.topic in self._topics
            if is_new and queue._replace(queue_id=ALL_QUEUES) not in not_begun:
                self._loops[queue] = self._new_loop(queue)
                self._loops[queue].begin()
        if self.queues != before:
            _log.info("%s of %s pops %s", self._settings.client_id, self._settings.group, self.queues)
            self._settings.on_rebalance(self.queues)
        return None not in assigned.values() and not not_begun

    def request_stop(self) -> None:
        """Send no further pops."""
        for queue in self.queues:
            self._end(queue)
        self._settings.on_rebalance([])

    async def stop(self) -> None:
        """Stop all loops at once, after ``request_stop``."""
        await asyncio.gather(*(loop.stop() for loop in self._ending))
        self._ending.clear()

    def _end(self, queue: MessageQueue) -> None:
        loop = self._loops.pop(queue)
        loop.request_stop()
        self._ending = {one for one in self._ending if not one.has_ended} | {loop}

    async def _query_topic(self, topic: str) -> list[MessageQueue] | None:
        """Query the assignment of a topic; None if it is not known now."""
        self._member.routes.expire(topic)
        try:
            route = await self._member.routes.get(topic)
            answer = await self._query_any(route)
        except CometMQError as error:
            _log.debug("the assignment of %s is not known yet: %s", topic, error)
            return None
        if answer is not None and answer.assignments is None:
            return None  # the broker does not know the member yet
        assigned = [] if answer is None or answer.assignments is None else answer.assignments
        if queues := [one.queue for one in assigned if one.mode is RequestMode.POP]:
            return queues
        # Nobody has set that the group pops: these are shares for pulls, of which some members have none.
        return whole_brokers(route.subscribe_queues())

    async def _query_any(self, route: Route) -> AssignmentResponse | None:
        """Query the brokers of a topic until one answers; None if it knows no assignments."""
        request = AssignmentRequest(route.topic, self._settings.group, self._settings.client_id, STRATEGY)
        failure: CometMQError | None = None
        for broker_name in sorted({queue.broker_name for queue in route.subscribe_queues()}):
            command = Command(RequestCode.QUERY_ASSIGNMENT, ext_fields={}, body=encode(request))
            try:
                address = await self._member.routes.master(MessageQueue(route.topic, broker_name, 0))
                answer = await self._member.connections.request(address, command)
                if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    return None
                return decode(AssignmentResponse, successful(answer).body)
            except CometMQError as error:
                failure = error
        if failure is not None:
            raise failure
        return None
