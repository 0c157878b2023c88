from pathlib import Path

from tests.live import BROKER, serving

from cometmq.admin.queue_lags import queue_lags
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer, PullConsumer
from cometmq.message import Message, MessageQueue


async def test_each_group_has_its_lag_in_each_queue(tmp_path: Path) -> None:
    first, second = (MessageQueue("T", BROKER, queue_id) for queue_id in (0, 1))
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=2)
        await admin.create("gone", queues=1)
        async with Producer(live.name_server) as producer:
            for queue in (first, first, first, second):
                await producer.send(Message("T", b"x"), queue)
        assert await queue_lags(admin) == {}
        for group, queue, offset in (
            ("a", first, 1),
            ("b", second, 9),
            ("c", MessageQueue("gone", BROKER, 0), 0),
        ):
            async with PullConsumer(live.name_server, group) as reader:
                await reader.commit(queue, offset)
        await admin.delete("gone")
        found = await queue_lags(admin)
        assert found["a"] == {first: 2, second: 1}
        assert found["b"] == {first: 3, second: 0}, "it is ahead of the end"
        assert found.get("c", {}) == {}
