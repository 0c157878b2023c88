"""Run a command's work against a cluster: one event loop per command, and errors that name the remedy."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cometmq.admin.cluster import ClusterAdmin, missing_topic
from cometmq.admin.topics import TopicAdmin
from cometmq.cli.access import access
from cometmq.errors import NoRoute

ResultT = TypeVar("ResultT")


def run_in_cluster(namesrv: str, work: Callable[[TopicAdmin], Awaitable[ResultT]]) -> ResultT:
    """Run ``work`` with a connected TopicAdmin, and return its result.

    Raises what ``work`` raises; a NoRoute is replaced by one that names the nearest topic and the remedy.
    """

    async def run() -> ResultT:
        async with TopicAdmin(namesrv, **access()) as admin:
            try:
                return await work(admin)
            except NoRoute as error:
                raise await _explained(admin, error) from None

    return asyncio.run(run())


async def explain_no_route(namesrv: str, error: NoRoute) -> NoRoute:
    """Return a NoRoute for the same topic that names the nearest topic and the remedy."""
    async with ClusterAdmin(namesrv, **access()) as cluster:
        return await _explained(cluster, error)


async def _explained(cluster: ClusterAdmin, error: NoRoute) -> NoRoute:
    return error if error.topic is None else await missing_topic(cluster, error.topic)
