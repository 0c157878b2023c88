from collections import deque
from pathlib import Path
from typing import Any

import pytest
from tests.fuzzed_broker import NAME, fuzzed_broker, nonsense
from tests.kit.brokers import register_a_broker_that_is_gone
from tests.live import BROKER, serving

from cometmq.admin import browsing, messages
from cometmq.admin.tolerant import Trouble
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer
from cometmq.errors import FormatError, NotFound
from cometmq.format.sys_flag import is_compressed
from cometmq.message import Message, MessageQueue, StoredMessage


async def fill(name_server: str, count: int, begin: bytes = b"") -> None:
    async with Producer(name_server) as producer:
        for number in range(count):
            await producer.send(
                Message("T", begin + str(number).encode(), tags="odd" if number % 2 else "even"),
            )


async def newest(
    admin: TopicAdmin, limit: int, *, tags: str = "*", troubles: list[Trouble] | None = None
) -> list[bytes]:
    """Return the bodies of the newest messages."""
    found = browsing.newest(admin, "T", [] if troubles is None else troubles, limit=limit, tags=tags)
    return [message.body async for message in found][:limit]


async def test_the_newest_of_all_queues_come_first(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=2)
        await fill(live.name_server, 10)
        assert await newest(admin, 3) == [b"9", b"8", b"7"]
        assert await newest(admin, 10, tags="odd") == [b"9", b"7", b"5", b"3", b"1"]
        with pytest.raises(FormatError):
            await newest(admin, 3, tags="||")


async def test_few_messages_are_held_while_the_newest_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsing, "KEPT_BYTES_MAX", 200)
    counts: list[int] = []
    read = browsing._last_of

    async def counted(*arguments: Any) -> tuple[deque[StoredMessage], bool]:
        kept, is_whole = await read(*arguments)
        counts.append(len(kept))
        return kept, is_whole

    monkeypatch.setattr(browsing, "_last_of", counted)
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=1)
        await fill(live.name_server, 90, b"x" * 50)
        assert await newest(admin, 100) == [b"x" * 50 + b"%d" % n for n in reversed(range(90))]
    assert max(counts) == 3, "no more than have 200 bytes"


async def test_a_message_is_found_with_its_body_as_it_is_stored(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=1)
        async with Producer(live.name_server) as producer:
            await producer.send(Message("T", bytes(100_000)))
        queue = MessageQueue("T", BROKER, 0)
        walks = (
            browsing.newest(admin, "T", [], limit=1),
            browsing.from_offset(admin, queue, 0),
            messages.by_time(admin, "T"),
        )
        for walk in walks:
            (found,) = [message async for message in walk]
            assert is_compressed(found.sys_flag) and len(found.body) < 1_000


async def test_a_queue_is_read_from_an_offset(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=1)
        await fill(live.name_server, 6)
        queue = MessageQueue("T", BROKER, 0)
        found = [message async for message in browsing.from_offset(admin, queue, 2)]
        assert [message.queue_offset for message in found] == [2, 3, 4, 5]
        even = [message async for message in browsing.from_offset(admin, queue, 3, tags="even")]
        assert [message.body for message in even] == [b"4"]
        assert [message async for message in browsing.from_offset(admin, queue, 6)] == []
        with pytest.raises(NotFound, match=f"no queue {BROKER}:7: it has {BROKER}:0"):
            await anext(browsing.from_offset(admin, queue._replace(queue_id=7), 0))


async def test_the_queues_of_a_broker_that_is_gone_are_a_trouble(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=1)
        await fill(live.name_server, 2)
        gone = await register_a_broker_that_is_gone(admin, "T")
        troubles: list[Trouble] = []
        assert await newest(admin, 3, troubles=troubles) == [b"1", b"0"]
        (trouble,) = troubles
        assert trouble.broker_name == "broker-gone" and gone in trouble.text


async def test_queues_of_which_no_message_can_be_read_are_a_trouble(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=1)
        await fill(live.name_server, 2)
        async with fuzzed_broker(admin, nonsense, "T"):
            troubles: list[Trouble] = []
            assert await newest(admin, 3, troubles=troubles) == [b"1", b"0"]
            (trouble,) = troubles
            assert trouble.broker_name == NAME and "record at 0" in trouble.text
