"""Over the network: create, change, list and delete topics, and show their queues."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from cometmq.admin.cluster import ClusterAdmin
from cometmq.arguments import TEXT, check, instance_of, number, one_of, or_none
from cometmq.cluster.route import MASTER, QueueCounts
from cometmq.cluster.system_names import is_user_topic
from cometmq.errors import FormatError, NoRoute, SettingsError
from cometmq.format.layout import REPLY_SUFFIX, valid_topic
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.route import ClusterInfo
from cometmq.wire.bodies.stats import decode_topic_stats
from cometmq.wire.bodies.topic import MESSAGE_TYPES, TYPE_ATTRIBUTE, TopicConfig
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import Command
from cometmq.wire.headers import DEFAULT_TOPIC, CreateTopicHeader, DeleteTopicInNamesrvHeader, TopicHeader

READ_AND_WRITE = 6


class TopicOnBroker(NamedTuple):
    """The settings of one topic on one broker."""

    topic: str
    broker_name: str
    read_queues: int
    write_queues: int
    perm: int


class QueueLine(NamedTuple):
    """One queue of a topic: its first queue offset, the one after its last message, and that message's time.

    The time is the store time in ms since the epoch, 0 if the queue is empty.
    """

    broker_name: str
    queue_id: int
    min_offset: int
    max_offset: int
    last_time: int


class TopicAdmin(ClusterAdmin):
    """Administration of the topics of a cluster."""

    async def create(
        self,
        topic: str,
        *,
        queues: int = 8,
        perm: int = READ_AND_WRITE,
        message_type: str | None = None,
    ) -> list[str]:
        """Create a topic on every master, or change it there; return the brokers' names.

        Args:
            message_type: which messages RocketMQ 5 clients may send to it: ``NORMAL``, ``FIFO``, ``DELAY``,
                ``TRANSACTION`` or, all of these, ``MIXED``; None leaves it as it is, NORMAL for a new topic.

        Raises:
            IllegalName: the topic's name is illegal.
            NoBroker: the name server knows no broker, or no master.
            RemoteError: a broker refuses.
            NetworkError: a server does not answer.
        """
        check(number(1), queues=queues)
        check(number(0), perm=perm)
        check(or_none(one_of(*MESSAGE_TYPES)), message_type=message_type)
        header = CreateTopicHeader(
            topic=valid_topic(topic),
            default_topic=DEFAULT_TOPIC,
            read_queue_count=queues,
            write_queue_count=queues,
            perm=perm,
            filter_type="SINGLE_TAG",
            attributes=None if message_type is None else f"+{TYPE_ATTRIBUTE}={message_type}",
        )
        masters = await self.masters()
        for address in masters.values():
            await self.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        self.routes.expire(topic)
        return sorted(masters)

    async def delete(self, topic: str) -> list[str]:
        """Delete a topic from every master and name server; return the brokers' names.

        Raises like ``create``; NoRoute also if no broker has the topic.
        """
        await self.routes.get(valid_topic(topic))  # brokers report success for a topic that does not exist
        masters = await self.masters()
        for address in masters.values():
            await self.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=topic))
        for address in self.name_servers:
            await self.ask(
                address, RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrvHeader(topic=topic)
            )
        self.routes.expire(topic)
        return sorted(masters)

    async def update(
        self, topic: str, *, queues: int | None = None, perm: int | None = None
    ) -> list[TopicOnBroker]:
        """Change queues or perm of a topic on every broker that has it; return the new settings.

        Raises like ``create``; NoRoute also if no broker has the topic, SettingsError if a broker has more
        than ``queues``: ``shrink`` removes queues without losing messages.
        """
        check(or_none(number(1)), queues=queues)
        check(or_none(number(0)), perm=perm)
        configs = await self.configs(valid_topic(topic))
        for name, (_, config) in configs.items():
            most = max(config.read_queue_count, config.write_queue_count)
            if queues is not None and queues < most:
                raise SettingsError(
                    f"topic {topic} has {most} queues on {name}: to lower them to {queues}, "
                    f"use cometmq topic shrink {topic} --queues {queues}, which loses no message"
                )
        lines = []
        for name, (address, config) in sorted(configs.items()):
            changed = replace(
                config,
                read_queue_count=config.read_queue_count if queues is None else queues,
                write_queue_count=config.write_queue_count if queues is None else queues,
                perm=config.perm if perm is None else perm,
            )
            await self.put(address, changed)
            lines.append(
                TopicOnBroker(topic, name, changed.read_queue_count, changed.write_queue_count, changed.perm)
            )
        self.routes.expire(topic)
        return lines

    async def put(self, address: str, config: TopicConfig) -> None:
        """Create a topic on one broker, or change it there; its attributes stay as they are."""
        check(TEXT, address=address)
        check(instance_of(TopicConfig), config=config)
        header = CreateTopicHeader(
            topic=config.topic,
            default_topic=DEFAULT_TOPIC,
            read_queue_count=config.read_queue_count,
            write_queue_count=config.write_queue_count,
            perm=config.perm,
            filter_type=config.filter_type,
            sys_flag=config.sys_flag,
            order=config.order,
        )
        await self.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def own_topics(self) -> list[str]:
        """Return the names of topics, sorted, without those that brokers create by themselves."""
        return user_topics(await self.topics(), await self.info())

    async def lines(self, *, own_only: bool = False) -> list[TopicOnBroker]:
        """Return all topics, one line for each broker that has them.

        Args:
            own_only: leave out the topics that brokers create by themselves, for their own use and for
                groups.
        """
        found: list[TopicOnBroker] = []
        for name in await (self.own_topics() if own_only else self.topics()):
            try:
                route = await self.routes.get(name)
            except (NoRoute, FormatError):
                continue  # it was deleted in between, or is no route, which was logged
            found += [
                TopicOnBroker(name, counts.broker_name, counts.read_count, counts.write_count, counts.perm)
                for counts in route.queues
            ]
        return found

    async def queues(self, topic: str) -> list[QueueLine]:
        """Return the queues of a topic with their offsets. Raises NoRoute, RemoteError, NetworkError."""
        valid_topic(topic)
        addresses = await self._addresses_of(topic)
        code, header = RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic)
        answers = await self.ask_each(
            addresses, code, header, read=lambda answer: decode_topic_stats(answer.body)
        )
        return sorted(
            QueueLine(queue.broker_name, queue.queue_id, at.min_offset, at.max_offset, at.last_update_time)
            for answer in answers.values()
            for queue, at in answer.offsets.items()
        )

    async def configs(self, topic: str) -> dict[str, tuple[str, TopicConfig]]:
        """Return the address and the topic's settings of each broker that has the topic, by broker name.

        Raises like ``queues``; UnreadableAnswer, too, for a number of queues that no topic can have.
        """
        addresses = await self._addresses_of(topic)
        code, header = RequestCode.GET_TOPIC_CONFIG, TopicHeader(topic)
        found = await self.ask_each(addresses, code, header, read=_config)
        return {name: (addresses[name], config) for name, config in found.items()}

    async def _addresses_of(self, topic: str) -> dict[str, str]:
        """Return the masters' addresses that have a topic. Raises NoRoute if one of them is unknown."""
        route = await self.routes.get(topic)
        found = {}
        for counts in route.queues:
            address = route.addresses.get(counts.broker_name, {}).get(MASTER)
            if address is None:
                raise NoRoute(
                    f"broker {counts.broker_name} of topic {topic} has no master now: wait until it has one"
                )
            found[counts.broker_name] = address
        return found


def _config(answer: Command) -> TopicConfig:
    config = decode(TopicConfig, answer.body)
    counts = QueueCounts("", config.read_queue_count, config.write_queue_count, config.perm)
    if (fault := counts.fault()) is not None:
        raise FormatError(f"topic {config.topic!r:.300} has {fault}: set fewer: cometmq topic create")
    return config


def user_topics(topics: Iterable[str], info: ClusterInfo) -> list[str]:
    """Return the topics that users created, not brokers and groups for their own use."""
    servers = {*info.brokers, *(data.cluster for data in info.brokers.values())}
    return [
        topic
        for topic in topics
        if is_user_topic(topic) and topic not in servers and not topic.endswith(REPLY_SUFFIX)
    ]
