"""May this pull be answered, and with which messages: the group, the topic and the subscription.

The checks come in RocketMQ's order, with its codes. (RocketMQ: PullMessageProcessor.java.)
"""

from collections.abc import Container

from cometmq.broker.consumers import Consumers
from cometmq.broker.groups import Groups
from cometmq.broker.refused import Refused
from cometmq.broker.topics import PERM_READ, Topics
from cometmq.errors import FormatError
from cometmq.filter import tag
from cometmq.net.server import Session
from cometmq.wire.bodies import GroupConfig
from cometmq.wire.codes import ResponseCode
from cometmq.wire.headers import PullFlag, PullHeader

TAG = "TAG"


class Subscriptions:
    """Judges pulls."""

    def __init__(
        self, topics: Topics, groups: Groups, consumers: Consumers[Session], *, permission: int
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._permission = permission

    def tags_codes(self, header: PullHeader) -> Container[int] | None:
        """Give the tags codes that a pull may be answered with, None for any. Raises Refused, IllegalName."""
        if not self._permission & PERM_READ:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"this broker gives no messages: brokerPermission is {self._permission}, "
                f"reading needs {PERM_READ}",
            )
        group = self._group(header.consumer_group)
        self._check_queue(header)
        if header.sys_flag & PullFlag.SUBSCRIPTION:
            return self._sent_along(header)
        return self._registered(header, group)

    def _group(self, name: str) -> GroupConfig:
        group = self._groups.find_or_create(name)
        if group is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist: create it, or set autoCreateSubscriptionGroup",
            )
        if not group.consume_enable:
            raise Refused(ResponseCode.NO_PERMISSION, f"subscription group [{name}] may not consume")
        return group

    def _check_queue(self, header: PullHeader) -> None:
        topic = self._topics.find(header.topic)
        if topic is None:
            raise Refused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist: create it, or send first"
            )
        if not topic.perm & PERM_READ:
            raise Refused(
                ResponseCode.NO_PERMISSION, f"topic[{header.topic}] may not be read: its perm is {topic.perm}"
            )
        if not 0 <= header.queue_id < topic.read_queue_count:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_count}]",
            )

    def _sent_along(self, header: PullHeader) -> Container[int] | None:
        check_expression_type(header.expression_type)
        try:
            return tag.codes(tag.parse(header.subscription))
        except FormatError as error:
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None

    def _registered(self, header: PullHeader, config: GroupConfig) -> Container[int] | None:
        name = header.consumer_group
        group = self._consumers.find(name)
        if group is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's group info not exist: no heartbeat of {name} has come yet",
            )
        if group.is_broadcasting and not config.consume_broadcast_enable:
            raise Refused(
                ResponseCode.NO_PERMISSION, f"the consumer group[{name}] can not consume by broadcast way"
            )
        subscription = group.subscriptions.get(header.topic)
        if subscription is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist: group {name} does not subscribe to {header.topic}",
            )
        if subscription.data.version < header.sub_version:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                f"the consumer's subscription not latest: {subscription.data.version} is known, "
                f"the pull is of {header.sub_version}",
            )
        check_expression_type(subscription.data.expression_type)
        return subscription.tags_codes


def check_expression_type(expression_type: str | None) -> None:
    """Refuse what is no TAG expression."""
    if expression_type and expression_type != TAG:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {expression_type[:20]}",
        )
