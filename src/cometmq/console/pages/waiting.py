"""What waits on brokers, and the producers that are connected."""

import time

from starlette.responses import Response

from cometmq.admin import survey
from cometmq.admin.tolerant import TolerantAdmin
from cometmq.admin.waiting import waiting as find_waiting
from cometmq.cluster.waiting import LATER, SPANS_MS
from cometmq.console.visit import Visit


async def waiting(visit: Visit) -> Response:
    """Show how many messages wait, for what, and when they are due."""
    cluster = TolerantAdmin(visit.cluster)
    await cluster.leave_out_silent_brokers()
    report = await find_waiting(cluster, now_ms=int(time.time() * 1000), topic=visit.text("topic") or None)
    return visit.page(
        "waiting.html",
        here="/waiting",
        topic=visit.text("topic"),
        lines=report.lines,
        unread=report.unread,
        spans=(*SPANS_MS, LATER),
        troubles=list(dict.fromkeys([*cluster.troubles, *report.troubles])),
    )


async def producers(visit: Visit) -> Response:
    """Show the producers that send heartbeats: those of transactions and of requests."""
    lines, troubles = await survey.producers(visit.cluster)
    return visit.page("producers.html", here="/producers", producers=lines, troubles=troubles)
