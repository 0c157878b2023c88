"""What a request needs: the permissions of its code, on the topics and groups that it names.

``wire.requests`` has the permissions of each code; this module finds the names, in the header or in the body.
A retry topic stands for its group: whoever consumes in a group needs no permission for its retry topics.
``%RETRY%a_b`` may be the one of group ``a_b``, or where pops of topic ``b`` in group ``a`` are tried
again: only for acknowledgements, which name what was popped, it is the latter. A request that names no topic
or group where it should needs its permission on the whole cluster; so nothing is allowed because somebody
left a field out.

RocketMQ: ``DefaultAuthorizationContextBuilder.java``, which leaves much unchecked that is checked here.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from cometmq.access.decision import Permission
from cometmq.format.layout import RETRY_PREFIX
from cometmq.format.pop.names import normal_topic
from cometmq.wire import bodies
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import Command
from cometmq.wire.requests import REQUESTS, Access, Action, Request, Resource

NAMELESS: Final = {
    RequestCode.HEART_BEAT: "a client without consumers only says that it is there",
    RequestCode.UNREGISTER_CLIENT: "producers belong to no group that has permissions",
    RequestCode.END_TRANSACTION: "clients up to 4.9 name no topic; the group, the queue offset and the "
    "position of the half message must be right",
}
"""The requests that need nothing if they name no topic and no group, and why."""

_OF_STORED: Final = {
    RequestCode.VIEW_MESSAGE_BY_ID: Action.GET,
    RequestCode.CONSUMER_SEND_MSG_BACK: Action.SUB,
    RequestCode.END_TRANSACTION: Action.PUB,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: Action.UPDATE,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: Action.SUB,
}
"""The requests that name a message by its place, and what they need on its topic, which is known later."""


_OF_POPPED: Final = frozenset(
    (
        RequestCode.ACK_MESSAGE,
        RequestCode.BATCH_ACK_MESSAGE,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    )
)
"""The requests about popped messages, which name the topic that a message was popped from."""


class NamedResources(NamedTuple):
    """The topics and groups that a request names; a topic with the group that it is requested for."""

    groups: tuple[str, ...]
    topics: tuple[tuple[str, str], ...]


DecodeBody = Callable[[type[bodies.BodyType], Command], bodies.BodyType]
"""Decodes a request's body. Raises CometMQError."""


class Needs:
    """Finds what requests need.

    Args:
        table: the requests of a server.
        cluster: the name of the server's cluster.
        decode: decodes bodies, within the server's limits.
    """

    def __init__(self, table: Mapping[RequestCode, Request], cluster: str, decode: DecodeBody[Any]) -> None:
        self._cluster = cluster
        self._decode = decode
        self._table = {int(code): request for code, request in table.items()}
        self._fields = {int(code): _naming_fields(request) for code, request in table.items()}

    def key(self, command: Command) -> tuple[str | None, ...] | None:
        """Return the fields by which ``of`` decides; None if it reads the body, or does not know the code."""
        fields = self._fields.get(command.code)
        if fields is None or fields.are_in_body:
            return None
        return tuple([command.ext_fields.get(name) for name in fields.all])

    def of(self, command: Command) -> tuple[Permission, ...]:
        """Return what a request needs; nothing if its code is unknown. Raises CometMQError."""
        request = self._table.get(command.code)
        if request is None:
            return ()
        fields = self._fields[command.code]
        if fields.are_in_body:
            assert request.body is not None
            names = _BODIES[request.body](self._decode(request.body, command))
        else:
            names = _names_in(fields, command.ext_fields)
        code = command.code
        needs = dict.fromkeys(need for access in request.access for need in self._of(code, access, names))
        if needs or command.code in NAMELESS:
            return tuple(needs)
        return tuple(
            Permission(Resource.CLUSTER, self._cluster, _on_cluster(access.actions))
            for access in request.access
        )

    def of_stored(self, command: Command, topic: str) -> tuple[Permission, ...]:
        """Return what a request that names a message by its place needs, once the topic of that is known."""
        groups = _values(self._fields[command.code].groups, command.ext_fields)
        names = NamedResources((), ((topic, groups[0] if groups else ""),))
        access = Access(Resource.TOPIC, (_OF_STORED[RequestCode(command.code)],))
        return tuple(self._of(command.code, access, names))

    def _of(self, code: int, access: Access, names: NamedResources) -> Iterable[Permission]:
        if access.resource is Resource.CLUSTER:
            yield Permission(Resource.CLUSTER, self._cluster, access.actions)
        elif access.resource is Resource.GROUP:
            for group in names.groups:
                yield Permission(Resource.GROUP, group.removeprefix(RETRY_PREFIX), access.actions)
        else:
            for topic, group in names.topics:
                if topic == RETRY_PREFIX + group:
                    continue  # the group's own
                name = normal_topic(topic, group) if code in _OF_POPPED else topic
                if name.startswith(RETRY_PREFIX):
                    yield Permission(
                        Resource.GROUP, name.removeprefix(RETRY_PREFIX), _on_group(access.actions)
                    )
                else:
                    yield Permission(Resource.TOPIC, name, access.actions)


class _Fields(NamedTuple):
    """The fields of a request's header, by their names on the wire, that name topics and groups."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    all: tuple[str, ...]
    are_in_body: bool


_TOPIC_ATTRIBUTES: Final = ("topic", "topics")
_GROUP_ATTRIBUTES: Final = (
    *("consumer_group", "group", "target_group", "source_group", "compare_group", "left_out"),
)
_LISTS: Final = {"topicList": ";", "filterGroups": ","}
"""The fields that hold several names, and what separates them."""


def _naming_fields(request: Request) -> _Fields:
    """Return where a request names topics and groups; an operator's that needs the cluster names none."""
    if all(access.resource is Resource.CLUSTER for access in request.access):
        return _Fields((), (), (), are_in_body=False)
    header = request.header
    wire_names = dict(zip(header.__struct_fields__, header.__struct_encode_fields__, strict=True))
    topics, groups = (
        tuple(wire_names[one] for one in attributes if one in wire_names)
        for attributes in (_TOPIC_ATTRIBUTES, _GROUP_ATTRIBUTES)
    )
    return _Fields(topics, groups, topics + groups, are_in_body=request.body is not None)


def _names_in(fields: _Fields, ext_fields: Mapping[str, str]) -> NamedResources:
    groups = _values(fields.groups, ext_fields)
    group = groups[0] if groups else ""
    return NamedResources(groups, tuple((topic, group) for topic in _values(fields.topics, ext_fields)))


def _values(fields: Iterable[str], ext_fields: Mapping[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    for field in fields:
        value = ext_fields.get(field, "")
        found += value.split(_LISTS[field]) if field in _LISTS else [value]
    return tuple(name for name in found if name)


def _of_heartbeat(body: bodies.Heartbeat) -> NamedResources:
    groups = tuple(consumer.group for consumer in body.consumers)
    topics = ((one.topic, consumer.group) for consumer in body.consumers for one in consumer.subscriptions)
    return NamedResources(groups, tuple(topics))


def _of_locks(body: bodies.LockRequest) -> NamedResources:
    group = body.consumer_group
    return NamedResources((group,), tuple((queue.topic, group) for queue in body.queues))


def _of_check(body: bodies.ClientConfigCheck) -> NamedResources:
    return NamedResources((body.group,), ((body.subscription.topic, body.group),))


def _of_one_topic(body: bodies.AssignmentRequest | bodies.MessageModeRequest) -> NamedResources:
    return NamedResources((body.consumer_group,), ((body.topic, body.consumer_group),))


def _of_acks(body: bodies.BatchAckRequest) -> NamedResources:
    groups = tuple(dict.fromkeys(one.consumer_group for one in body.acks))
    return NamedResources(groups, tuple(dict.fromkeys((one.topic, one.consumer_group) for one in body.acks)))


def _of_topics(body: bodies.TopicConfigs) -> NamedResources:
    return NamedResources((), tuple((config.topic, "") for config in body.topics))


def _of_group(body: bodies.GroupConfig) -> NamedResources:
    return NamedResources((body.group,), ())


def _of_groups(body: bodies.GroupConfigList) -> NamedResources:
    return NamedResources(tuple(config.group for config in body.groups), ())


_BODIES: Final[dict[type[bodies.Body], Callable[[Any], NamedResources]]] = {
    bodies.Heartbeat: _of_heartbeat,
    bodies.LockRequest: _of_locks,
    bodies.ClientConfigCheck: _of_check,
    bodies.AssignmentRequest: _of_one_topic,
    bodies.MessageModeRequest: _of_one_topic,
    bodies.BatchAckRequest: _of_acks,
    bodies.TopicConfigs: _of_topics,
    bodies.GroupConfig: _of_group,
    bodies.GroupConfigList: _of_groups,
}


def _on_group(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return what a permission on a retry topic means for the group: to send to it is to consume."""
    return tuple(dict.fromkeys(Action.SUB if action is Action.PUB else action for action in actions))


def _on_cluster(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return what a permission on each topic or group means for the cluster: to read, or to change."""
    is_read = any(action in (Action.GET, Action.SUB) for action in actions)
    return (Action.GET,) if is_read else (Action.UPDATE,)


def _needed() -> Mapping[Resource, frozenset[Action]]:
    of: dict[Resource, set[Action]] = {kind: set() for kind in Resource}
    for request in REQUESTS.values():
        for access in request.access:
            of[access.resource].update(access.actions)
            of[Resource.CLUSTER].update(_on_cluster(access.actions))
    of[Resource.TOPIC].update(_OF_STORED.values())
    of[Resource.GROUP].update(_on_group(tuple(of[Resource.TOPIC])))
    return {kind: frozenset(actions) for kind, actions in of.items()}


NEEDED: Final = _needed()
"""The actions that any request needs on a resource of a kind."""
