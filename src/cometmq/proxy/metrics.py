"""What a proxy shows at ``/metrics``: its connections, its clients, and how calls were answered."""

from typing import Final

from cometmq.metrics.endpoint import Endpoint, EndpointSource
from cometmq.metrics.family import Family, FamilyKind, HistogramValue, Values
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.outcomes import LATENCY_MS
from cometmq.proxy.proxy import Proxy

CONNECTIONS: Final = Family(
    "cometmq_proxy_connections", FamilyKind.GAUGE, (), "connections", "open connections of clients"
)
CLIENTS: Final = Family(
    "cometmq_proxy_clients",
    FamilyKind.GAUGE,
    ("client_type",),
    "clients",
    "clients that have sent their settings and are not silent, by their type",
)
CALLS: Final = Family(
    "cometmq_proxy_calls_total",
    FamilyKind.COUNTER,
    ("rpc", "code"),
    "calls",
    "calls that were answered, by the code of the answer",
)
LATENCY: Final = Family(
    "cometmq_proxy_call_latency_milliseconds",
    FamilyKind.HISTOGRAM,
    (),
    "ms",
    "how long calls with one answer took; those that wait for messages do not count",
)
FAMILIES: Final = (CONNECTIONS, CLIENTS, CALLS, LATENCY)
"""All families of a proxy."""


def endpoint_of(proxy: Proxy, host: str, port: int) -> Endpoint:
    """Return the endpoint of a proxy at ``host:port``, not started; port 0 for any free one.

    Raises MissingExtra.
    """

    async def collect() -> Values:
        values, counts = Values(), proxy.counts
        values.set(CONNECTIONS, proxy.connected)
        for client in proxy.clients:
            values.add(CLIENTS, 1, pb.ClientType.Name(client.settings.client_type))
        for (rpc, code), number in counts.by_outcome.items():
            values.set(CALLS, number, rpc, pb.Code.Name(code))
        values.buckets[LATENCY] = HistogramValue(LATENCY_MS, tuple(counts.took), counts.took_ms)
        return values

    source = EndpointSource(collect, reasons=lambda: ())
    return Endpoint(host, port, source, labels={"node_type": "proxy"})
