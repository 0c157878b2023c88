"""The lag of a group over time, as the console has sampled it, for the chart on the group's page."""

from typing import Final

from starlette.responses import JSONResponse, Response

from cometmq.admin import offsets
from cometmq.console.visit import Visit

LINES_MAX: Final = 7
"""Most queues that a chart has lines for: those with the largest lags. The total counts all."""


async def lags(visit: Visit) -> Response:
    """Return the times, the total and the lags of the worst queues."""
    group = visit.part("group")
    if visit.site.settings.login:  # what it may see the brokers decide: they sampled for the console itself
        await offsets.progress_of(visit.cluster, group)
    found = visit.site.observations.lags.of_group(group)
    worst = sorted(found.queues.items(), key=lambda item: -max((lag or 0 for lag in item[1]), default=0))
    return JSONResponse(
        {
            "times": found.times,
            "total": found.total or [None] * len(found.times),
            "queues": [
                {"name": f"{queue.topic} {queue.broker_name}:{queue.queue_id}", "lags": series}
                for queue, series in worst[:LINES_MAX]
            ],
            "queue_count": len(found.queues),
            "is_whole": found.is_whole,
        }
    )
