"""What a name server shows at ``/metrics``: its brokers, topics and connections. RocketMQ's shows nothing."""

from typing import Final

from cometmq.metrics.endpoint import Endpoint, EndpointSource
from cometmq.metrics.family import Family, FamilyKind, Values
from cometmq.metrics.limits import LIMITS, EndpointLimits
from cometmq.namesrv.name_server import NameServer

BROKERS: Final = Family(
    "cometmq_namesrv_brokers",
    FamilyKind.GAUGE,
    ("cluster",),
    "brokers",
    "registered brokers, by cluster",
)
TOPICS: Final = Family(
    "cometmq_namesrv_topics", FamilyKind.GAUGE, (), "topics", "topics that any broker has registered"
)
CONNECTIONS: Final = Family(
    "cometmq_namesrv_connections",
    FamilyKind.GAUGE,
    (),
    "connections",
    "open connections",
)
REFUSED: Final = Family(
    "cometmq_namesrv_connections_refused_total",
    FamilyKind.COUNTER,
    (),
    "connections",
    "connections closed at once: too many were open",
)
FAMILIES: Final = (BROKERS, TOPICS, CONNECTIONS, REFUSED)
"""All families of a name server."""


def endpoint_of(name_server: NameServer, host: str, port: int, limits: EndpointLimits = LIMITS) -> Endpoint:
    """Return the endpoint of a name server at ``host:port``, not started; port 0 for any free one.

    Raises MissingExtra.
    """

    async def collect() -> Values:
        values, routes = Values(), name_server.routes
        info = routes.cluster_info()
        for cluster, names in info.clusters.items():
            values.set(BROKERS, sum(len(info.brokers[name].addrs) for name in names), cluster)
        values.set(TOPICS, len(routes.topics()))
        values.set(CONNECTIONS, name_server.connection_count)
        values.set(REFUSED, name_server.refused_connections)
        return values

    source = EndpointSource(collect, reasons=lambda: ())
    return Endpoint(host, port, source, labels={"node_type": "nameserver"}, limits=limits)
