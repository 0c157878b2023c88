"""Operators' requests about topics. (RocketMQ: AdminBrokerProcessor.java.)"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from cometmq.broker.admin.attributes import OF_TOPICS, changed
from cometmq.broker.admin.progress import GroupTables
from cometmq.broker.admin.statistics import Statistics
from cometmq.broker.handlers import Handlers
from cometmq.broker.large_answers import TURN_MAX, encoded, made, page, with_body
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused, outcome
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.settings_by_subject import BodySettings
from cometmq.broker.state.pop.retry_topics import PopRetryTopics
from cometmq.broker.state.topics import Topics, is_system_topic
from cometmq.errors import IllegalName
from cometmq.format.layout import valid_topic
from cometmq.net.server import Session
from cometmq.store.read.ends_and_times import EndsAndTime
from cometmq.store.reading import PAUSE, Reading
from cometmq.store.store import MessageStore
from cometmq.wire import bodies
from cometmq.wire import headers as h
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response

PERM_MAX: Final = 7
FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")
"""RocketMQ: TopicFilterType.java; a broker treats them alike."""


class TopicRequests:
    """Creates, deletes and describes topics.

    Args:
        retry_topics: finds the retry topics that are deleted with a topic; None if they stay.
    """

    def __init__(
        self,
        topics: Topics,
        store: MessageStore,
        reads: Reads,
        tables: GroupTables,
        statistics: Statistics,
        retry_topics: PopRetryTopics | None,
        settings: BodySettings,
        *,
        broker_name: str,
    ) -> None:
        self._topics = topics
        self._store = store
        self._reads = reads
        self._tables = tables
        self._statistics = statistics
        self._retry_topics = retry_topics
        self._broker_name = broker_name
        self._queues_max = settings.topic_queues_max
        self._bodies = RequestBodies(settings.limits)

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.create,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.create_many,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.GET_TOPIC_CONFIG: self.config,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all_configs,
            RequestCode.GET_TOPIC_STATS_INFO: self.stats,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.groups,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system_topics,
        }

    def create(self, session: Session, command: Command, header: h.CreateTopicHeader) -> None:
        """UPDATE_AND_CREATE_TOPIC; answered once the name servers know the topic, so that it can be used."""
        topic = bodies.TopicConfig(
            order=header.order,
            perm=header.perm,
            read_queue_count=header.read_queue_count,
            filter_type=header.filter_type,
            topic=header.topic,
            sys_flag=header.sys_flag or 0,
            write_queue_count=header.write_queue_count,
        )
        self._topics.put(self._checked(topic, _changes(header.attributes or "")))
        self._answer_when_published(session, command, [topic.topic])

    def create_many(self, session: Session, command: Command, _header: h.NoFields) -> None:
        """UPDATE_AND_CREATE_TOPIC_LIST."""
        sent = self._bodies.decode(bodies.TopicConfigs, command, is_list=True).topics
        self._bodies.check_count("topics", sent, command)
        topics = [self._checked(topic, topic.attributes.items()) for topic in sent]
        self._topics.put_all(topics)
        self._answer_when_published(session, command, [topic.topic for topic in topics])

    def delete(self, session: Session, command: Command, header: h.TopicHeader) -> None:
        """DELETE_TOPIC_IN_BROKER: delete a topic and the retry topics of pops of it, with all in them."""
        name = _checked_name(header.topic)
        names = [name, *(self._retry_topics.of_topic(name) if self._retry_topics is not None else ())]
        self._topics.delete(names)
        self._answer_when_published(session, command, names)

    def config(self, _session: Session, command: Command, header: h.TopicHeader) -> Command:
        """GET_TOPIC_CONFIG."""
        return response(command, body=bodies.encode(self._find(header.topic)))

    def all_configs(
        self, session: Session, command: Command, header: h.GetAllTopicConfigHeader
    ) -> Command | None:
        """GET_ALL_TOPIC_CONFIG: all of them, or a page."""
        table = self._topics.as_table()
        answer = h.fields(h.GetAllTopicConfigResponseHeader(len(table.topics)))
        table.topics = page(table.topics, header.first, header.max_count)
        table.mapping_version, table.mapping_details = bodies.DataVersion(), {}
        make = partial(with_body, command, ext_fields=answer)
        return self._reads.answer(session, command, encoded(table, len(table.topics)), make)

    def stats(self, session: Session, command: Command, header: h.TopicHeader) -> Command | None:
        """GET_TOPIC_STATS_INFO: the first and the next offset of each queue."""
        topic = self._find(header.topic)
        return self._reads.answer(session, command, self._stats(topic), partial(with_body, command))

    def groups(self, session: Session, command: Command, header: h.TopicHeader) -> Command | None:
        """QUERY_TOPIC_CONSUME_BY_WHO: the groups that consume it now or have done so."""
        name = header.topic
        groups = sorted(self._tables.consumers.groups_of(name) | self._tables.offsets.groups_of(name))
        reading = encoded(bodies.GroupNames(groups), len(groups))
        return self._reads.answer(session, command, reading, partial(with_body, command))

    def system_topics(self, _session: Session, command: Command, _header: h.NoFields) -> Command:
        """GET_SYSTEM_TOPIC_LIST_FROM_BROKER."""
        names = [topic.topic for topic in self._topics if is_system_topic(topic.topic)]
        return response(command, body=bodies.encode(bodies.TopicNames(topics=sorted(names))))

    def _answer_when_published(self, session: Session, command: Command, names: list[str]) -> None:
        """Answer once topics are saved and the name servers know them, or with the disk's error."""
        if not command.is_oneway:
            self._topics.when_published(names, lambda error: session.send(outcome(command, error)))

    def _find(self, name: str) -> bodies.TopicConfig:
        topic = self._topics.find(name)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic[{name}]")
        return topic

    def _checked(self, topic: bodies.TopicConfig, changes: Iterable[tuple[str, str]]) -> bodies.TopicConfig:
        """Check a topic, and return it with its attributes changed. Raises Refused."""
        _checked_name(topic.topic)
        for what, number, most in (
            ("readQueueNums", topic.read_queue_count, self._queues_max),
            ("writeQueueNums", topic.write_queue_count, self._queues_max),
            ("perm", topic.perm, PERM_MAX),
        ):
            if not 0 <= number <= most:
                setting = "" if most == PERM_MAX else " (topicQueuesMax)"
                raise Refused(
                    ResponseCode.INVALID_PARAMETER,
                    f"topic {topic.topic}: {what} {number} is not in 0 to {most}{setting}",
                )
        if topic.filter_type not in FILTER_TYPES:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"topic {topic.topic}: topicFilterType {topic.filter_type!r} is not one of "
                f"{', '.join(FILTER_TYPES)}",
            )
        known = self._topics.find(topic.topic)
        present = known.attributes if known else {}
        return replace(topic, attributes=changed(f"topic {topic.topic}", present, changes, OF_TOPICS))

    def _stats(self, topic: bodies.TopicConfig) -> Reading[bytes]:
        name, count = topic.topic, max(topic.read_queue_count, topic.write_queue_count)
        queues: list[EndsAndTime] = []
        for begin in range(0, count, TURN_MAX):
            if begin:
                yield PAUSE
            ids = range(begin, min(begin + TURN_MAX, count))
            queues += yield from self._store.readings.ends_and_times.of(name, ids)
        put_tps = self._statistics.tps("TOPIC_PUT_NUMS", name)
        encode_all = partial(bodies.encode_topic_stats, name, self._broker_name, queues, put_tps)
        return (yield from made(encode_all, count))


def _checked_name(name: str) -> str:
    """Check that a name is legal and not a system topic's, and return it. Raises Refused."""
    try:
        valid_topic(name)
    except IllegalName as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
    if is_system_topic(name):
        raise Refused(ResponseCode.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")
    return name


def _changes(text: str) -> Iterator[tuple[str, str]]:
    """Iterate over the changes in ``+name=value,-name``; read one by one, as one that is refused ends it."""
    for change in filter(None, text.split(",")):
        name, _, value = change.partition("=")
        yield name, value
