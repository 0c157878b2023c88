"""Find messages on running brokers, and have them handled again.

Messages are found with their bodies as they are stored: ``sys_flag`` says which are compressed. A few bytes
may expand to very many, so who shows a body decompresses as much of it as it shows.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from operator import attrgetter
from typing import NamedTuple

import msgspec

from cometmq.admin import groups
from cometmq.admin.cluster import ClusterAdmin
from cometmq.arguments import TEXT, check, instance_of, number, or_none
from cometmq.client.answer import answers_of
from cometmq.client.consumer.pull import PullConsumer
from cometmq.client.lookup import UNIQUE_COUNT_MAX, Lookup
from cometmq.client.merging import merged
from cometmq.client.producer.send_result import STORED
from cometmq.client.requests.queue_requests import PullStatus, QueuePull
from cometmq.cluster.route import MASTER
from cometmq.errors import FormatError, NotFound, RemoteError, SettingsError
from cometmq.filter import tag
from cometmq.format import properties
from cometmq.format.host import unpack_host
from cometmq.format.message_id import parse_offset_message_id
from cometmq.format.sys_flag import compression_bits
from cometmq.message import StoredMessage
from cometmq.net.address import address_text
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.running import ConsumedDirectly
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import (
    DEFAULT_TOPIC,
    DEFAULT_TOPIC_QUEUES,
    ConsumeDirectlyHeader,
    SendHeaderV2,
    SendResponseHeader,
    fields,
    parse,
)

TIME_MAX = 2**63 - 1
COUNT_MAX = 2**31 - 1
"""Highest count that a request can ask for; brokers have far lower limits."""
CONSUME_TIMEOUT_MS = 15_000
"""Longer than the ten seconds that a broker gives a client to handle a message."""
TOOLS_GROUP = "TOOLS_CONSUMER"
"""The group that every broker has for tools (RocketMQ: MixAll.java); no offset is committed for it."""
DELIVERY_PROPERTIES = (
    properties.RETRY_TOPIC,
    properties.REAL_TOPIC,
    properties.REAL_QUEUE_ID,
    properties.ORIGIN_MESSAGE_ID,
    properties.DELAY,
    properties.RECONSUME_TIME,
    properties.MAX_RECONSUME_TIMES,
    properties.MSG_REGION,
    properties.TRACE_ON,
    properties.CLUSTER,
    properties.TRANSACTION_PREPARED,
    properties.IDEMPOTENCE_KEY,
)
"""Properties that record the delivery of a message: a message that is sent again has none of them."""


class ResendResult(NamedTuple):
    """Where a message that was sent again is stored."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    offset_id: str


class Handled(NamedTuple):
    """The result of a message that a member was asked to handle."""

    client_id: str
    outcome: ConsumedDirectly


async def by_id(
    cluster: ClusterAdmin, message_id: str, topic: str | None = None, *, limit: int = UNIQUE_COUNT_MAX
) -> list[StoredMessage]:
    """Return the messages with an id, as ``with_id`` finds them. Raises as that."""
    return [message async for message in with_id(cluster, message_id, topic, limit=limit)]


async def with_id(
    cluster: ClusterAdmin, message_id: str, topic: str | None = None, *, limit: int = UNIQUE_COUNT_MAX
) -> AsyncGenerator[StoredMessage]:
    """Iterate over the messages with an id.

    It is the producer's unique id, which needs the topic, or a broker's offset id. The newest come first, at
    most ``limit``.

    Raises:
        NotFound: there is no such message.
        SettingsError: it is not an offset id of a running broker, and there is no topic to look in.
        RemoteError, NetworkError: as requests raise them.
    """
    check(TEXT, message_id=message_id)
    check(or_none(TEXT), topic=topic)
    check(number(1), limit=limit)
    is_found = False
    async with _lookup(cluster) as lookup:
        if topic is not None:
            async with aclosing(lookup.stored(topic, message_id, is_unique=True, max_count=limit)) as found:
                async for message in found:
                    is_found = True
                    yield message
        if not is_found:
            yield await _by_offset_id(cluster, lookup, message_id, topic)


async def by_key(
    cluster: ClusterAdmin, topic: str, key: str, *, begin: int = 0, end: int = TIME_MAX, limit: int = 64
) -> AsyncGenerator[StoredMessage]:
    """Iterate over the newest messages of a topic that have a key, stored from ``begin`` to ``end`` (ms).

    The newest come first, at most ``limit``.

    Raises NotFound if there are none, NoRoute, RemoteError, NetworkError.
    """
    check(TEXT, topic=topic, key=key)
    check(number(), begin=begin, end=end, limit=limit)
    most, is_found = min(limit, COUNT_MAX), False
    async with (
        _lookup(cluster) as lookup,
        aclosing(lookup.stored(topic, key, max_count=most, begin_time=begin, end_time=end)) as found,
    ):
        async for message in found:
            is_found = True
            yield message
    if not is_found:
        raise NotFound(f"no message with key {key!r} in topic {topic}")


async def by_time(
    cluster: ClusterAdmin,
    topic: str,
    *,
    begin: int = 0,
    end: int = TIME_MAX,
    tags: str = "*",
    sql: str | None = None,
    queue_id: int | None = None,
) -> AsyncGenerator[StoredMessage]:
    """Iterate over a topic's messages in the order of their store times, from ``begin`` to ``end`` (ms).

    An SQL92 filter replaces the tags.

    Raises NoRoute, RemoteError, NetworkError, FormatError for an illegal tag expression.
    """
    check(TEXT, topic=topic)
    check(number(), begin=begin, end=end)
    check(or_none(number(0)), queue_id=queue_id)
    check(or_none(TEXT), sql=sql)
    tag.check_filter(tags, sql)
    servers = ";".join(cluster.name_servers)
    async with PullConsumer(
        servers, TOOLS_GROUP, credentials=cluster.credentials, tls=cluster.tls
    ) as consumer:
        queues = [
            queue for queue in await consumer.queues(topic) if queue_id is None or queue.queue_id == queue_id
        ]
        readers = [_read(consumer, QueuePull(queue, 0, tags, sql), begin, end) for queue in queues]
        async with aclosing(merged(readers, attrgetter("store_time"))) as found:
            async for message in found:
                yield message


async def consume_directly(
    cluster: ClusterAdmin, group: str, message: StoredMessage, client_id: str | None = None
) -> Handled:
    """Ask a member of a group to handle a message now; no offset changes, whatever the result.

    Args:
        client_id: the member; None for the first one that is connected to the message's broker.

    Raises:
        NotFound: the group has no such member there.
        RemoteError: it has not answered in time, or has no handler for messages.
    """
    check(TEXT, group=group)
    check(instance_of(StoredMessage), message=message)
    check(or_none(TEXT), client_id=client_id)
    broker_name, address = await _broker_of(cluster, message)
    connections = await groups.connected(cluster, group)
    here = [one for one in groups.members(connections) if broker_name in one.brokers]
    if client_id is None and here:
        client_id = here[0].client_id
    member = groups.member_of(group, here, client_id or "")
    header = ConsumeDirectlyHeader(group, member.client_id, message.offset_id, broker_name, message.topic)
    code = RequestCode.CONSUME_MESSAGE_DIRECTLY
    answer = await cluster.ask(address, code, header, timeout_ms=CONSUME_TIMEOUT_MS)
    with answers_of(f"{member.client_id} of group {group}"):
        return Handled(member.client_id, decode(ConsumedDirectly, answer.body))


async def send_again(
    cluster: ClusterAdmin, message: StoredMessage, topic: str, **changes: str
) -> ResendResult:
    """Send a message to a topic as a new one with the same body, tags, keys, unique id and properties.

    Args:
        changes: properties to set or replace.

    Raises NoRoute, RemoteError, NetworkError.
    """
    check(instance_of(StoredMessage), message=message)
    check(TEXT, topic=topic, **changes)
    route = await cluster.route(topic)
    queues = route.publish_queues()
    if not queues:
        raise NotFound(f"no queue of topic {topic!r} can be written to")
    queue = queues[message.queue_offset % len(queues)]
    named = {name: value for name, value in message.properties.items() if name not in DELIVERY_PROPERTIES}
    header = SendHeaderV2(
        producer_group="CometMQ-tools",
        topic=topic,
        default_topic=DEFAULT_TOPIC,
        default_topic_queue_count=DEFAULT_TOPIC_QUEUES,
        queue_id=queue.queue_id,
        sys_flag=compression_bits(message.sys_flag),
        born_time=message.born_time,
        flag=message.flag,
        properties=properties.encode(named | changes).decode(),
        broker_name=queue.broker_name,
    )
    command = Command(RequestCode.SEND_MESSAGE_V2, ext_fields=fields(header), body=message.body)
    answer = await cluster.connections.request(await cluster.routes.master(queue), command)
    if answer.code not in STORED:
        raise RemoteError(answer.code, answer.remark or "")
    stored = parse(SendResponseHeader, answer.ext_fields)
    return ResendResult(topic, queue.broker_name, stored.queue_id, stored.queue_offset, stored.message_id)


async def _read(
    consumer: PullConsumer, wanted: QueuePull, begin: int, end: int
) -> AsyncGenerator[StoredMessage]:
    """Iterate over the messages of one queue stored from ``begin`` to ``end``."""
    queue = wanted.queue
    with answers_of(queue.broker_name):
        first = await consumer.offset_by_time(queue, begin) if begin > 0 else await consumer.min_offset(queue)
        last = await consumer.max_offset(queue)
    offset = first
    while offset < last:
        with answers_of(queue.broker_name):
            pulled = await consumer.pull_stored(msgspec.structs.replace(wanted, queue_offset=offset))
        for message in pulled.messages:
            if message.store_time > end or message.queue_offset >= last:
                return
            if message.store_time >= begin:
                yield message
        if pulled.next_offset <= offset or pulled.status is PullStatus.NO_NEW_MESSAGE:
            return
        offset = pulled.next_offset


def _lookup(cluster: ClusterAdmin) -> Lookup:
    """Return a client that finds messages, with the cluster's own access."""
    return Lookup(";".join(cluster.name_servers), credentials=cluster.credentials, tls=cluster.tls)


async def _is_offset_id(cluster: ClusterAdmin, message_id: str) -> bool:
    """Check whether an id contains the address of a running broker: both kinds of ids look alike."""
    try:
        host = address_text(*unpack_host(parse_offset_message_id(message_id).store_host))
    except FormatError:
        return False
    brokers = (await cluster.registered()).brokers.values()
    return any(host in data.addrs.values() for data in brokers)


async def _by_offset_id(
    cluster: ClusterAdmin, lookup: Lookup, message_id: str, topic: str | None
) -> StoredMessage:
    """Return the message with an offset id. Raises NotFound, SettingsError as ``with_id``."""
    missing = f"no message {message_id}" + ("" if topic is None else f" in topic {topic}")
    if not await _is_offset_id(cluster, message_id):
        if topic is not None:
            raise NotFound(missing)
        raise SettingsError(
            f"id {message_id}: it is not an offset id of a running broker, so it must be a producer's: "
            "give its topic"
        )
    try:
        found = await lookup.stored_at(message_id)
    except RemoteError:  # a broker's answer if no message begins at the offset
        raise NotFound(missing) from None
    if topic not in (None, found.topic):
        raise NotFound(f"{missing}: it is one of topic {found.topic}")
    return found


async def _broker_of(cluster: ClusterAdmin, message: StoredMessage) -> tuple[str, str]:
    """Return the name and the address of the broker that stored a message."""
    for name, data in (await cluster.registered()).brokers.items():
        if (address := data.addrs.get(MASTER)) == message.store_host:
            return name, address
    raise NotFound(f"broker {message.store_host}, which stored the message, is not running")
