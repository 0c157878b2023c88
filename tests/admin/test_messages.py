from pathlib import Path

import pytest
from tests.live import BROKER
from tests.shop import QUEUE, Shop, shop

from cometmq.admin import messages
from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.topics import TopicAdmin
from cometmq.errors import NoRoute, NotFound, SettingsError
from cometmq.message import Message, StoredMessage


async def all_of(
    cluster: ClusterAdmin, begin: int = 0, end: int = messages.TIME_MAX, tags: str = "*"
) -> list[bytes]:
    found = messages.by_time(cluster, "Orders", begin=begin, end=end, tags=tags)
    return [message.body async for message in found]


async def only(here: Shop, queue_offset: int = 0) -> StoredMessage:
    return (await here.requests.pull(QUEUE, queue_offset, max_count=1)).messages[0]


async def test_a_message_is_found_by_either_id_and_by_key(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, ClusterAdmin(here.live.name_server) as cluster:
        sent = await here.producer.send(Message("Orders", b"x", keys=("42",)))
        await here.producer.send(Message("Bills", b"y"))
        for message_id, topic in (
            (sent.message_id, "Orders"),
            (sent.offset_id, None),
            (sent.offset_id, "Orders"),
        ):
            assert [one.body for one in await messages.by_id(cluster, message_id, topic)] == [b"x"]
        assert [one.body async for one in messages.by_key(cluster, "Orders", "42")] == [b"x"]
        with pytest.raises(SettingsError, match="give its topic"):
            await messages.by_id(cluster, sent.message_id)
        with pytest.raises(NotFound, match="no message"):
            await messages.by_id(cluster, "AB", "Orders")
        with pytest.raises(NotFound, match="no message"):
            await messages.by_id(cluster, f"{sent.offset_id[:-2]}01", "Orders")
        with pytest.raises(NotFound, match=f"no message {sent.offset_id[:-2]}01$"):
            await messages.by_id(cluster, f"{sent.offset_id[:-2]}01")
        with pytest.raises(NotFound, match="in topic Bills: it is one of topic Orders"):
            await messages.by_id(cluster, sent.offset_id, "Bills")
        with pytest.raises(NotFound, match="key '43'"):
            await anext(messages.by_key(cluster, "Orders", "43"))


async def test_messages_of_all_queues_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    async with shop(tmp_path, queues=2) as here, ClusterAdmin(here.live.name_server) as cluster:
        for n in range(70):  # more than a pull gives
            await here.send(b"%d" % n, tags="odd" if n % 2 else "even")
        found = [one async for one in messages.by_time(cluster, "Orders")]
        assert sorted(int(one.body) for one in found) == list(range(70))
        times = [one.store_time for one in found]
        assert times == sorted(times)
        assert len(await all_of(cluster, tags="odd")) == 35
        assert set(await all_of(cluster, times[-1])) == {
            one.body for one in found if one.store_time == times[-1]
        }
        assert await all_of(cluster, 0, times[0] - 1) == await all_of(cluster, times[-1] + 1) == []
        with pytest.raises(NoRoute):
            await anext(messages.by_time(cluster, "Nothing"))


async def test_a_message_is_sent_again_as_a_new_one(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, TopicAdmin(here.live.name_server) as admin:
        await here.producer.send(Message("Orders", b"x", "paid", ("42",), {"colour": "red"}))
        first = await only(here)
        sent = await messages.send_again(admin, first, "Orders")
        again = await only(here, 1)
        assert (sent.broker_name, sent.queue_offset, sent.offset_id) == (BROKER, 1, again.offset_id)
        assert (again.body, again.tags, again.keys, again.message_id) == (
            b"x",
            "paid",
            ("42",),
            first.message_id,
        )
        assert again.properties == first.properties
        await admin.create("Closed", perm=4)
        with pytest.raises(NotFound, match="'Closed' can be written to"):
            await messages.send_again(admin, first, "Closed")


async def test_nobody_there_handles_no_message(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, ClusterAdmin(here.live.name_server) as cluster:
        await here.send(b"x")
        with pytest.raises(NotFound, match="group readers has no members now"):
            await messages.consume_directly(cluster, "readers", await only(here))


async def test_a_body_that_is_compressed_stays_so_when_it_is_found_and_sent_again(tmp_path: Path) -> None:
    body = bytes(100_000)
    async with shop(tmp_path) as here, ClusterAdmin(here.live.name_server) as cluster:
        sent = await here.producer.send(Message("Orders", body, keys=("42",)))
        found = [
            *await messages.by_id(cluster, sent.offset_id),
            *await messages.by_id(cluster, sent.message_id, "Orders"),
            *[one async for one in messages.by_key(cluster, "Orders", "42")],
        ]
        assert len(found) == 3 and all(len(one.body) < 1_000 for one in found)
        await messages.send_again(cluster, found[0], "Orders")
        assert (await only(here, 1)).body == body
