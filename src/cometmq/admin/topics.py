"""Making, changing and listing topics, and telling how they stand."""

import asyncio
from typing import Final, NamedTuple

from msgspec.structs import replace

from cometmq.admin.cluster import Cluster
from cometmq.arguments import TEXT, check, instance_of, number, or_none
from cometmq.cluster.route import MASTER
from cometmq.errors import NoRoute, SettingsError
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.layout import DLQ_PREFIX, REPLY_SUFFIX, RETRY_PREFIX, valid_topic
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.stats import TopicStats
from cometmq.wire.bodies.topic import TopicConfig
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import DEFAULT_TOPIC, CreateTopicHeader, DeleteTopicInNamesrvHeader, TopicHeader

READ_AND_WRITE = 6
SYSTEM_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        "BenchmarkTest",
        "CheckpointTopic",
        "OFFSET_MOVED_EVENT",
        "SELF_TEST_TOPIC",
        "TBW102",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)
SYSTEM_PREFIXES: Final = ("rmq_sys_", "RMQ_SYS_", RETRY_PREFIX, DLQ_PREFIX)
"""Brokers make these by themselves, as a rule (RocketMQ: ``TopicValidator.java``)."""


class TopicLine(NamedTuple):
    """One topic on one broker."""

    topic: str
    broker_name: str
    read_queues: int
    write_queues: int
    perm: int


class QueueLine(NamedTuple):
    """One queue of a topic: its first queue offset, the one behind its last message, when that was stored.

    The time is ms since the epoch, 0 if the queue is empty.
    """

    broker_name: str
    queue_id: int
    min_offset: int
    max_offset: int
    last_time: int


class TopicAdmin(Cluster):
    """Works on the topics of a cluster."""

    async def create(self, topic: str, *, queues: int = 8, perm: int = READ_AND_WRITE) -> list[str]:
        """Make a topic on every master, or change it there; gives the brokers' names.

        Raises:
            IllegalName: the topic's name.
            NoRoute: the name server knows no broker.
            RemoteError: a broker refuses.
            NetworkError: somebody does not answer.
        """
        check(number(1), queues=queues)
        check(number(0), perm=perm)
        header = CreateTopicHeader(
            topic=valid_topic(topic),
            default_topic=DEFAULT_TOPIC,
            read_queue_count=queues,
            write_queue_count=queues,
            perm=perm,
            filter_type="SINGLE_TAG",
        )
        masters = await self.masters()
        for address in masters.values():
            await self.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        self.routes.forget(topic)
        return sorted(masters)

    async def delete(self, topic: str) -> list[str]:
        """Remove a topic from every master and name server; gives the brokers.

        Raises like ``create``; NoRoute also if no broker has the topic.
        """
        await self.routes.get(valid_topic(topic))  # a broker calls the removal of nothing a success
        masters = await self.masters()
        for address in masters.values():
            await self.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=topic))
        for address in self.name_servers:
            await self.ask(
                address, RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrvHeader(topic=topic)
            )
        self.routes.forget(topic)
        return sorted(masters)

    async def update(
        self, topic: str, *, queues: int | None = None, perm: int | None = None
    ) -> list[TopicLine]:
        """Change what is given of a topic on every broker that has it; gives it as it is then.

        Raises like ``create``; NoRoute also if no broker has the topic, SettingsError if a broker has more
        queues than it shall have: ``shrink`` takes them away without losing messages.
        """
        check(or_none(number(1)), queues=queues)
        check(or_none(number(0)), perm=perm)
        configs = await self.configs(valid_topic(topic))
        for name, (_, config) in configs.items():
            most = max(config.read_queue_count, config.write_queue_count)
            if queues is not None and queues < most:
                raise SettingsError(
                    f"topic {topic} has {most} queues on {name}: to have {queues}, "
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
                TopicLine(topic, name, changed.read_queue_count, changed.write_queue_count, changed.perm)
            )
        self.routes.forget(topic)
        return lines

    async def put(self, address: str, config: TopicConfig) -> None:
        """Make a topic on one broker, or change it there; its attributes stay as they are."""
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

    async def lines(self, *, own_only: bool = False) -> list[TopicLine]:
        """Return all topics, a line for each broker that has them.

        Args:
            own_only: leave out those that brokers make by themselves, for their own use and for groups.
        """
        found: list[TopicLine] = []
        names = await self.topics()
        if own_only:
            info = await self.info()
            servers = {*info.brokers, *(data.cluster for data in info.brokers.values())}
            names = [name for name in names if name not in servers and not _is_system_topic(name)]
        for name in names:
            try:
                route = await self.routes.get(name)
            except NoRoute:
                continue  # it was deleted in between
            found += [
                TopicLine(name, counts.broker_name, counts.read_count, counts.write_count, counts.perm)
                for counts in route.queues
            ]
        return found

    async def queues(self, topic: str) -> list[QueueLine]:
        """Give the queues of a topic, and how far each is. Raises NoRoute, RemoteError, NetworkError."""
        valid_topic(topic)
        addresses = await self._addresses_of(topic)
        answers = await asyncio.gather(
            *(
                self.ask(address, RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic))
                for address in addresses.values()
            )
        )
        return sorted(
            QueueLine(queue.broker_name, queue.queue_id, at.min_offset, at.max_offset, at.last_update_time)
            for answer in answers
            for queue, at in decode(TopicStats, answer.body).offsets.items()
        )

    async def configs(self, topic: str) -> dict[str, tuple[str, TopicConfig]]:
        """Give the addresses of the brokers that have a topic, and its settings there, by broker name."""
        found = {}
        for name, address in (await self._addresses_of(topic)).items():
            answer = await self.ask(address, RequestCode.GET_TOPIC_CONFIG, TopicHeader(topic))
            found[name] = address, decode(TopicConfig, answer.body)
        return found

    async def _addresses_of(self, topic: str) -> dict[str, str]:
        """Give the masters that have a topic. Raises NoRoute if one of them is away."""
        route = await self.routes.get(topic)
        found = {}
        for counts in route.queues:
            address = route.addresses.get(counts.broker_name, {}).get(MASTER)
            if address is None:
                raise NoRoute(
                    f"broker {counts.broker_name} of topic {topic} has no master now: wait until it has"
                )
            found[counts.broker_name] = address
        return found


def _is_system_topic(name: str) -> bool:
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_PREFIXES) or name.endswith(REPLY_SUFFIX)
