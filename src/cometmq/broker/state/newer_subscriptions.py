"""Subscriptions that members of groups have changed since their last heartbeat.

When a Java consumer's share of a topic's queues changes, its subscription gets a new version. Its pulls name
that version at once; the broker learns of it by a heartbeat, which may come 30 s later. Such pulls wait while
the member is asked for its running info, in which its subscriptions are.

Only the subscriptions to the topics of the waiting pulls are taken over: their users may read those topics.
A member is asked once for each version of each, so pulls of one that has no such version, or does not
answer, are refused until its heartbeat comes. RocketMQ refuses all pulls until then.
(RocketMQ: PullMessageProcessor.java, SUBSCRIPTION_NOT_LATEST.)
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from cometmq.broker.client_calls import ClientCalls, NoAnswer
from cometmq.broker.refused import Refused
from cometmq.broker.state.consumer_filters import ConsumerFilters
from cometmq.broker.state.consumers import Consumers
from cometmq.errors import FormatError
from cometmq.logs import get_logger
from cometmq.net.boundary import attempt
from cometmq.net.server import Session
from cometmq.wire.bodies.running import subscriptions_in
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import PullHeader, RunningInfoHeader, fields

ANSWER_S_MAX: Final = 3.0
"""Timeout of a member's answer: its pulls are refused then."""
PULLS_MAX: Final = 10_000
"""Most pulls that wait for answers; more are refused."""

_log = get_logger(__name__)


class _WaitingPull(NamedTuple):
    """A pull that waits for its member's answer."""

    command: Command
    topic: str
    go_on: Callable[[], None]


class NewerSubscriptions:
    """Asks members for subscriptions that are newer than known, and takes them over.

    Args:
        size_max: most bytes of a member's subscriptions.
    """

    def __init__(
        self,
        consumers: Consumers[Session],
        filters: ConsumerFilters,
        calls: ClientCalls,
        *,
        size_max: int,
    ) -> None:
        self._consumers = consumers
        self._filters = filters
        self._calls = calls
        self._size_max = size_max
        self._waiting: dict[tuple[Session, str], list[_WaitingPull]] = {}  # by member: connection and group
        self._waiting_count = 0
        self._asked: dict[Session, dict[tuple[str, str], int]] = {}  # versions by group and topic

    def wait(self, session: Session, command: Command, header: PullHeader, go_on: Callable[[], None]) -> bool:
        """Call ``go_on`` when the member that has sent a pull has answered, or has not in time.

        It is asked unless it is being asked. Returns False if asking is of no use: the pull must be refused.
        """
        name, topic = header.consumer_group, header.topic
        group = self._consumers.find(name)
        member = None if group is None else group.members.get(session)
        if member is None or self._waiting_count >= PULLS_MAX:
            return False
        waiting = self._waiting.get((session, name))
        if waiting is None:
            asked = self._asked.setdefault(session, {})
            if asked.get((name, topic), -1) >= header.sub_version:
                return False
            asked[name, topic] = header.sub_version
            if not self._ask(session, command, name, member.client_id):
                return False
            waiting = self._waiting[session, name] = []
        waiting.append(_WaitingPull(command, topic, go_on))
        self._waiting_count += 1
        return True

    def closed(self, session: Session) -> None:
        """Forget a closed connection."""
        self._asked.pop(session, None)

    def _ask(self, session: Session, command: Command, group: str, client_id: str) -> bool:
        """Ask a member for its running info; return False if too many answers are being waited for."""
        header = fields(RunningInfoHeader(group, client_id))
        request = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, ext_fields=header)
        make = partial(self._answered, session, group)
        try:
            self._calls.call(session, command, session, request, make, answer_s_max=ANSWER_S_MAX)
        except Refused as error:
            _log.warning("group %.130s: a newer subscription is not asked for: %s", group, error)
            return False
        return True

    def _answered(self, session: Session, group: str, _: Command, answer: Command | NoAnswer) -> None:
        """Apply what a member has answered; its pulls are checked again, and go on or are refused."""
        pulls = self._waiting.pop((session, group))
        self._waiting_count -= len(pulls)
        if isinstance(answer, Command) and answer.code == ResponseCode.SUCCESS:
            attempt(session, (), self._take_over, session, group, {pull.topic for pull in pulls}, answer)
        for pull in pulls:
            attempt(session, (pull.command,), pull.go_on)

    def _take_over(self, session: Session, group: str, topics: set[str], answer: Command) -> None:
        try:
            found = subscriptions_in(answer.body, self._size_max)
        except FormatError as error:
            _log.warning("group %.130s: %s has answered without subscriptions: %.500s", group, session, error)
            return
        for data in found:
            if data.topic in topics and self._consumers.update(session, group, data):
                self._filters.update(group, data)
