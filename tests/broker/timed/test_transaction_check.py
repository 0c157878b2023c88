"""Rounds over half messages that nobody has ended: who is asked, what is given up, what a restart knows."""

import asyncio
from pathlib import Path

import pytest
from tests.broker.conftest import Bench, Client, serving
from tests.broker.halves import (
    COMMIT,
    GIVEN_UP,
    HALF,
    IMMUNITY_MS,
    OP,
    ROLLBACK,
    Half,
    asked,
    check,
    committed,
    end,
    prepare,
    produce,
    records,
)

from cometmq.broker.timed import transaction_check
from cometmq.format import properties
from cometmq.store.append import NewMessage
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import TopicHeader

GROUP = "CID_RMQ_SYS_TRANS"
HOUR_MS = 3_600_000


def done_with(bench: Bench) -> tuple[int | None, int | None]:
    """Return how far half and op messages are done with, as it is saved."""
    offsets = bench.parts.offsets
    return offsets.committed(GROUP, HALF, 0), offsets.committed(GROUP, OP, 0)


async def test_a_producer_is_asked_for_what_it_has_not_ended_and_may_end_it_then(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        await prepare(bench, TAGS="A", own="y")
        await check(bench, IMMUNITY_MS)
        assert bench.told.empty() and done_with(bench) == (0, 0)
        await check(bench, 1)
        half, message = await asked(bench)
        named = properties.decode(message.properties)
        assert (message.topic, message.queue_id, message.body) == ("T", 2, b"x")
        assert (named["TAGS"], named["own"], named["TRANSACTION_CHECK_TIMES"]) == ("A", "y", "1")
        assert half.half_offset == 1 and done_with(bench) == (1, 1)
        assert (await end(bench, half, from_check=True)).code == ResponseCode.SUCCESS
        await check(bench)
        assert bench.told.empty() and committed(bench) == [b"x"]
        assert done_with(bench) == (2, 2)


async def test_a_producer_that_may_not_send_to_the_topic_is_not_asked(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        await prepare(bench)
        bench.parts.transaction_check.may_ask = lambda _, __, topic: topic != "T"
        await check(bench)
        assert bench.told.empty()
        bench.parts.transaction_check.may_ask = lambda _, __, topic: topic == "T"
        await check(bench)
        await asked(bench)


async def test_what_is_ended_is_not_asked_for_whatever_lies_between(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        halves = [await prepare(bench, body=b"%d" % number) for number in range(100)]
        for number, half in enumerate(halves):
            if number % 10:
                await end(bench, half, COMMIT if number % 2 else ROLLBACK)
        await check(bench)
        questions = [await asked(bench) for _ in range(10)]
        assert [message.body for _, message in questions] == [b"%d" % n for n in range(0, 100, 10)]
        assert bench.told.empty()
        assert done_with(bench)[0] == 100


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_an_end_by_the_former_place_ends_what_was_put_back(tmp_path: Path, decision: int) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        half = await prepare(bench)
        await check(bench)
        await check(bench)
        _, (latest, _) = await asked(bench), await asked(bench)
        for place in (half, latest, half):
            assert (await end(bench, place, decision)).code == ResponseCode.SUCCESS
        await check(bench)
        assert bench.told.empty()
        assert committed(bench) == ([b"x"] if decision == COMMIT else [])


async def test_what_wants_to_be_asked_for_later_holds_up_nobody_and_is_asked_for_then(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        patient = await prepare(bench, CHECK_IMMUNITY_TIME_IN_SECONDS="20")
        await prepare(bench, body=b"y")
        await check(bench)
        assert (await asked(bench))[1].body == b"y"
        assert bench.told.empty()
        assert (await end(bench, patient)).code == ResponseCode.SUCCESS, "it may still be ended"
        await prepare(bench, body=b"z", CHECK_IMMUNITY_TIME_IN_SECONDS="20")
        await check(bench)
        assert (await asked(bench))[1].body == b"y"
        await check(bench, 14_000)
        assert {(await asked(bench))[1].body for _ in range(2)} == {b"y", b"z"}
        assert bench.told.empty()


async def test_what_nobody_answers_for_is_given_up_where_operators_find_it(tmp_path: Path) -> None:
    async with serving(tmp_path, transaction_check_max=3) as bench:
        await produce(bench)
        half = await prepare(bench)
        for _ in range(3):
            await check(bench)
        assert records(bench, GIVEN_UP) == []
        await check(bench)
        await check(bench)
        (given_up,) = records(bench, GIVEN_UP)
        assert given_up.body == b"x"
        assert properties.decode(given_up.properties)["TRANSACTION_CHECK_TIMES"] == "3"
        assert done_with(bench)[0] == 4
        assert (await end(bench, half)).code == ResponseCode.SUCCESS, "late, but not lost"
        assert committed(bench) == [b"x"]


def test_after_a_restart_an_end_by_a_former_place_is_refused_and_the_producer_asked_again(
    tmp_path: Path,
) -> None:
    async def first() -> Half:
        async with serving(tmp_path) as bench:
            await produce(bench)
            half = await prepare(bench)
            await check(bench)
            return half

    async def second(half: Half) -> None:
        async with serving(tmp_path) as bench:
            await bench.parts.ops.read_on()
            await produce(bench)
            answer = await end(bench, half)
            assert (answer.code, committed(bench)) == (ResponseCode.SYSTEM_ERROR, [])
            assert "at 0 of the half queue is settled" in str(answer.remark)
            await check(bench, 2 * IMMUNITY_MS)
            assert (await end(bench, (await asked(bench))[0])).code == ResponseCode.SUCCESS
            assert committed(bench) == [b"x"]

    asyncio.run(second(asyncio.run(first())))


async def test_members_of_the_group_are_asked_in_turn_and_nobody_else(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        clients = [await Client.open(bench.address) for _ in range(3)]
        for client, group in zip(clients, ["pg", "pg", "other"], strict=True):
            await produce(client, group)
        for number in range(4):
            await prepare(bench, body=b"%d" % number)
        await check(bench)
        for client in clients:
            assert (await client.ask(RequestCode.GET_BROKER_CONFIG)).code == ResponseCode.SUCCESS
        assert [client.told.qsize() for client in clients] == [2, 2, 0]
        for client in clients:
            await client.connection.close()


@pytest.mark.parametrize("is_saved", [True, False])
def test_a_restart_asks_for_all_that_is_not_ended_and_for_nothing_else(
    tmp_path: Path, *, is_saved: bool
) -> None:
    async def first() -> None:
        async with serving(tmp_path) as bench:
            await produce(bench)
            halves = [await prepare(bench, body=b"%d" % number) for number in range(40)]
            for half in halves[::2]:
                await end(bench, half)
            await check(bench)
            for _ in range(10):
                await end(bench, (await asked(bench))[0])
            if not is_saved:
                bench.parts.offsets.delete_group(GROUP)

    async def second() -> None:
        async with serving(tmp_path) as bench:
            await produce(bench)
            await check(bench)
            bodies = [(await asked(bench))[1].body for _ in range(10)]
            assert bodies == [b"%d" % number for number in range(21, 40, 2)]
            assert bench.told.empty()
            assert len(committed(bench)) == 30

    asyncio.run(first())
    asyncio.run(second())


def test_a_loss_of_power_forgets_no_half_message() -> None:
    disk, root = MemoryDisk(), Path("/disk/store")

    async def first() -> None:
        async with serving(root, {"flush_interval_commit_log": 10}, files=disk) as bench:
            await produce(bench)
            await prepare(bench, body=b"kept")
            await check(bench)
            assert done_with(bench)[0] == 1
            bench.parts.offsets.save()
            lives.append(disk.after_power_loss())

    async def second() -> None:
        async with serving(root, files=lives[0]) as bench:
            await produce(bench)
            await check(bench)
            assert (await asked(bench))[1].body == b"kept"

    lives: list[MemoryDisk] = []
    asyncio.run(first())
    asyncio.run(second())


async def test_on_a_full_disk_a_round_ends_and_the_next_goes_on() -> None:
    disk = MemoryDisk()
    async with serving(Path("/disk/store"), files=disk) as bench:
        await produce(bench)
        await prepare(bench, body=b"x" * 10_000, UNIQ_KEY="u")
        disk.space_bytes = 0
        await check(bench)
        assert bench.told.empty() and len(records(bench, HALF)) == 1
        disk.space_bytes = 1 << 40
        await check(bench)
        assert (await asked(bench))[0].half_offset == 1


async def test_a_half_message_without_room_for_a_count_is_given_up_not_lost(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        half = await prepare(bench, body=b"u")
        (waiting,) = records(bench, HALF)
        room = 32_767 - len(waiting.properties) - len("own\x01\x02") - 5
        await prepare(bench, body=b"v", own="y" * room)
        await end(bench, half)
        await check(bench)
        assert [one.body for one in records(bench, GIVEN_UP)] == [b"v"]
        assert bench.told.empty()


async def test_queues_that_were_made_anew_are_looked_at_from_their_begin(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        bench.parts.ops.endings.advance(100)
        await prepare(bench)
        await check(bench)
        assert (await asked(bench))[1].body == b"x"


async def test_op_messages_of_a_broker_before_5_are_understood(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        for number in range(3):
            await prepare(bench, body=b"%d" % number)
        (waiting, *_) = records(bench, HALF)
        for body, tags in ((b"1", "d"), (b"2", "x")):
            named, host = properties.encode({"TAGS": tags}), waiting.store_host
            bench.store.append([NewMessage(OP, 0, body, named, 0, host, host, tags)])
        await check(bench)
        assert [(await asked(bench))[1].body for _ in range(2)] == [b"0", b"2"]
        assert bench.told.empty()


async def test_a_round_that_is_stopped_asks_for_no_more(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        await prepare(bench)
        bench.parts.transaction_check.stop()
        await check(bench)
        assert bench.told.empty() and done_with(bench) == (0, 0)


async def test_only_questions_count_and_waiting_for_the_own_immunity_writes_nothing(tmp_path: Path) -> None:
    rounds, round_ms = 20, 30_000
    async with serving(tmp_path) as bench:
        await produce(bench)
        half = await prepare(bench, CHECK_IMMUNITY_TIME_IN_SECONDS=str(rounds * round_ms // 1_000))
        for _ in range(rounds):
            await check(bench, round_ms)
        assert (bench.told.empty(), records(bench, GIVEN_UP), len(records(bench, HALF))) == (True, [], 1)
        await check(bench, round_ms)
        asked_at, message = await asked(bench)
        assert properties.decode(message.properties)["TRANSACTION_CHECK_TIMES"] == "1"
        assert asked_at != half


async def test_a_half_message_waits_for_its_producers_to_come_back_whatever_the_number_of_rounds(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, transaction_check_max=3) as bench:
        await prepare(bench)
        for _ in range(20):
            await check(bench)
        assert (records(bench, GIVEN_UP), len(records(bench, HALF))) == ([], 1)
        await produce(bench)
        for times in ("1", "2", "3"):
            await check(bench)
            _, message = await asked(bench)
            assert properties.decode(message.properties)["TRANSACTION_CHECK_TIMES"] == times
        await check(bench)
        assert [one.body for one in records(bench, GIVEN_UP)] == [b"x"]


async def test_what_waits_for_producers_that_never_come_is_given_up_by_its_age_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as bench:
        await prepare(bench)
        await check(bench, 72 * HOUR_MS)
        assert records(bench, GIVEN_UP) == []
        await check(bench, 1)
        assert [one.body for one in records(bench, GIVEN_UP)] == [b"x"]
        assert "it is older than 72 h, and no producer of group pg is connected" in caplog.text


async def test_what_waits_is_put_back_uncounted_once_much_lies_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_check, "LEFT_BEFORE_MAX", 5)
    async with serving(tmp_path) as bench:
        await produce(bench)
        await prepare(bench, CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
        for number in range(4):
            await end(bench, await prepare(bench, body=b"%d" % number))
        await check(bench)
        assert (done_with(bench)[0], len(records(bench, HALF))) == (0, 5), "left where it is"
        await end(bench, await prepare(bench, body=b"y"))
        await check(bench)
        assert done_with(bench)[0] == 6
        (*_, back) = records(bench, HALF)
        named = properties.decode(back.properties)
        assert (back.body, named["TRAN_PREPARED_QUEUE_OFFSET"]) == (b"x", "0")
        assert "TRANSACTION_CHECK_TIMES" not in named


async def test_what_waits_is_put_back_before_retention_could_remove_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        await prepare(bench, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        for _ in range(5):
            await bench.send("T", b"x" * 300_000)
        assert not bench.store.retention.keeps(0)
        await check(bench)
        assert [one.queue_offset for one in records(bench, HALF)] == [0, 1]
        assert done_with(bench)[0] == 1
        await check(bench, 60_000)
        assert (await asked(bench))[1].body == b"x"


async def test_what_is_left_is_asked_for_after_a_restart_and_what_is_behind_it_not(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        await prepare(bench, body=b"patient", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        await end(bench, await prepare(bench, body=b"y"))
        await check(bench)
        assert done_with(bench) == (0, 0)
    async with serving(tmp_path) as bench:
        await bench.parts.ops.read_on()
        await produce(bench)
        await check(bench, 2 * 60_000)
        half, message = await asked(bench)
        assert message.body == b"patient"
        await end(bench, half, from_check=True)
        await check(bench)
        assert bench.told.empty() and committed(bench) == [b"y", b"patient"]


async def test_the_half_message_of_who_never_was_there_is_asked_for_once_somebody_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await prepare(bench)
        for _ in range(4):
            await check(bench)
        assert len(records(bench, HALF)) == 1
        await produce(bench)
        await check(bench)
        half, message = await asked(bench)
        assert half == Half(message.physical_offset, 1)


async def test_nobody_is_asked_for_a_half_message_whose_topic_was_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        await prepare(bench)
        await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        await prepare(bench, body=b"new")
        await check(bench)
        _, message = await asked(bench)
        assert message.body == b"new"
        assert bench.told.empty()


@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS, 365 * 24 * HOUR_MS])
async def test_however_the_wall_clock_is_set_a_producer_is_asked_when_the_message_is_old_enough(
    tmp_path: Path, step_ms: int
) -> None:
    async with serving(tmp_path) as bench:
        await produce(bench)
        await prepare(bench)
        await prepare(bench, body=b"patient", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        bench.clock.advance(1_000)
        bench.clock.set_wall(bench.clock.now_ms() + step_ms)
        await check(bench, IMMUNITY_MS - 1_000)
        assert bench.told.empty()
        await check(bench, 1)
        assert (await asked(bench))[1].body == b"x"
        await check(bench, 60_000 - IMMUNITY_MS - 1)
        assert (await asked(bench))[1].body == b"x"
        assert bench.told.empty()
        await check(bench, 1)
        assert (await asked(bench))[1].body == b"patient"
        assert records(bench, GIVEN_UP) == []


async def test_a_clock_that_is_set_ahead_by_a_year_gives_up_no_half_message_that_waits_for_its_producers(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        await prepare(bench)
        bench.clock.set_wall(bench.clock.now_ms() + 365 * 24 * HOUR_MS)
        await check(bench, 71 * HOUR_MS)
        assert records(bench, GIVEN_UP) == []


async def test_a_group_of_several_lines_writes_none_of_its_own_into_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as bench:
        await prepare(bench, PGROUP="pg\n2031-01-01 00:00:00,000 ERROR cometmq: lost\x1b[2J")
        await check(bench)
    (line,) = [text for text in caplog.messages if text.startswith("no producer of group pg")]
    assert line.isprintable() and r"group pg\n2031-01-01" in line and r"lost\x1b[2J is connected" in line
