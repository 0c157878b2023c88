"""The members of a consumer group, as a broker knows them from heartbeats."""

from cometmq.client.routes import Routes
from cometmq.errors import NetworkError, NoRoute, RemoteError
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import ConsumerIds
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import ConsumerGroupHeader, fields


async def members(connections: Connections, routes: Routes, topic: str, group: str) -> list[str]:
    """Return the client ids of a group's members, sorted; an id that two clients share appears twice.

    Members send heartbeats to all brokers of a topic, so any broker can respond; they are tried in turn.

    Raises:
        NoRoute, NetworkError, RemoteError: no broker of the topic returns the members.
    """
    route = await routes.get(topic)
    command_fields = fields(ConsumerGroupHeader(group))
    failure: NetworkError | RemoteError | None = None
    for broker_name in sorted(route.addresses):
        address = route.any_broker(broker_name)
        if address is None:
            continue
        command = Command(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext_fields=dict(command_fields))
        try:
            answer = await connections.request(address, command)
        except NetworkError as error:
            failure = error
            continue
        if answer.code == ResponseCode.SUCCESS:
            return sorted(decode(ConsumerIds, answer.body).ids)
        failure = RemoteError(answer.code, answer.remark or "")
    raise failure or NoRoute(f"no broker of topic {topic!r} is known to the name server")
