from pathlib import Path

import pytest
from tests.consuming import Basket
from tests.shop import Shop, shop

from cometmq.admin import dead_letters
from cometmq.admin.topics import TopicAdmin
from cometmq.client.handling.outcome import DeadLetter
from cometmq.errors import NotFound
from cometmq.message import StoredMessage


async def letters_of(admin: TopicAdmin, count: int) -> list[StoredMessage]:
    """Wait for so many dead letters of the group."""
    while True:
        try:
            found = [letter async for letter in dead_letters.letters(admin, "readers")]
        except NotFound:
            found = []
        if len(found) >= count:
            return found


async def give_up(here: Shop, admin: TopicAdmin, *bodies: bytes) -> list[StoredMessage]:
    """Exhaust the group's attempts at messages."""
    consumer = here.consumer()

    @consumer.on("Orders")
    async def refuse(_: StoredMessage) -> None:
        raise DeadLetter

    await here.send(*bodies)
    async with consumer:
        return await letters_of(admin, len(bodies))


async def test_dead_letters_are_listed_and_come_again_to_their_group_alone(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, TopicAdmin(here.live.name_server) as admin:
        assert await dead_letters.groups(admin) == []
        with pytest.raises(NotFound, match="group readers has no dead letters"):
            await anext(dead_letters.letters(admin, "readers"))
        letters = await give_up(here, admin, b"0", b"1")
        assert [dead_letters.topic_of(letter) for letter in letters] == ["Orders"] * 2
        (line,) = await dead_letters.groups(admin)
        assert (line.group, line.letters) == ("readers", 2) and line.last_time > 0
        basket = Basket()
        consumer = here.consumer()
        consumer.on("Orders")(basket.put)
        sent = await dead_letters.resend(admin, "readers", letters[0])
        assert sent.topic == "%RETRY%readers"
        async with consumer:
            await basket.has(1)
        (message,) = basket.messages
        assert (message.topic, message.body, message.reconsume_times) == ("Orders", letters[0].body, 0)
        assert message.message_id == letters[0].message_id


async def test_dead_letters_can_go_to_all_groups_of_their_topic(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, TopicAdmin(here.live.name_server) as admin:
        (letter,) = await give_up(here, admin, b"0")
        sent = await dead_letters.resend(admin, "readers", letter, to_topic=True)
        assert (sent.topic, sent.queue_offset) == ("Orders", 1)
