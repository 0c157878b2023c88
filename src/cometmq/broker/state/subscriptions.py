"""The checks of a pull's or pop's group, topic and subscription, and the filter of its messages.

The checks are in RocketMQ's order, with its codes. (RocketMQ: PullMessageProcessor.java.)
"""

from collections.abc import Callable, Container
from functools import lru_cache
from typing import Final, NamedTuple

from cometmq.broker.refused import Refused
from cometmq.broker.state.consumer_filters import ConsumerFilters, compile_filter, is_tag
from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.record_filters import RetryFilter, SqlFilter
from cometmq.broker.state.topics import PERM_READ, Topics
from cometmq.errors import FormatError
from cometmq.filter import tag
from cometmq.filter.sql92 import Sql92
from cometmq.format.layout import RETRY_PREFIX
from cometmq.net.server import Session
from cometmq.store.read.get import RecordFilter
from cometmq.wire.bodies import GroupConfig, TopicConfig
from cometmq.wire.codes import ResponseCode
from cometmq.wire.headers import PullFlag, PullHeader

EXPRESSIONS_KNOWN_MAX: Final = 1_024
"""Most tag expressions whose filters are remembered: each pop brings its group's."""
EXPRESSION_KNOWN_LENGTH_MAX: Final = 256
"""Longest one that is remembered, in characters."""


class PullFilter(NamedTuple):
    """The filter of a pull: messages must pass both parts; None lets any message pass.

    Attributes:
        state_version: counts the changes of topics, groups and consumers before the pull was checked.
    """

    tags_codes: Container[int] | None = None
    record_filter: RecordFilter | None = None
    state_version: int = 0


class NotLatest(Refused):
    """Raised for a pull of a newer version of a subscription than the broker knows."""


class Subscriptions:
    """Checks pulls and pops, and finds the filters of their messages.

    Args:
        property_filter: whether other filters than tags are allowed.
        filter_retry: whether they apply to the group's retry topic too.
    """

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        consumers: Consumers[Session],
        filters: ConsumerFilters,
        *,
        permission: int,
        property_filter: bool,
        filter_retry: bool,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._filters = filters
        self._permission = permission
        self._property_filter = property_filter
        self._filter_retry = filter_retry
        self._state_version = 0
        self.when_changed(self._count_change)

    def when_changed(self, action: Callable[..., object]) -> None:
        """Call ``action`` when topics, groups or consumers change: ``check_pull`` may differ then."""
        self._topics.on_change.append(action)
        self._groups.on_change.append(action)
        self._consumers.on_change.append(action)

    def compile(self, expression_type: str | None, expression: str | None) -> Sql92 | None:
        """Compile a filter; return None for one by tags. Raises Refused."""
        if is_tag(expression_type):
            return None
        self._check_allowed(expression_type)
        try:
            return compile_filter(expression_type, expression or "")
        except FormatError as error:
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None

    def check_pull(self, header: PullHeader) -> PullFilter:
        """Check a pull and return its filter; its group is created if the settings allow that.

        Raises Refused, IllegalName.
        """
        self.check_readable()
        group = self._find_or_create_group(header.consumer_group)
        topic = self._find_topic(header.topic)
        if not 0 <= header.queue_id < topic.read_queue_count:
            raise _no_queue(header.queue_id, topic)
        has_own = header.sys_flag & PullFlag.SUBSCRIPTION
        found = self._own_filter(header) if has_own else self._registered_filter(header, group)
        return found._replace(state_version=self._state_version)

    def check_readable(self) -> None:
        """Check that the broker delivers messages. Raises Refused."""
        if not self._permission & PERM_READ:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"this broker delivers no messages: brokerPermission is {self._permission}, "
                f"reading needs {PERM_READ}",
            )

    def check_pop(self, group: str, topic: str, queue_id: int) -> TopicConfig:
        """Check a pop's topic, queue and group, in this order; a negative queue id means all queues.

        Returns the topic; the group is created if the settings allow that. Raises Refused, IllegalName.
        """
        config = self._find_topic(topic)
        if queue_id >= config.read_queue_count:
            raise _no_queue(queue_id, config)
        self._find_or_create_group(group)
        return config

    def filter_of(self, expression_type: str | None, expression: str | None) -> PullFilter:
        """Return the filter of an expression that came with a request. Raises Refused."""
        if (compiled := self.compile(expression_type, expression)) is not None:
            return PullFilter(record_filter=SqlFilter(compiled))
        is_short = expression is None or len(expression) <= EXPRESSION_KNOWN_LENGTH_MAX
        try:
            return (_tag_filter if is_short else _tag_filter.__wrapped__)(expression)
        except FormatError as error:
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None

    def is_out_of_date(self, pull_filter: PullFilter) -> bool:
        """Check whether topics, groups or consumers have changed since a pull was checked."""
        return pull_filter.state_version != self._state_version

    def _count_change(self, *_: object) -> None:
        self._state_version += 1

    def _find_or_create_group(self, name: str) -> GroupConfig:
        group = self._groups.find_or_create(name)
        if group is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist: create it, or set autoCreateSubscriptionGroup",
            )
        if not group.consume_enable:
            raise Refused(ResponseCode.NO_PERMISSION, f"subscription group [{name}] may not consume")
        return group

    def _find_topic(self, name: str) -> TopicConfig:
        topic = self._topics.find(name)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist: create it, or send first")
        if not topic.perm & PERM_READ:
            raise Refused(
                ResponseCode.NO_PERMISSION, f"topic[{name}] may not be read: its perm is {topic.perm}"
            )
        return topic

    def _own_filter(self, header: PullHeader) -> PullFilter:
        """Return the filter in a pull's own header."""
        own = self.filter_of(header.expression_type, header.subscription)
        return own if own.record_filter is None else self._by_sql(header, own.record_filter)

    def _registered_filter(self, header: PullHeader, config: GroupConfig) -> PullFilter:
        """Return the filter that heartbeats of a pull's group have registered."""
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
        if self._groups.is_forbidden(name, header.topic):
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{name}] is forbidden for topic[{header.topic}]",
            )
        subscription = group.subscriptions.get(header.topic)
        if subscription is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist: group {name} does not subscribe to {header.topic}",
            )
        if subscription.data.version < header.sub_version:
            raise NotLatest(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                f"the consumer's subscription not latest: {subscription.data.version} is known, "
                f"the pull is of {header.sub_version}",
            )
        if is_tag(subscription.data.expression_type):
            return PullFilter(subscription.tags_codes)
        known = self._filters.find(header.topic, name)
        if known is None:
            raise Refused(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"the filter of group {name} on {header.topic} is not known: its expression may be wrong",
            )
        if known.data.client_version < header.sub_version:
            raise Refused(
                ResponseCode.FILTER_DATA_NOT_LATEST,
                f"the filter of group {name} on {header.topic} is not the latest: "
                f"{known.data.client_version} is known, the pull is of {header.sub_version}",
            )
        self._check_allowed(subscription.data.expression_type)
        return self._by_sql(header, SqlFilter(known.compiled, known))

    def _by_sql(self, header: PullHeader, own: RecordFilter) -> PullFilter:
        if self._filter_retry and header.topic.startswith(RETRY_PREFIX):
            group = header.topic.removeprefix(RETRY_PREFIX)
            return PullFilter(record_filter=RetryFilter(self._filters, group))
        return PullFilter(record_filter=own)

    def _check_allowed(self, expression_type: str | None) -> None:
        """Check that filters other than tags are allowed. Raises Refused."""
        if not self._property_filter:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                "The broker does not support consumer to filter message by "
                f"{str(expression_type)[:20]}: set enablePropertyFilter",
            )


@lru_cache(EXPRESSIONS_KNOWN_MAX)
def _tag_filter(expression: str | None) -> PullFilter:
    """Return the filter of a tag expression. Raises FormatError."""
    return PullFilter(tag.codes(tag.parse(expression)))


def _no_queue(queue_id: int, topic: TopicConfig) -> Refused:
    return Refused(
        ResponseCode.INVALID_PARAMETER,
        f"queueId[{queue_id}] is illegal, topic:[{topic.topic}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_count}]",
    )
