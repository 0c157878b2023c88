"""How commands ask a cluster: one event loop for each, and errors that teach."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cometmq.admin.cluster import ClusterAdmin, missing_topic
from cometmq.admin.topics import TopicAdmin
from cometmq.errors import NoRoute

ResultT = TypeVar("ResultT")


def ask(namesrv: str, work: Callable[[TopicAdmin], Awaitable[ResultT]]) -> ResultT:
    """Run ``work`` with what asks the cluster, and give what it gives.

    Raises what ``work`` raises; NoRoute says what there is instead of a topic that is not there.
    """

    async def run() -> ResultT:
        async with TopicAdmin(namesrv) as admin:
            try:
                return await work(admin)
            except NoRoute as error:
                raise await _taught(admin, error) from None

    return asyncio.run(run())


async def taught(namesrv: str, error: NoRoute) -> NoRoute:
    """Give the error that says what there is instead of a topic that is not there."""
    async with ClusterAdmin(namesrv) as cluster:
        return await _taught(cluster, error)


async def _taught(cluster: ClusterAdmin, error: NoRoute) -> NoRoute:
    return error if error.topic is None else await missing_topic(cluster, error.topic)
