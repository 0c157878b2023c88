"""What a request needs: the permissions of its code, on the topics and groups that it names.

``wire.requests`` has the permissions of each code; this module finds the names, in the header or in the body.
A retry topic stands for its group: whoever consumes in a group needs no permission for its retry topics. A
request that names no topic or group where it should needs its permission on the whole cluster; so nothing is
allowed because somebody left a field out.

RocketMQ: ``DefaultAuthorizationContextBuilder.java``, which leaves much unchecked that is checked here.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from cometmq.access.decision import Need
from cometmq.format.layout import RETRY_PREFIX
from cometmq.format.pop.names import normal_topic
from cometmq.wire.bodies import (
    AssignmentRequest,
    BatchAckRequest,
    Body,
    ClientConfigCheck,
    GroupConfig,
    Heartbeat,
    LockRequest,
    MessageModeRequest,
    TopicConfigs,
)
from cometmq.wire.bodies.body import BodyType
from cometmq.wire.bodies.group import GroupConfigList
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import Command
from cometmq.wire.headers import Header, parse
from cometmq.wire.requests import Access, Action, Request, Resource

NAMELESS: Final = {
    RequestCode.HEART_BEAT: "a client without consumers only says that it is there",
    RequestCode.UNREGISTER_CLIENT: "producers belong to no group that has permissions",
    RequestCode.END_TRANSACTION: "clients up to 4.9 name no topic; the group, the queue offset and the "
    "position of the half message must be right",
}
"""The requests that need nothing if they name no topic and no group, and why."""


class Names(NamedTuple):
    """The topics and groups that a request names; a topic with the group that it is requested for."""

    groups: tuple[str, ...]
    topics: tuple[tuple[str, str], ...]


DecodeBody = Callable[[type[BodyType], Command], BodyType]
"""Decodes a request's body. Raises CometMQError."""


class Needs:
    """Finds what requests need.

    Args:
        table: the requests of a server.
        cluster: the name of the server's cluster.
        decode: decodes bodies, within the server's limits.
    """

    def __init__(self, table: Mapping[RequestCode, Request], cluster: str, decode: DecodeBody[Any]) -> None:
        self._table = table
        self._cluster = cluster
        self._decode = decode
        self._fields = {code: _naming_fields(request.header) for code, request in table.items()}

    def key(self, command: Command) -> tuple[str | None, ...] | None:
        """Return the fields by which ``of`` decides; None if it reads the body, or does not know the code."""
        fields = self._fields.get(command.code)  # type: ignore[call-overload]  # a code is an int
        if fields is None or self._table[RequestCode(command.code)].body is not None:
            return None
        return tuple([command.ext_fields.get(name) for name in fields])

    def of(self, command: Command) -> tuple[Need, ...]:
        """Return what a request needs; nothing if its code is unknown. Raises CometMQError."""
        request = self._table.get(command.code)  # type: ignore[call-overload]  # a code is an int
        if request is None:
            return ()
        if request.body is None:
            names = _names_in_header(parse(request.header, command.ext_fields))
        else:
            names = _BODIES[request.body](self._decode(request.body, command))
        needs = dict.fromkeys(need for access in request.access for need in self._of(access, names))
        if needs or command.code in NAMELESS:
            return tuple(needs)
        return tuple(
            Need(Resource.CLUSTER, self._cluster, _on_cluster(access.actions)) for access in request.access
        )

    def _of(self, access: Access, names: Names) -> Iterable[Need]:
        if access.resource is Resource.CLUSTER:
            yield Need(Resource.CLUSTER, self._cluster, access.actions)
        elif access.resource is Resource.GROUP:
            for group in names.groups:
                yield Need(Resource.GROUP, group.removeprefix(RETRY_PREFIX), access.actions)
        else:
            for topic, group in names.topics:
                if topic == RETRY_PREFIX + group:
                    continue  # the group's own
                name = normal_topic(topic, group)
                if name.startswith(RETRY_PREFIX):
                    yield Need(Resource.GROUP, name.removeprefix(RETRY_PREFIX), _on_group(access.actions))
                else:
                    yield Need(Resource.TOPIC, name, access.actions)


_TOPIC_ATTRIBUTES: Final = ("topic", "topics")
_GROUP_ATTRIBUTES: Final = (
    *("consumer_group", "group", "target_group", "source_group", "compare_group", "left_out"),
)
_LISTS: Final = {"topics": ";", "left_out": ","}
"""The attributes that hold several names, and what separates them."""


def _naming_fields(header: type[Header]) -> tuple[str, ...]:
    """Return the names on the wire of the fields that hold names of topics and groups."""
    names = zip(header.__struct_fields__, header.__struct_encode_fields__, strict=True)
    return tuple(wire for attribute, wire in names if attribute in _TOPIC_ATTRIBUTES + _GROUP_ATTRIBUTES)


def _names_in_header(header: Header) -> Names:
    groups = _values(header, _GROUP_ATTRIBUTES)
    group = groups[0] if groups else ""
    return Names(groups, tuple((topic, group) for topic in _values(header, _TOPIC_ATTRIBUTES)))


def _values(header: Header, attributes: Iterable[str]) -> tuple[str, ...]:
    found: list[str] = []
    for attribute in attributes:
        value = getattr(header, attribute, None)
        if value:
            found += value.split(_LISTS[attribute]) if attribute in _LISTS else [value]
    return tuple(name for name in found if name)


def _of_heartbeat(body: Heartbeat) -> Names:
    groups = tuple(consumer.group for consumer in body.consumers)
    topics = ((one.topic, consumer.group) for consumer in body.consumers for one in consumer.subscriptions)
    return Names(groups, tuple(topics))


def _of_locks(body: LockRequest) -> Names:
    group = body.consumer_group
    return Names((group,), tuple((queue.topic, group) for queue in body.queues))


def _of_check(body: ClientConfigCheck) -> Names:
    return Names((body.group,), ((body.subscription.topic, body.group),))


def _of_one_topic(body: AssignmentRequest | MessageModeRequest) -> Names:
    return Names((body.consumer_group,), ((body.topic, body.consumer_group),))


def _of_acks(body: BatchAckRequest) -> Names:
    groups = tuple(dict.fromkeys(one.consumer_group for one in body.acks))
    return Names(groups, tuple(dict.fromkeys((one.topic, one.consumer_group) for one in body.acks)))


def _of_topics(body: TopicConfigs) -> Names:
    return Names((), tuple((config.topic, "") for config in body.topics))


def _of_group(body: GroupConfig) -> Names:
    return Names((body.group,), ())


def _of_groups(body: GroupConfigList) -> Names:
    return Names(tuple(config.group for config in body.groups), ())


_BODIES: Final[dict[type[Body], Callable[[Any], Names]]] = {
    Heartbeat: _of_heartbeat,
    LockRequest: _of_locks,
    ClientConfigCheck: _of_check,
    AssignmentRequest: _of_one_topic,
    MessageModeRequest: _of_one_topic,
    BatchAckRequest: _of_acks,
    TopicConfigs: _of_topics,
    GroupConfig: _of_group,
    GroupConfigList: _of_groups,
}


def _on_group(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return what a permission on a retry topic means for the group: to send to it is to consume."""
    return tuple(dict.fromkeys(Action.SUB if action is Action.PUB else action for action in actions))


def _on_cluster(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return what a permission on each topic or group means for the cluster: to read, or to change."""
    is_read = any(action in (Action.GET, Action.SUB) for action in actions)
    return (Action.GET,) if is_read else (Action.UPDATE,)
