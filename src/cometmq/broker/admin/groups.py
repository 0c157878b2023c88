"""Operators' requests about consumer and producer groups. (RocketMQ: AdminBrokerProcessor.java.)"""

from collections.abc import Iterable, Mapping
from functools import partial

from msgspec.structs import replace

from cometmq.broker.handlers import Handlers
from cometmq.broker.large_answers import TURN_MAX, encoded, made, page, with_body
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused, outcome
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.consumers import ConsumerGroup, Consumers
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.producers import ConnectedMember, Producers
from cometmq.broker.state.topics import QUEUE_COUNT_MAX, Topics
from cometmq.errors import IllegalName, StoreNotWritable
from cometmq.format.java import fastjson
from cometmq.format.layout import valid_group
from cometmq.message import MessageQueue
from cometmq.net.server import Session
from cometmq.store.read.reading import PAUSE, Reading
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import (
    ClientConnection,
    ConsumeOffset,
    ConsumerConnections,
    ConsumeStats,
    GroupConfig,
    ProducerConnections,
    TopicNames,
    encode,
)
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import (
    ConsumerGroupHeader,
    DeleteGroupHeader,
    GetAllGroupConfigHeader,
    GetAllGroupConfigResponseHeader,
    GetConsumeStatsHeader,
    GroupHeader,
    NoFields,
    ProducerGroupHeader,
    fields,
)


class GroupAdmin:
    """Creates, deletes and describes groups."""

    def __init__(
        self,
        groups: Groups,
        consumers: Consumers[Session],
        producers: Producers[Session],
        offsets: Offsets,
        topics: Topics,
        store: MessageStore,
        reads: Reads,
        settings: BrokerSettings,
    ) -> None:
        self._groups = groups
        self._consumers = consumers
        self._producers = producers
        self._offsets = offsets
        self._topics = topics
        self._store = store
        self._reads = reads
        self._broker_name = settings.broker_name
        self._bodies = RequestBodies(settings.body_limits)

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.create,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.config,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all_configs,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all_offsets,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producers,
            RequestCode.GET_CONSUME_STATS: self.progress,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics,
        }

    def create(self, session: Session, command: Command, _header: NoFields) -> None:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP; answered once the group is saved."""
        group = self._bodies.decode(GroupConfig, command)
        if not 0 <= group.retry_queue_count <= QUEUE_COUNT_MAX:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"group {group.group}: retryQueueNums {group.retry_queue_count} "
                f"is not in 0 to {QUEUE_COUNT_MAX}",
            )
        try:
            self._groups.put(replace(group, attributes=self._changed_attributes(group)))
        except IllegalName as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        self._answer_when_saved(session, command, group.group)

    def _answer_when_saved(self, session: Session, command: Command, name: str) -> None:
        """Answer once a group's present state is on the disk, or with the disk's error."""
        if not command.is_oneway:
            self._groups.when_saved(name, lambda error: session.send(outcome(command, error)))

    def _changed_attributes(self, group: GroupConfig) -> dict[str, str]:
        """Return a group's attributes, changed by ``+name`` and ``-name`` in the request. Raises Refused."""
        known = self._groups.find(group.group)
        changed = dict(known.attributes) if known else {}
        for name, value in group.attributes.items():
            if name[:1] == "+" and name[1:]:
                changed[name[1:]] = value
            elif name[:1] == "-":
                changed.pop(name[1:], None)
            else:
                raise Refused(
                    ResponseCode.INVALID_PARAMETER,
                    f"group {group.group}: attribute {name[:60]!r}: use +name to set one, -name to remove it",
                )
        return changed

    def delete(self, session: Session, command: Command, header: DeleteGroupHeader) -> None:
        """DELETE_SUBSCRIPTIONGROUP; its offsets, if requested, are deleted once that is saved."""
        self._groups.delete(valid_group(header.group))

        def delete_offsets(error: StoreNotWritable | None) -> None:
            if error is None and header.clean_offset:
                self._offsets.delete_group(header.group)

        self._groups.when_saved(header.group, delete_offsets)
        self._answer_when_saved(session, command, header.group)

    def config(self, _session: Session, command: Command, header: GroupHeader) -> Command:
        """GET_SUBSCRIPTIONGROUP_CONFIG."""
        name = header.group
        group = self._groups.find(name)
        if group is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group:{name}")
        return response(command, body=encode(group))

    def all_configs(
        self, session: Session, command: Command, header: GetAllGroupConfigHeader
    ) -> Command | None:
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: all of them, or a page."""
        table = self._groups.as_table()
        answer = fields(GetAllGroupConfigResponseHeader(len(table.groups)))
        table.groups = page(table.groups, header.first, header.max_count)
        make = partial(with_body, command, ext_fields=answer)
        return self._reads.answer(session, command, encoded(table, len(table.groups)), make)

    def all_offsets(self, session: Session, command: Command, _header: NoFields) -> Command | None:
        """GET_ALL_CONSUMER_OFFSET."""
        return self._reads.answer(session, command, self._all_offsets(), partial(with_body, command))

    def consumers(self, session: Session, command: Command, header: ConsumerGroupHeader) -> Command | None:
        """GET_CONSUMER_CONNECTION_LIST: the members and subscriptions of a group."""
        name = header.consumer_group
        group = self._consumers.find(name)
        if group is None or not group.members:
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
        return self._reads.answer(session, command, _consuming(group), partial(with_body, command))

    def producers(self, session: Session, command: Command, header: ProducerGroupHeader) -> Command | None:
        """GET_PRODUCER_CONNECTION_LIST."""
        name = header.producer_group
        members = self._producers.members(name)
        if not members:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        return self._reads.answer(session, command, _producing(members), partial(with_body, command))

    def topics(self, session: Session, command: Command, header: GroupHeader) -> Command | None:
        """QUERY_TOPICS_BY_CONSUMER: the topics in which a group has offsets."""
        name = header.group
        topics = sorted(self._offsets.topics_of(name))
        reading = encoded(TopicNames(topics=topics), len(topics))
        return self._reads.answer(session, command, reading, partial(with_body, command))

    def progress(self, session: Session, command: Command, header: GetConsumeStatsHeader) -> Command | None:
        """GET_CONSUME_STATS: the lag of a group in each queue."""
        name = header.consumer_group
        topics = {topic for topic in (header.topics or "").split(";") if topic}  # even if not subscribed to
        if not topics:
            topics = {header.topic} if header.topic else self._offsets.topics_of(name)
            topics = {topic for topic in topics if self._consumers.may_consume(name, topic)}
        return self._reads.answer(session, command, self._progress(name, topics), partial(with_body, command))

    def _progress(self, group: str, topics: Iterable[str]) -> Reading[bytes]:
        store = self._store
        offsets: dict[MessageQueue, ConsumeOffset] = {}
        queues = (
            MessageQueue(topic, self._broker_name, queue_id)
            for topic in sorted(topics)
            if (config := self._topics.find(topic)) is not None
            for queue_id in range(config.read_queue_count)
        )
        for queue in queues:
            if len(offsets) % TURN_MAX == TURN_MAX - 1:
                yield PAUSE
            topic, queue_id = queue.topic, queue.queue_id
            committed = self._offsets.committed(group, topic, queue_id) or 0
            last_time = yield from store.readings.store_time_at(topic, queue_id, committed - 1)
            offsets[queue] = ConsumeOffset(
                broker_offset=store.max_queue_offset(topic, queue_id),
                consumer_offset=committed,
                last_time=max(last_time, 0),
                pull_offset=max(committed, self._offsets.pulled(group, topic, queue_id) or 0),
            )
        return (yield from encoded(ConsumeStats(offsets=offsets), len(offsets)))

    def _all_offsets(self) -> Reading[bytes]:
        """Copy some offsets in each turn of the loop: only one group's in one topic must be consistent."""
        keys = self._offsets.keys()
        copies: dict[str, dict[int, int]] = {}
        for first in range(0, len(keys), TURN_MAX):
            if first:
                yield PAUSE
            copies |= self._offsets.copies(keys[first : first + TURN_MAX])

        def write() -> bytes:
            return fastjson.dumps(self._offsets.as_table(copies)).encode()

        return (yield from made(write, len(copies)))


def _consuming(group: ConsumerGroup[Session]) -> Reading[bytes]:
    connections = yield from _connections(group.members)
    answer = ConsumerConnections(
        connections,
        group.consume_from_where,
        group.consume_type,
        group.message_model,
        {topic: subscription.data for topic, subscription in group.subscriptions.items()},
        group.member_subscriptions.differences() or None,
    )
    return (yield from encoded(answer, len(connections) + len(group.subscriptions)))


def _producing(members: Mapping[Session, ConnectedMember]) -> Reading[bytes]:
    connections = yield from _connections(members)
    return (yield from encoded(ProducerConnections(connections), len(connections)))


def _connections(members: Mapping[Session, ConnectedMember]) -> Reading[list[ClientConnection]]:
    """Describe the present members, some in each turn of the loop."""
    connections: list[ClientConnection] = []
    for session, member in list(members.items()):
        if len(connections) % TURN_MAX == TURN_MAX - 1:
            yield PAUSE
        connections.append(ClientConnection(str(session), member.client_id, member.language, member.version))
    return connections
