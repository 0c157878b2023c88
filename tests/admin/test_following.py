from contextlib import aclosing
from pathlib import Path

import pytest
from tests.live import BROKER, serving

from cometmq.admin.following import follow
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer
from cometmq.errors import FormatError, NoRoute
from cometmq.message import Message, MessageQueue

QUEUE = MessageQueue("T", BROKER, 0)


async def test_what_comes_to_a_topic_is_found_round_by_round(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as live,
        TopicAdmin(live.name_server) as admin,
        Producer(live.name_server) as producer,
    ):
        await admin.create("T", queues=1)
        await producer.send(Message("T", b"before"))
        async with aclosing(follow(admin, "T", limit=3, pause_s=0)) as rounds:
            assert (await anext(rounds)).messages == []
            for number in range(2):
                await producer.send(Message("T", str(number).encode()), QUEUE)
            found = await anext(rounds)
            assert [one.beginning for one in found.messages] == [b"0", b"1"] and found.skipped == 0
            for number in range(5):
                await producer.send(Message("T", str(number).encode()), QUEUE)
            found = await anext(rounds)
            assert [one.beginning for one in found.messages] == [b"2", b"3", b"4"] and found.skipped == 2
            assert await anext(rounds) == ([], 0, [])


async def test_a_filter_selects_and_new_queues_are_read_from_their_first_message(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as live,
        TopicAdmin(live.name_server) as admin,
        Producer(live.name_server) as producer,
    ):
        await admin.create("T", queues=1)
        async with aclosing(follow(admin, "T", limit=3, tags="a", pause_s=0)) as rounds:
            await anext(rounds)
            await admin.create("T", queues=2)
            new = MessageQueue("T", BROKER, 1)
            for tags in ("a", "b"):
                await producer.send(Message("T", tags.encode(), tags=tags), new)
            assert [one.beginning for one in (await anext(rounds)).messages] == [b"a"]


async def test_what_cannot_be_followed_is_an_error(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        with pytest.raises(NoRoute):
            await anext(follow(admin, "T", limit=3))
        await admin.create("T", queues=1)
        with pytest.raises(FormatError):
            await anext(follow(admin, "T", limit=3, tags="||"))
