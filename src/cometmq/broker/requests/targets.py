"""Where a send goes: the topic that it names, created if need be, or a group's dead letters.

The checks come in RocketMQ's order, with its codes. (RocketMQ: AbstractSendMessageProcessor.msgCheck,
SendMessageProcessor.handleRetryAndDLQ.)
"""

from collections.abc import Iterable
from functools import partial
from itertools import count
from typing import Final, NamedTuple

from cometmq.broker.refused import Refused
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.locks import QueueLocks
from cometmq.broker.state.saved_entries import Change
from cometmq.broker.state.topics import PERM_WRITE, Topics, is_for_producers
from cometmq.cluster.system_names import AUTO_CREATE_TOPIC
from cometmq.errors import IllegalName
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX, valid_topic
from cometmq.kernels.sends.send_topics import SendTopics
from cometmq.wire.bodies import TopicConfig
from cometmq.wire.codes import ResponseCode, Version
from cometmq.wire.headers import SendHeader

TARGETS_MAX: Final = 10_000
"""So many topics are remembered as checked."""


class Target(NamedTuple):
    """A topic that takes messages.

    Attributes:
        queue_count: queue ids at or above it are refused.
        write_queue_count: a message without a queue id goes to one of so many.
        creation: what creates the topic, as long as the disk or a name server does not know of it.
    """

    topic: str
    queue_count: int
    write_queue_count: int
    creation: Change[TopicConfig] | None = None


class Targets:
    """Finds where sends go, and creates topics that they may create.

    Attributes:
        table: the plain topics that are known, until they change, and those of their queues that have had a
            message.
    """

    def __init__(self, topics: Topics, groups: Groups, locks: QueueLocks, *, permission: int) -> None:
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._permission = permission
        self._turn = count()
        self.table = SendTopics[Target]()
        topics.on_change.append(self._forget)

    def find_or_create(self, header: SendHeader, version: int) -> Target:
        """Return where a message goes; its topic or its group's retry topic is created if need be.

        Raises Refused.
        """
        return self.table.find(header.topic) or self._check(header, version)

    def queue_id(self, wanted: int, target: Target) -> int:
        """Return the queue that a send goes to: the one it names, or any in turn. Raises Refused."""
        if wanted >= target.queue_count:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"topic {target.topic} has no queue {wanted}: it has {target.queue_count}, from 0 on",
            )
        if wanted >= 0:
            return wanted
        if not target.write_queue_count:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"topic {target.topic} has no queue to write to")
        return next(self._turn) % target.write_queue_count

    def learn(self, topic: str, queue_id: int, queue: int) -> bool:
        """Store the number of a queue, if its topic is a plain one; once that is known, if it is new.

        Returns whether it is stored now.
        """
        is_known = self.table.find(topic) is not None
        if is_known:
            self.table.put_queue(topic, queue_id, queue)
        elif _is_plain(topic) and (creation := self._topics.creation(topic)) is not None:
            creation.when_known(partial(self._learn_known, topic, queue_id, queue))
        return is_known

    def _learn_known(self, name: str, queue_id: int, queue: int) -> None:
        if (topic := self._topics.find(name)) is not None:
            self._remember(self._target(topic))
            self.learn(name, queue_id, queue)

    def _remember(self, target: Target) -> None:
        if target.creation is not None:
            return
        if len(self.table) >= TARGETS_MAX:
            self.table.clear()
        self.table.put_topic(target.topic, target, target.queue_count)

    def _forget(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.table.forget(topic)

    def _check(self, header: SendHeader, version: int) -> Target:
        name = header.topic
        topic = self._topics.find(name)
        if not self._permission & PERM_WRITE and topic is not None and topic.order:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"this broker takes no messages for ordered topics such as {name}: brokerPermission "
                f"is {self._permission}, writing needs {PERM_WRITE}",
            )
        try:
            valid_topic(name)
        except IllegalName as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        if not is_for_producers(name):
            raise Refused(
                ResponseCode.NO_PERMISSION, f"topic {name} is the broker's own: send to one of yours"
            )
        if name.startswith(RETRY_PREFIX):
            return self._retry(header, version)
        target = self._target(topic or self._create(header))
        self._remember(target)
        return target

    def _create(self, header: SendHeader) -> TopicConfig:
        topic = self._topics.create_by_send(
            header.topic, pattern=header.default_topic, queue_count=header.default_topic_queue_count
        )
        if topic is None:
            raise Refused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {header.topic} does not exist and {header.default_topic!r} is no pattern to make it "
                f"from: create it, or set autoCreateTopicEnable and send with {AUTO_CREATE_TOPIC}",
            )
        return topic

    def _retry(self, header: SendHeader, version: int) -> Target:
        """Judge a message that a consumer sends back by itself: to its retry topic or to the dead letters."""
        group_name = header.topic.removeprefix(RETRY_PREFIX)
        group = self._groups.find_or_create(group_name)
        if group is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"consumer group {group_name} does not exist: create it, or set autoCreateSubscriptionGroup",
            )
        times_max = group.retry_max_times
        if version >= Version.V3_4_9 and header.max_reconsume_times is not None:
            times_max = header.max_reconsume_times
        if header.reconsume_times > times_max or self._locks.is_orderly(group_name):
            return self._target(self._topics.find_or_create(DLQ_PREFIX + group_name))
        return self._target(self._topics.find_or_create(header.topic))

    def _target(self, topic: TopicConfig) -> Target:
        most = max(topic.read_queue_count, topic.write_queue_count)
        return Target(topic.topic, most, topic.write_queue_count, self._topics.creation(topic.topic))


def _is_plain(topic: str) -> bool:
    """Check whether sends to a topic are judged by the topic alone."""
    return is_for_producers(topic) and not topic.startswith(RETRY_PREFIX)
