from pathlib import Path

from tests.broker.conftest import Client, serving
from tests.broker.pops import come_back, pop_header, popped
from tests.kit.pops import HAS, HAS_NOT, NOTIFICATION, POLL_MS, ask, header, topic, turns

from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import (
    NotificationResponseHeader,
    PollingInfoHeader,
    PollingInfoResponseHeader,
    parse,
)


async def test_a_notification_tells_whether_a_pop_would_find_messages(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        await topic(bench, "%RETRY%g+T")
        assert await ask(bench) == HAS_NOT
        await bench.send("T", b"a", 1)
        assert await ask(bench) == await ask(bench, queue_id=1) == HAS
        assert await ask(bench, queue_id=0) == HAS_NOT
        await popped(bench)
        assert await ask(bench) == HAS_NOT
        come_back(bench, "%RETRY%g+T", b"again")
        assert await ask(bench) == HAS


async def test_few_messages_count_only_with_a_wanted_tag(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for n in range(63):
            await bench.send("T", b"x", TAGS="A" if n == 40 else "B")
        assert await ask(bench, exp="A") == HAS
        assert await ask(bench, exp="C") == HAS_NOT
        await bench.send("T", TAGS="B")
        assert await ask(bench, exp="C") == HAS


async def test_a_held_notification_is_answered_by_a_message_or_when_its_time_is_up(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        first = bench.ask_later(NOTIFICATION, header(bench, poll_time=POLL_MS))
        second = bench.ask_later(NOTIFICATION, header(bench, poll_time=POLL_MS + 1_000, born_time=0))
        await bench.ask(RequestCode.GET_BROKER_CONFIG)
        await bench.send("T")
        assert parse(NotificationResponseHeader, (await second).ext_fields) == HAS  # the later one
        await popped(bench)
        bench.clock.advance(POLL_MS)
        bench.parts.waiting.expire()
        assert parse(NotificationResponseHeader, (await first).ext_fields) == HAS_NOT


async def test_without_room_it_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path, pop_polling_size=1) as bench:
        await topic(bench)
        bench.ask_later(NOTIFICATION, header(bench, poll_time=POLL_MS))
        assert await ask(bench, poll_time=POLL_MS) == NotificationResponseHeader(False, True)


async def test_polling_info_counts_the_pops_that_wait(tmp_path: Path) -> None:
    async def count(client: Client, queue_id: int) -> int:
        asked = PollingInfoHeader("g", "T", queue_id)
        answer = await client.ask(RequestCode.POLLING_INFO, asked)
        return parse(PollingInfoResponseHeader, answer.ext_fields).polling_count

    async with serving(tmp_path) as bench:
        await topic(bench)
        for queue_id in (-1, -1, 2):
            bench.ask_later(RequestCode.POP_MESSAGE, pop_header(queue_id=queue_id, poll_time=POLL_MS))
        assert [await count(bench, queue_id) for queue_id in (-1, 2, 0)] == [2, 1, 0]
        await bench.send("T", b"a", 2)
        await turns()
        assert [await count(bench, queue_id) for queue_id in (-1, 2)] in ([1, 1], [1, 0])


async def test_what_does_not_exist_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        unknown = await bench.ask(NOTIFICATION, header(bench, topic="None"))
        assert unknown.code == ResponseCode.TOPIC_NOT_EXIST
        asked = PollingInfoHeader("g", "T", 4)
        assert (await bench.ask(RequestCode.POLLING_INFO, asked)).code == ResponseCode.INVALID_PARAMETER
