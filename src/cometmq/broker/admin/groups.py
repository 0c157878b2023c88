"""Operators' requests about consumer and producer groups. (RocketMQ: AdminBrokerProcessor.java.)"""

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from cometmq.broker.admin.attributes import OF_GROUPS, changed
from cometmq.broker.handlers import Handlers
from cometmq.broker.large_answers import TURN_MAX, encoded, page, with_body
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused, outcome
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.settings_by_subject import BodySettings
from cometmq.broker.state.consumers import ConsumerGroup, Consumers
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.pop.retry_topics import PopRetryTopics
from cometmq.broker.state.producers import ConnectedMember, Producers
from cometmq.errors import IllegalName, StoreNotWritable
from cometmq.format.layout import valid_group
from cometmq.io.clock import Clock
from cometmq.net.server import Session
from cometmq.store.reading import PAUSE, Reading
from cometmq.wire import bodies
from cometmq.wire import headers as h
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response


class GroupAdmin:
    """Creates, deletes and describes groups."""

    def __init__(
        self,
        groups: Groups,
        consumers: Consumers[Session],
        producers: Producers[Session],
        offsets: Offsets,
        reads: Reads,
        settings: BodySettings,
        clock: Clock,
        retry_topics: PopRetryTopics,
    ) -> None:
        self._groups = groups
        self._consumers = consumers
        self._producers = producers
        self._offsets = offsets
        self._reads = reads
        self._clock = clock
        self._retry_topics = retry_topics
        self._queues_max = settings.topic_queues_max
        self._bodies = RequestBodies(settings.limits)

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.create,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.create_many,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.config,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all_configs,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producers,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self.forbidden,
        }

    def create(self, session: Session, command: Command, _header: h.NoFields) -> None:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP; answered once the group is saved."""
        group = self._checked(self._bodies.decode(bodies.GroupConfig, command))
        self._groups.put(group)
        self._answer_when_saved(session, command, group.group)

    def create_many(self, session: Session, command: Command, _header: h.NoFields) -> None:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: all or none; answered once they are saved."""
        sent = self._bodies.decode(bodies.GroupConfigList, command, is_list=True).groups
        self._bodies.check_count("groups", sent, command)
        change = self._groups.put_all([self._checked(group) for group in sent])
        if not command.is_oneway:
            change.when_saved(lambda error: session.send(outcome(command, error)))

    def _checked(self, group: bodies.GroupConfig) -> bodies.GroupConfig:
        """Check a group, and return it with its attributes changed. Raises Refused."""
        if not 0 <= group.retry_queue_count <= self._queues_max:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"group {group.group}: retryQueueNums {group.retry_queue_count} "
                f"is not in 0 to {self._queues_max} (topicQueuesMax)",
            )
        try:
            valid_group(group.group)
        except IllegalName as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        known = self._groups.find(group.group)
        present = known.attributes if known else {}
        attributes = changed(f"group {group.group}", present, group.attributes.items(), OF_GROUPS)
        return replace(group, attributes=attributes)

    def _answer_when_saved(self, session: Session, command: Command, name: str) -> None:
        """Answer once a group's present state is on the disk, or with the disk's error."""
        if not command.is_oneway:
            self._groups.when_saved(name, lambda error: session.send(outcome(command, error)))

    def delete(self, session: Session, command: Command, header: h.DeleteGroupHeader) -> None:
        """DELETE_SUBSCRIPTIONGROUP: delete a group, and the topics in which it pops messages again.

        Its offsets, if requested, are deleted once that is saved.
        """
        name = valid_group(header.group)
        retry_topics = self._retry_topics.of_group(name)  # found by its offsets, too

        def answer(error: StoreNotWritable | None) -> None:
            if error is None:
                self._answer_when_saved(session, command, name)
            elif not command.is_oneway:
                session.send(outcome(command, error))

        self._groups.delete(name)

        def delete_offsets(error: StoreNotWritable | None) -> None:
            if error is None and header.clean_offset:
                self._offsets.delete_group(name)

        self._groups.when_saved(name, delete_offsets)
        self._retry_topics.delete(retry_topics, answer)

    def config(self, _session: Session, command: Command, header: h.GroupHeader) -> Command:
        """GET_SUBSCRIPTIONGROUP_CONFIG."""
        name = header.group
        group = self._groups.find(name)
        if group is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group:{name}")
        return response(command, body=bodies.encode(group))

    def all_configs(
        self, session: Session, command: Command, header: h.GetAllGroupConfigHeader
    ) -> Command | None:
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: all of them, or a page."""
        table = self._groups.as_table()
        answer = h.fields(h.GetAllGroupConfigResponseHeader(len(table.groups)))
        table.groups = page(table.groups, header.first, header.max_count)
        make = partial(with_body, command, ext_fields=answer)
        return self._reads.answer(session, command, encoded(table, len(table.groups)), make)

    def consumers(self, session: Session, command: Command, header: h.ConsumerGroupHeader) -> Command | None:
        """GET_CONSUMER_CONNECTION_LIST: the members and subscriptions of a group."""
        name = header.consumer_group
        group = self._consumers.find(name)
        if group is None or not group.members:
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
        return self._reads.answer(session, command, _consuming(group), partial(with_body, command))

    def producers(self, session: Session, command: Command, header: h.ProducerGroupHeader) -> Command | None:
        """GET_PRODUCER_CONNECTION_LIST."""
        name = header.producer_group
        members = self._producers.members(name)
        if not members:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        return self._reads.answer(session, command, _producing(members), partial(with_body, command))

    def topics(self, session: Session, command: Command, header: h.GroupHeader) -> Command | None:
        """QUERY_TOPICS_BY_CONSUMER: the topics in which a group has offsets."""
        name = header.group
        topics = sorted(self._offsets.topics_of(name))
        reading = encoded(bodies.TopicNames(topics=topics), len(topics))
        return self._reads.answer(session, command, reading, partial(with_body, command))

    def subscription(self, _session: Session, command: Command, header: h.GroupSubscriptionHeader) -> Command:
        """QUERY_SUBSCRIPTION_BY_CONSUMER: what heartbeats have registered."""
        group = self._consumers.find(header.group)
        known = None if group is None else group.subscriptions.get(header.topic or "")
        body = bodies.QueriedSubscription(header.group, header.topic, None if known is None else known.data)
        return response(command, body=bodies.encode(body))

    def forbidden(self, session: Session, command: Command, header: h.GroupForbiddenHeader) -> Command | None:
        """UPDATE_AND_GET_GROUP_FORBIDDEN; a change is answered once it is saved."""
        group, topic = header.group, header.topic

        def answer(error: StoreNotWritable | None) -> None:
            if not command.is_oneway:
                session.send(
                    outcome(command, error) if error is not None else self._forbidden(command, header)
                )

        if header.is_readable is None:
            return self._forbidden(command, header)
        try:
            change = self._groups.forbid(group, topic, is_forbidden=not header.is_readable)
        except IllegalName as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        change.when_saved(answer)
        return None

    def _forbidden(self, command: Command, header: h.GroupForbiddenHeader) -> Command:
        is_readable = not self._groups.is_forbidden(header.group, header.topic)
        body = bodies.encode(bodies.GroupForbidden(header.group, header.topic, is_readable))
        return response(command, remark="", body=body)

    def all_producers(self, session: Session, command: Command, _header: h.NoFields) -> Command | None:
        """GET_ALL_PRODUCER_INFO: the members of all producer groups."""
        return self._reads.answer(session, command, self._all_producers(), partial(with_body, command))

    def _all_producers(self) -> Reading[bytes]:
        groups: dict[str, list[bodies.ProducerMember]] = {}
        count = 0
        for name, members in self._producers.groups().items():
            groups[name] = []
            for session, member in list(members.items()):
                heard_time = self._clock.now_ms() - self._producers.silence_ms(member)
                groups[name].append(
                    bodies.ProducerMember(
                        member.client_id, f"/{session}", member.language, member.version, heard_time
                    )
                )
                count += 1
                if count % TURN_MAX == 0:
                    yield PAUSE
        return (yield from encoded(bodies.ProducerMembers(groups), count))


def _consuming(group: ConsumerGroup[Session]) -> Reading[bytes]:
    connections = yield from _connections(group.members)
    answer = bodies.ConsumerConnections(
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
    return (yield from encoded(bodies.ProducerConnections(connections), len(connections)))


def _connections(members: Mapping[Session, ConnectedMember]) -> Reading[list[bodies.ClientConnection]]:
    """Describe the present members, some in each turn of the loop."""
    connections: list[bodies.ClientConnection] = []
    for session, member in list(members.items()):
        if len(connections) % TURN_MAX == TURN_MAX - 1:
            yield PAUSE
        connections.append(
            bodies.ClientConnection(str(session), member.client_id, member.language, member.version)
        )
    return connections
