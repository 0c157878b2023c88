from pathlib import Path

import pytest
from tests.admin.test_survey import register_a_broker_that_is_gone
from tests.live import BROKER, serving

from cometmq.admin import browsing
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer
from cometmq.errors import FormatError, NotFound
from cometmq.message import Message, MessageQueue


async def fill(name_server: str, count: int) -> None:
    async with Producer(name_server) as producer:
        for number in range(count):
            await producer.send(
                Message("T", str(number).encode(), tags="odd" if number % 2 else "even"),
            )


async def test_the_newest_of_all_queues_come_first(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=2)
        await fill(live.name_server, 10)
        found = await browsing.newest(admin, "T", limit=3)
        assert [message.body for message in found.messages] == [b"9", b"8", b"7"] and found.troubles == []
        odd = await browsing.newest(admin, "T", limit=10, tags="odd")
        assert [message.body for message in odd.messages] == [b"9", b"7", b"5", b"3", b"1"]
        with pytest.raises(FormatError):
            await browsing.newest(admin, "T", limit=3, tags="||")


async def test_a_queue_is_read_from_an_offset(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=1)
        await fill(live.name_server, 6)
        queue = MessageQueue("T", BROKER, 0)
        found = await browsing.from_offset(admin, queue, 2, limit=3)
        assert [message.queue_offset for message in found] == [2, 3, 4]
        even = await browsing.from_offset(admin, queue, 3, limit=9, tags="even")
        assert [message.body for message in even] == [b"4"]
        assert await browsing.from_offset(admin, queue, 6, limit=3) == []
        with pytest.raises(NotFound, match=f"no queue {BROKER}:7: it has {BROKER}:0"):
            await browsing.from_offset(admin, queue._replace(queue_id=7), 0, limit=3)


async def test_the_queues_of_a_broker_that_is_gone_are_a_trouble(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=1)
        await fill(live.name_server, 2)
        gone = await register_a_broker_that_is_gone(admin, "T")
        found = await browsing.newest(admin, "T", limit=3)
        assert [message.body for message in found.messages] == [b"1", b"0"]
        (trouble,) = found.troubles
        assert trouble.broker_name == "broker-gone" and gone in trouble.text
