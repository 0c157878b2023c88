"""QueryRoute and QueryAssignment: which queues clients send to, and where they receive.

Source: RocketMQ ``proxy/grpc/v2/route/RouteActivity.java``.
"""

import ipaddress
from collections.abc import Iterator

from cometmq.cluster.assignment import ALL_QUEUES
from cometmq.cluster.route import READ, WRITE, QueueCounts
from cometmq.net.address import parse_address
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.names import checked_group, checked_topic
from cometmq.proxy.outcomes import OK, Failure
from cometmq.proxy.transport import Call


class Routing:
    """Answers with the queues of topics; each is reached at the address that the client connects to.

    Attributes:
        own_address: ``host:port`` of this proxy, for clients that do not say where they connect to.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self.own_address = ""

    async def query_route(self, request: pb.QueryRouteRequest, _call: Call) -> pb.QueryRouteResponse:
        """Return the queues of a topic."""
        topic = checked_topic(request.topic)
        route = await self._brokers.route(topic)
        types = await self._brokers.accepted_types(topic)
        endpoints = self._endpoints(request.endpoints)
        queues = [
            pb.MessageQueue(
                topic=request.topic,
                id=queue_id,
                permission=permission,
                broker=pb.Broker(name=counts.broker_name, endpoints=endpoints),
                accept_message_types=types,
            )
            for counts in sorted(route.queues, key=lambda counts: counts.broker_name)
            for queue_id, permission in enumerate(_permissions(counts))
        ]
        return pb.QueryRouteResponse(status=OK, message_queues=queues)

    async def query_assignment(
        self, request: pb.QueryAssignmentRequest, _call: Call
    ) -> pb.QueryAssignmentResponse:
        """Return where a member of a group receives: all members receive everywhere."""
        topic, group = checked_topic(request.topic), checked_group(request.group)
        route = await self._brokers.route(topic)
        is_ordered = await self._is_ordered(group, topic)
        endpoints = self._endpoints(request.endpoints)
        assignments = [
            pb.Assignment(
                message_queue=pb.MessageQueue(
                    topic=request.topic,
                    id=queue_id,
                    permission=pb.READ,
                    broker=pb.Broker(name=counts.broker_name, endpoints=endpoints),
                )
            )
            for counts in sorted(route.queues, key=lambda counts: counts.broker_name)
            if counts.perm & READ and counts.read_count
            for queue_id in (range(counts.read_count) if is_ordered else (ALL_QUEUES,))
        ]
        if not assignments:
            raise Failure(pb.FORBIDDEN, f"topic {topic!r} has no queue that can be read")
        return pb.QueryAssignmentResponse(status=OK, assignments=assignments)

    async def _is_ordered(self, group: str, topic: str) -> bool:
        """Return whether a group receives in order; an unknown one does not."""
        try:
            return (await self._brokers.group(group, topic)).consume_message_orderly
        except Failure:
            return False

    def _endpoints(self, of_client: pb.Endpoints) -> pb.Endpoints:
        return of_client if of_client.addresses else _endpoints(self.own_address)


def _permissions(counts: QueueCounts) -> Iterator[pb.Permission]:
    """Iterate over the permissions of a broker's queues, in the order of their ids for clients."""
    readable = counts.read_count if counts.perm & READ else 0
    writable = counts.write_count if counts.perm & WRITE else 0
    both = min(readable, writable)
    yield from [pb.READ] * (readable - both)
    yield from [pb.WRITE] * (writable - both)
    yield from [pb.READ_WRITE] * both
    if not readable and not writable:
        yield from [pb.NONE] * max(1, counts.read_count, counts.write_count)


def _endpoints(address: str) -> pb.Endpoints:
    host, port = parse_address(address)
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        scheme: pb.AddressScheme = pb.DOMAIN_NAME
    else:
        scheme = pb.IPv4 if version == 4 else pb.IPv6
    return pb.Endpoints(scheme=scheme, addresses=[pb.Address(host=host, port=port)])
