import time
from pathlib import Path

from tests.fuzzed_broker import NAME, fuzzed_broker
from tests.live import BROKER, serving
from tests.shop import shop

from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.topics import TopicAdmin
from cometmq.admin.waiting import Unread, waiting
from cometmq.cluster.waiting import WaitingKind
from cometmq.message import Message


def now_ms() -> int:
    return int(time.time() * 1000)


async def test_nothing_waits_on_a_new_broker(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, ClusterAdmin(here.live.name_server) as cluster:
        assert await waiting(cluster, now_ms=now_ms()) == ([], [], [])


async def test_delayed_messages_are_due_by_their_levels(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, ClusterAdmin(here.live.name_server) as cluster:
        before = now_ms()
        for level in (17, 17, 9):  # an hour, and 5 minutes
            await here.producer.send(Message("Orders", b"x", delay_level=level))
        (line,), unread, _ = await waiting(cluster, now_ms=now_ms())
        assert (line.kind, line.topic, line.group, line.message_count) == (
            WaitingKind.DELAYED,
            "Orders",
            "",
            3,
        )
        assert (line.due["10m"], line.due["1h"], unread) == (1, 2, [])
        assert 0 <= line.first_due_ms - before - 300_000 < 60_000
        assert 0 <= line.last_due_ms - before - 3_600_000 < 60_000
        assert (await waiting(cluster, now_ms=now_ms(), topic="Other")).lines == []
        assert (await waiting(cluster, now_ms=now_ms(), kinds=[WaitingKind.HALF])).lines == []


async def test_what_is_too_much_to_read_is_reported(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, ClusterAdmin(here.live.name_server) as cluster:
        for _ in range(3):
            await here.producer.send(Message("Orders", b"x", delay_level=17))
            await here.producer.send(Message("Orders", b"x", delay_ms=3_600_000))
        lines, unread, _ = await waiting(cluster, now_ms=now_ms(), read_max=2)
        assert [(line.kind, line.message_count) for line in lines] == [("delayed", 2), ("timed", 2)]
        assert unread == [
            Unread("SCHEDULE_TOPIC_XXXX", BROKER, 1),
            Unread("rmq_sys_wheel_timer", BROKER, 1),
        ]


async def test_a_broker_that_answers_what_cannot_be_read_is_a_trouble(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin, fuzzed_broker(admin):
        report = await waiting(admin, now_ms=0)
        (trouble,) = report.troubles
        assert trouble.broker_name == NAME and "answers what cannot be read" in trouble.text
