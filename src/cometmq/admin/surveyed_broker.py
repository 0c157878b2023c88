"""One master broker in a survey of its cluster: it is asked for much, and what it refuses is left out.

So is what it answers that cannot be read.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TypeVar

from cometmq.admin.cluster import NOT_FOUND, ClusterAdmin
from cometmq.admin.groups import PAGE
from cometmq.admin.tolerant import Trouble
from cometmq.client.answer import answers_of
from cometmq.cluster.system_names import is_user_group
from cometmq.errors import NetworkError, RemoteError
from cometmq.message import MessageQueue
from cometmq.net.tasks import bounded_map
from cometmq.wire import headers as h
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import ConsumerConnections, ConsumerOffsets, GroupConfigs
from cometmq.wire.bodies.stats import TopicStats, decode_topic_stats
from cometmq.wire.bodies.topic import TopicConfig, TopicTable
from cometmq.wire.codes import RequestCode

AnswerT = TypeVar("AnswerT")

QueueLags = dict[str, dict[MessageQueue, int]]
"""Messages that groups have not handled, by group and queue."""


class SurveyedBroker:
    """One master.

    Args:
        at_once: most requests that wait for its answers at a time.
    """

    def __init__(self, cluster: ClusterAdmin, name: str, address: str, at_once: int) -> None:
        self._cluster = cluster
        self._name = name
        self._address = address
        self._at_once = at_once
        self._troubles: dict[str, Trouble] = {}  # by text: each once
        self._committing: set[str] = set()
        self._stats: dict[str, TopicStats | None] = {}  # of topics that it was asked about

    @property
    def troubles(self) -> list[Trouble]:
        """What it refused so far, each reason once."""
        return list(self._troubles.values())

    @property
    def committing(self) -> AbstractSet[str]:
        """The groups that have committed offsets, once ``lags`` has returned."""
        return self._committing

    async def topics(self) -> dict[str, TopicConfig]:
        """Return its topics by name."""
        code, header = RequestCode.GET_ALL_TOPIC_CONFIG, h.GetAllTopicConfigHeader()
        found = await self._ask(code, header, partial(decode, TopicTable))
        return {} if found is None else found.topics

    async def groups(self) -> set[str]:
        """Return the users' groups that it has settings of."""
        header = h.GetAllGroupConfigHeader(0, None, PAGE)
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        found = await self._ask(code, header, partial(decode, GroupConfigs))
        return set() if found is None else set(filter(is_user_group, found.groups))

    async def stats(self, topics: Iterable[str]) -> dict[str, TopicStats]:
        """Return the statistics of topics, one request for each that was not asked about before."""
        wanted = list(topics)
        asked = [topic for topic in wanted if topic not in self._stats]
        answers = await bounded_map(self._stats_of, asked, self._at_once)
        self._stats |= zip(asked, answers, strict=True)
        return {topic: found for topic in wanted if (found := self._stats[topic]) is not None}

    async def connections(self, groups: Iterable[str]) -> dict[str, ConsumerConnections]:
        """Return the members of groups, one request for each; none for a group without members."""
        wanted = list(groups)
        answers = await bounded_map(self._connections_of, wanted, self._at_once)
        return {group: found for group, found in zip(wanted, answers, strict=True) if found is not None}

    async def lags(self) -> QueueLags:
        """Return the lags of users' groups in queues, as far as they are known.

        One request to a broker that adds the ends of queues to the offsets, and where groups begin that have
        committed nothing, as CometMQ's do. To another one more for each consumed topic: then a topic's queues
        without a committed offset are counted from 0.
        """
        code, header = RequestCode.GET_ALL_CONSUMER_OFFSET, h.AllOffsetsHeader(with_ends=True)
        answer = await self._ask(code, header, partial(decode, ConsumerOffsets))
        if answer is None:
            return {}
        begins = answer.begins or {}
        places: list[tuple[str, str, dict[int, int]]] = []
        for key in dict.fromkeys((*answer.offsets, *begins)):
            topic, _, group = key.rpartition("@")
            if is_user_group(group):
                places.append((topic, group, begins.get(key, {}) | answer.offsets.get(key, {})))
            if answer.offsets.get(key):
                self._committing.add(group)
        ends = answer.ends
        if ends is None:
            ends = await self._ends(sorted({topic for topic, _, _ in places}))
        name = self._name
        queues = {
            topic: [(MessageQueue(topic, name, queue_id), end) for queue_id, end in of_topic.items()]
            for topic, of_topic in ends.items()
        }
        found: QueueLags = {}
        for topic, group, offsets in places:
            found.setdefault(group, {}).update(
                (queue, max(end - offsets.get(queue.queue_id, 0), 0))
                for queue, end in queues.get(topic, ())
                if answer.begins is None or queue.queue_id in offsets
            )
        return found

    async def _ends(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        """Return the ends of this broker's queues by topic and queue id."""
        return {
            topic: {
                queue.queue_id: at.max_offset
                for queue, at in stats.offsets.items()
                if queue.broker_name == self._name
            }
            for topic, stats in (await self.stats(topics)).items()
        }

    async def _stats_of(self, topic: str) -> TopicStats | None:
        return await self._ask(RequestCode.GET_TOPIC_STATS_INFO, h.TopicHeader(topic), decode_topic_stats)

    async def _connections_of(self, group: str) -> ConsumerConnections | None:
        code, header = RequestCode.GET_CONSUMER_CONNECTION_LIST, h.ConsumerGroupHeader(group)
        return await self._ask(code, header, partial(decode, ConsumerConnections))

    async def _ask(
        self, code: RequestCode, header: h.Header, read: Callable[[bytes], AnswerT]
    ) -> AnswerT | None:
        """Return what is read from the body of an answer.

        It is None if there is no such topic or group now, or the broker refuses, or answers what cannot be
        read.
        """
        try:
            answer = await self._cluster.ask(self._address, code, header)
            with answers_of(self._address):
                return read(answer.body)
        except RemoteError as error:
            if error.code not in NOT_FOUND:
                self._troubles[str(error)] = Trouble(self._name, self._address, str(error))
        except NetworkError as error:
            self._troubles[str(error)] = Trouble(self._name, self._address, str(error))
        return None
