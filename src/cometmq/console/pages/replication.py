"""Masters and their slaves: how far each log has come, and which slaves are in sync."""

from starlette.responses import Response

from cometmq.admin.replicas import replicas
from cometmq.console.visit import Visit


async def replication(visit: Visit) -> Response:
    """Show all brokers, and the slaves that are connected to masters."""
    lines = await replicas(visit.cluster)
    return visit.page(
        "replication.html",
        here="/replication",
        brokers=lines,
        masters=[line for line in lines if line.role == "master"],
        connected=[(line, slave) for line in lines for slave in line.connected],
    )
