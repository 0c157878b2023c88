"""The lags of all groups by queue, by few requests: one to each master, and one for each consumed topic.

They are those of ``survey``: by what groups have committed, without messages that were popped and are not
acknowledged.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from cometmq.admin.cluster import NOT_FOUND, ClusterAdmin
from cometmq.cluster.system_names import is_user_group
from cometmq.errors import RemoteError
from cometmq.message import MessageQueue
from cometmq.net.tasks import bounded_map
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import ConsumerOffsets
from cometmq.wire.bodies.stats import decode_topic_stats
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import TopicHeader

QueueLags = dict[str, dict[MessageQueue, int]]
"""Messages that groups have not handled, by group and queue."""
AT_ONCE: Final = 8
"""Most requests for topics that wait for a broker at a time: nobody waits for the result."""


async def queue_lags(cluster: ClusterAdmin) -> QueueLags:
    """Return the lags of all groups. Raises NoRoute without a master, RemoteError, NetworkError."""
    masters = await cluster.masters()
    found: QueueLags = {}
    for part in await asyncio.gather(*(_of_broker(cluster, *one) for one in masters.items())):
        for group, lags in part.items():
            found.setdefault(group, {}).update(lags)
    return found


async def _of_broker(cluster: ClusterAdmin, name: str, address: str) -> QueueLags:
    answer = await cluster.ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
    committed: dict[tuple[str, str], dict[int, int]] = {}
    for key, offsets in decode(ConsumerOffsets, answer.body).offsets.items():
        topic, _, group = key.rpartition("@")
        if is_user_group(group):
            committed[topic, group] = offsets
    ends = await _ends(cluster, name, address, {topic for topic, _ in committed})
    found: QueueLags = {}
    for (topic, group), offsets in committed.items():
        lags = {queue: max(end - offsets.get(queue.queue_id, 0), 0) for queue, end in ends[topic].items()}
        found.setdefault(group, {}).update(lags)
    return found


async def _ends(
    cluster: ClusterAdmin, name: str, address: str, topics: Iterable[str]
) -> dict[str, dict[MessageQueue, int]]:
    """Return the ends of a broker's queues by topic; none for a topic that is gone."""

    async def one(topic: str) -> tuple[str, dict[MessageQueue, int]]:
        try:
            answer = await cluster.ask(address, RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic))
        except RemoteError as error:
            if error.code not in NOT_FOUND:
                raise
            return topic, {}
        offsets = decode_topic_stats(answer.body).offsets
        return topic, {queue: at.max_offset for queue, at in offsets.items() if queue.broker_name == name}

    return dict(await bounded_map(one, topics, AT_ONCE))
