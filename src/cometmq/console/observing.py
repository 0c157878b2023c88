"""What the console observes of a cluster while it runs, whether anybody visits it or not."""

import asyncio
from collections.abc import Callable
from typing import Final

from cometmq.admin import access
from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.group_survey import queue_lags
from cometmq.admin.topics import TopicAdmin
from cometmq.client.credentials import find_credentials
from cometmq.console.lag_history import LagHistory
from cometmq.console.settings import ConsoleSettings
from cometmq.errors import CometMQError
from cometmq.logs import get_logger

INTERVAL_S: Final = 30

_log: Final = get_logger(__name__)


class Observations:
    """What is known of a cluster.

    Attributes:
        has_users: whether its brokers have users, so that pages for them are of use.
        lags: the lags of its groups over time.
    """

    def __init__(self, *, has_users: bool = False) -> None:
        self.has_users = has_users
        self.lags = LagHistory()


def observing_cluster(settings: ConsoleSettings) -> TopicAdmin | None:
    """Return connections for the console itself; None without a cluster, or a user of its own."""
    if settings.store is not None or (settings.login and find_credentials(settings.credentials) is None):
        return None
    return TopicAdmin(settings.name_servers, credentials=settings.credentials, tls=settings.tls)


async def observe(cluster: ClusterAdmin, found: Observations, now_ms: Callable[[], int]) -> None:
    """Observe the cluster once. What fails is tried again the next time: pages tell their visitors."""
    try:
        found.has_users = found.has_users or await access.are_known(cluster)
        found.lags.add(now_ms(), await queue_lags(cluster))
    except CometMQError as error:
        _log.debug("the cluster could not be observed: %s", error)


async def keep_observing(cluster: ClusterAdmin, found: Observations, now_ms: Callable[[], int]) -> None:
    """Observe the cluster twice a minute, until this is cancelled."""
    while True:
        await observe(cluster, found, now_ms)
        await asyncio.sleep(INTERVAL_S)
