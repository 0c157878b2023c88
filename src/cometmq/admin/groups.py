"""Create, delete and list consumer groups, and show their members."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cometmq.admin.cluster import ClusterAdmin, missing_group
from cometmq.arguments import TEXT, check, instance_of
from cometmq.client.answer import answers_of
from cometmq.cluster.system_names import is_user_group
from cometmq.errors import NotFound, RemoteError, UnreadableAnswer
from cometmq.format.layout import RETRY_PREFIX, valid_group
from cometmq.wire import headers as h
from cometmq.wire.bodies.body import decode, encode
from cometmq.wire.bodies.group import ConsumerConnections, GroupConfig, GroupConfigs
from cometmq.wire.bodies.running import RunningInfo
from cometmq.wire.codes import RequestCode, ResponseCode, version_name

PAGE = 10_000
"""Most groups that a broker is asked for in one request."""
RUNNING_TIMEOUT_MS = 15_000
"""Longer than the ten seconds that a broker waits for a client's answer."""


class GroupMember(NamedTuple):
    """One member of a consumer group.

    Attributes:
        address: its connection's address as a broker sees it, ``ip:port``.
        brokers: names of the brokers to which it is connected.
    """

    client_id: str
    address: str
    language: str
    version: str
    brokers: list[str]


class GroupSubscription(NamedTuple):
    """The subscription of a group's members to a topic: a tag expression or SQL92."""

    topic: str
    expression: str
    expression_type: str


class Difference(NamedTuple):
    """The different subscriptions of a group's members to one topic: client ids by expression."""

    topic: str
    wants: dict[str, list[str]]


class Group(NamedTuple):
    """A consumer group.

    Attributes:
        brokers: names of the brokers that have the group's settings.
        config: the settings on the first of them; None if there are none.
        consume_type, model, start: as its members report them; empty if there are no members.
        differences: the topics to which members subscribe differently, so that each misses messages; only
            CometMQ brokers report them.
    """

    group: str
    brokers: list[str]
    config: GroupConfig | None
    consume_type: str
    model: str
    start: str
    members: list[GroupMember]
    subscriptions: list[GroupSubscription]
    differences: list[Difference]


async def names(cluster: ClusterAdmin) -> list[str]:
    """Return the names of all groups that brokers have, sorted, without the brokers' own groups."""
    header = h.GetAllGroupConfigHeader(0, None, PAGE)
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    tables = await cluster.ask_masters(code, header, GroupConfigs)
    return _names(tables)


async def show(cluster: ClusterAdmin, group: str) -> Group:
    """Return a group's settings, members and subscriptions. Raises NotFound if no broker has the group."""
    check(TEXT, group=group)
    header = h.GetAllGroupConfigHeader(0, None, PAGE)
    tables, connections = await asyncio.gather(
        cluster.ask_masters(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header, GroupConfigs),
        connected(cluster, group),
    )
    configs = {name: table.groups[group] for name, table in tables.items() if group in table.groups}
    if not configs and not connections:
        raise missing_group(group, _names(tables))
    first = next(iter(connections.values()), None)
    subscriptions = {
        data.topic: GroupSubscription(data.topic, data.expression, data.expression_type)
        for known in connections.values()
        for data in known.subscriptions.values()
    }
    return Group(
        group,
        sorted(configs),
        next(iter(configs.values()), None),
        first.consume_type.value if first else "",
        first.message_model.value if first else "",
        first.consume_from_where.value if first else "",
        members(connections),
        sorted(subscriptions.values()),
        _differences(connections),
    )


def _differences(connections: Mapping[str, ConsumerConnections]) -> list[Difference]:
    """Merge the differences that the brokers report."""
    wants: dict[str, dict[str, set[str]]] = {}
    for known in connections.values():
        for one in known.differences or ():
            of_topic = wants.setdefault(one.topic, {})
            for text, ids in one.wants.items():
                of_topic.setdefault(text, set()).update(ids)
    return [
        Difference(topic, {text: sorted(ids) for text, ids in sorted(of_topic.items())})
        for topic, of_topic in sorted(wants.items())
    ]


async def connected(cluster: ClusterAdmin, group: str) -> dict[str, ConsumerConnections]:
    """Return the connected members of a group by broker name; brokers without members are left out."""
    check(TEXT, group=group)
    code, header = RequestCode.GET_CONSUMER_CONNECTION_LIST, h.ConsumerGroupHeader(group)
    return await cluster.ask_masters(code, header, ConsumerConnections)


def members(connections: Mapping[str, ConsumerConnections]) -> list[GroupMember]:
    """Return each member once, with the brokers to which it is connected."""
    found: dict[str, GroupMember] = {}
    for name in sorted(connections):
        for one in connections[name].connections:
            if (known := found.get(one.client_id)) is not None:
                known.brokers.append(name)
            else:
                found[one.client_id] = GroupMember(
                    one.client_id, one.client_addr, one.language.value, version_name(one.version), [name]
                )
    return [found[client_id] for client_id in sorted(found)]


async def create(cluster: ClusterAdmin, config: GroupConfig) -> list[str]:
    """Create a group on every master, or change it there; return the brokers' names.

    Raises IllegalName, NoRoute if there is no broker, RemoteError, NetworkError.
    """
    check(instance_of(GroupConfig), config=config)
    valid_group(config.group)
    masters = await cluster.masters()
    for address in masters.values():
        await cluster.ask(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode(config))
    return sorted(masters)


async def delete(cluster: ClusterAdmin, group: str, *, keep_offsets: bool = False) -> list[str]:
    """Delete a group and its retry topic from every master; return the brokers' names.

    Raises NotFound if no broker has it, RemoteError or NetworkError.
    """
    check(TEXT, group=group)
    known = await names(cluster)
    if group not in known:
        raise missing_group(group, known)
    masters = await cluster.masters()
    header = h.DeleteGroupHeader(group, clean_offset=not keep_offsets)
    retries = RETRY_PREFIX + group
    for address in masters.values():
        await cluster.ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
        await cluster.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, h.TopicHeader(retries))
    for address in cluster.name_servers:
        code, of_topic = RequestCode.DELETE_TOPIC_IN_NAMESRV, h.DeleteTopicInNamesrvHeader(topic=retries)
        await cluster.ask(address, code, of_topic)
    return sorted(masters)


async def running(cluster: ClusterAdmin, group: str, client_id: str) -> RunningInfo:
    """Return the state of one member. Raises NotFound if there is none, RemoteError if it does not answer."""
    check(TEXT, group=group, client_id=client_id)
    connections = await connected(cluster, group)
    return await running_member(cluster, group, member_of(group, members(connections), client_id))


async def running_member(cluster: ClusterAdmin, group: str, member: GroupMember) -> RunningInfo:
    """Return the state of a known member. Raises RemoteError if it does not answer or support the request."""
    address = (await cluster.masters())[member.brokers[0]]
    code, header = RequestCode.GET_CONSUMER_RUNNING_INFO, h.RunningInfoHeader(group, member.client_id)
    answer = await cluster.ask(address, code, header, timeout_ms=RUNNING_TIMEOUT_MS)
    with answers_of(f"{member.client_id} of group {group}"):
        return decode(RunningInfo, answer.body)


async def owners(cluster: ClusterAdmin, group: str) -> dict[tuple[str, str, int], str]:
    """Return the client id of each queue's consumer, by topic, broker name and queue id.

    Members that do not answer or support the request, or answer what cannot be read, are left out.
    """
    check(TEXT, group=group)
    found = members(await connected(cluster, group))

    async def queues_of(member: GroupMember) -> Sequence[tuple[str, str, int]]:
        try:
            return list((await running_member(cluster, group, member)).queues)
        except RemoteError as error:
            if error.code in (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.CONSUME_MSG_TIMEOUT):
                return []
            raise
        except UnreadableAnswer:
            return []

    queues = await asyncio.gather(*map(queues_of, found))
    return {queue: member.client_id for member, own in zip(found, queues, strict=True) for queue in own}


def member_of(group: str, found: Sequence[GroupMember], client_id: str) -> GroupMember:
    """Return the member with a client id. Raises NotFound, naming the existing members."""
    for member in found:
        if member.client_id == client_id:
            return member
    there = ", ".join(member.client_id for member in found)
    raise NotFound(
        f"group {group} has no member {client_id!r}: its members are {there}"
        if found
        else f"group {group} has no members now"
    )


def _names(tables: Mapping[str, GroupConfigs]) -> list[str]:
    known = {name for table in tables.values() for name in table.groups}
    return sorted(filter(is_user_group, known))
