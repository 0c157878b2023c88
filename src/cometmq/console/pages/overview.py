"""The overview: the brokers, what goes in and out, and the groups that lag most."""

import asyncio
from typing import Final

from starlette.responses import Response

from cometmq.admin import cluster
from cometmq.admin.cluster import BrokerLine
from cometmq.admin.group_survey import survey_groups
from cometmq.admin.tolerant import Trouble
from cometmq.console.visit import Visit

WORST_SHOWN: Final = 10
"""Most groups in the list of those that lag."""


async def overview(visit: Visit) -> Response:
    """Show the overview."""
    lines, topics, found = await asyncio.gather(
        cluster.brokers(visit.cluster), visit.cluster.own_topics(), survey_groups(visit.cluster)
    )
    worst = sorted((group for group in found.groups if group.lag), key=lambda group: -group.lag)
    troubles = [
        *(Trouble(line.broker_name, line.address, line.trouble) for line in lines if line.trouble),
        *found.troubles,
    ]
    return visit.page(
        "overview.html",
        here="/",
        brokers=lines,
        topics=topics,
        groups=found.groups,
        worst=worst[:WORST_SHOWN],
        lag=sum(group.lag for group in worst),
        divided=[group for group in found.groups if group.is_divided],
        missing=_missing(lines),
        troubles=list(dict.fromkeys(troubles)),
    )


def _missing(lines: list[BrokerLine]) -> str:
    """Return how many brokers report nothing, and why; empty if all do."""
    unreadable = sum(line.is_unreadable for line in lines)
    silent = sum(line.trouble is not None for line in lines) - unreadable
    counts = ((silent, "not answering"), (unreadable, "unreadable"))
    return ", ".join(f"{count} {what}" for count, what in counts if count)
