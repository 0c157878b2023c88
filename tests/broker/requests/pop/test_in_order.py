"""Pops in order: RocketMQ's own examples over the wire, and what blocks a queue, unblocks it and wakes."""

import asyncio
from pathlib import Path
from typing import Any

from tests.broker.conftest import Bench, Client, serving
from tests.broker.pops import (
    Handed,
    ack,
    change,
    check_points,
    committed,
    handed,
    pop,
    pop_header,
    popped,
    stored,
)
from tests.kit.pops import HAS, HAS_NOT, POLL_MS, ack_batch, answered, entry, header, held, topic, turns
from tests.kit.pops import ask as notify

from cometmq.broker.requests.pop.in_order import ATTEMPT_ID_LENGTH_MAX
from cometmq.format.pop.names import RetryFlag
from cometmq.format.pop.offset_info import OrderCounts, parse_order_counts
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import (
    ChangeInvisibleResponseHeader,
    NotificationResponseHeader,
    PopResponseHeader,
    ResetOffsetHeader,
    TopicHeader,
    parse,
)

INVISIBLE_MS = 3_000
IN_ORDER: dict[str, Any] = {"order": True, "queue_id": 0, "invisible_time": INVISIBLE_MS}


async def send(bench: Bench, *names: str, queue_id: int = 0, **named: str) -> None:
    for name in names:
        assert (await bench.send("T", name.encode(), queue_id, **named)).code == ResponseCode.SUCCESS


async def next_ones(bench: Client, **changes: Any) -> list[Handed]:
    return await popped(bench, **IN_ORDER | changes)


def names(messages: list[Handed]) -> str:
    return " ".join(message.body.decode() for message in messages)


def counts(answer: Command) -> OrderCounts:
    info = parse(PopResponseHeader, answer.ext_fields).order_count_info
    assert info is not None
    return parse_order_counts(info)


def advance(bench: Bench, ms: int) -> None:
    bench.clock.advance(ms)
    bench.parts.waiting.expire()


async def test_messages_come_one_after_the_other_each_after_the_last_one_s_acknowledgement(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, *map(str, range(5)))
        (message,) = await next_ones(bench, max_msg_nums=1)
        for expected in range(1, 5):
            answer = await held(bench, **IN_ORDER, max_msg_nums=1)
            assert not answer.done()
            assert (await ack(bench, message)).code == ResponseCode.SUCCESS
            (message,) = handed(await answer)
            assert names([message]) == str(expected)
            assert message.handle.revive_queue_id == 999 and message.handle.begin_offset == expected
        assert committed(bench) == {0: 4}
        assert stored(bench) == [] == check_points(bench)


async def test_without_acknowledgements_the_first_ones_come_again_once_visible(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, *map(str, range(10)))
        first = await pop(bench, **IN_ORDER, max_msg_nums=5)
        assert names(handed(first)) == "0 1 2 3 4"
        assert counts(first) == OrderCounts({(RetryFlag.NONE, 0): 0}, {})
        assert parse(PopResponseHeader, first.ext_fields).rest_count == 5
        answer = await held(bench, **IN_ORDER, max_msg_nums=5)
        advance(bench, INVISIBLE_MS - 1)
        await turns()
        assert not answer.done()
        advance(bench, 1)
        assert names(handed(await answer)) == "0 1 2 3 4"
        by_offset = {(RetryFlag.NONE, 0, offset): 1 for offset in range(5)}
        assert counts(await answer) == OrderCounts({(RetryFlag.NONE, 0): 1}, by_offset)


async def test_a_message_whose_time_was_changed_comes_again_then(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a")
        (message,) = await next_ones(bench)
        popped_ms = message.handle.pop_time_ms
        bench.clock.advance(100)
        changed = await change(bench, message, 5_000)
        assert parse(ChangeInvisibleResponseHeader, changed.ext_fields) == ChangeInvisibleResponseHeader(
            popped_ms, 5_100, 999
        )
        answer = await held(bench, **IN_ORDER)
        advance(bench, 4_999)
        await turns()
        assert not answer.done()
        advance(bench, 1)
        (again,) = handed(await answer)
        assert (await ack(bench, again)).code == ResponseCode.SUCCESS
        assert committed(bench) == {0: 1}
        late = await change(bench, again, 5_000)
        assert parse(ChangeInvisibleResponseHeader, late.ext_fields) == ChangeInvisibleResponseHeader(0, 0, 0)


async def test_a_shorter_time_wakes_who_waits_already(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a")
        (message,) = await next_ones(bench, invisible_time=60_000)
        answer = await held(bench, **IN_ORDER)
        await change(bench, message, 1_000)
        advance(bench, 1_000)
        assert names(handed(await answer)) == "a"


async def test_what_lies_behind_a_message_that_is_not_acknowledged_comes_again_too(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "1", "2", "3", "4")
        first, second, third = await next_ones(bench, max_msg_nums=3)
        for message in (first, third):
            assert (await ack(bench, message)).code == ResponseCode.SUCCESS
        await change(bench, second, 1_000)
        assert committed(bench) == {0: 1}
        answer = await held(bench, **IN_ORDER)
        advance(bench, 1_000)
        assert names(handed(await answer)) == "2 3 4"


async def test_a_pop_that_is_tried_again_gets_the_same_messages_and_they_count_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a")
        seen = [counts(await pop(bench, **IN_ORDER))]
        answer = await held(bench, **IN_ORDER, attempt_id="attempt-01")
        advance(bench, INVISIBLE_MS)
        seen.append(counts(await answer))
        seen.append(counts(await pop(bench, **IN_ORDER, attempt_id="attempt-01")))
        answer = await held(bench, **IN_ORDER, attempt_id="attempt-02")
        advance(bench, INVISIBLE_MS)
        seen.append(counts(await answer))
        seen.append(counts(await pop(bench, **IN_ORDER, attempt_id="attempt-02")))
        assert handed(await pop(bench, **IN_ORDER)) == []
        advance(bench, INVISIBLE_MS)
        seen.append(counts(await pop(bench, **IN_ORDER)))
        assert [one.by_queue[RetryFlag.NONE, 0] for one in seen] == [0, 1, 1, 2, 2, 3]


async def test_a_notification_is_true_for_a_pop_that_is_not_blocked(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        await topic(bench, "%RETRY%g_T")
        await bench.send("%RETRY%g_T")
        assert await notify(bench, order=True) == HAS_NOT, "a pop in order does not read retry topics"
        await send(bench, "a")
        assert await notify(bench, order=True, attempt_id="a") == HAS
        await next_ones(bench, attempt_id="a")
        assert await notify(bench, order=True, attempt_id="a") == HAS
        assert await notify(bench, order=True, attempt_id="b") == HAS_NOT
        answer = bench.ask_later(
            RequestCode.NOTIFICATION, header(bench, order=True, attempt_id="b", poll_time=POLL_MS)
        )
        await bench.ask(RequestCode.GET_BROKER_CONFIG)
        advance(bench, INVISIBLE_MS)
        assert parse(NotificationResponseHeader, (await answer).ext_fields) == HAS


async def test_of_those_who_wait_one_is_woken_each_time_that_the_queue_is_unblocked(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a")
        await next_ones(bench)
        answers = [await held(bench, **IN_ORDER | {"queue_id": queue_id}) for queue_id in (-1, 0, 0)]
        for woken in range(1, 4):
            missed = bench.parts.rates.missed.total
            advance(bench, INVISIBLE_MS)
            await answered(answers, woken)
            assert [answer.done() for answer in answers].count(True) == woken
            assert bench.parts.rates.missed.total - missed <= 1
        assert bench.parts.waiting.held_count() == 0


async def test_a_blocked_queue_does_not_hold_up_others(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a")
        await send(bench, "b", queue_id=1)
        first = await next_ones(bench, queue_id=-1, max_msg_nums=1)
        second = await next_ones(bench, queue_id=-1)
        assert {names(first), names(second)} == {"a", "b"}
        assert await next_ones(bench, queue_id=-1) == []
        assert names(await popped(bench, consumer_group="other")) in {"a b", "b a"}


async def test_an_acknowledgement_counts_for_the_last_pop_only(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a", "b", "c")
        old, *_ = await next_ones(bench)
        bench.clock.advance(INVISIBLE_MS)
        first, second = await next_ones(bench, max_msg_nums=2)
        assert (await ack(bench, old)).code == ResponseCode.NO_MESSAGE
        assert (await change(bench, old, 30_000)).code == ResponseCode.NO_MESSAGE
        assert committed(bench) == {0: 0}
        for code in (ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE):
            assert (await ack(bench, second)).code == code
            assert committed(bench) == {0: 0}
        assert (await change(bench, second, 30_000)).code == ResponseCode.NO_MESSAGE
        unknown = first._replace(handle=first.handle._replace(offset=2))
        refused = await ack(bench, unknown)
        assert refused.code == ResponseCode.NO_MESSAGE
        assert "no such message of T@0 waits" in (refused.remark or "")
        for code in (ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE):
            assert (await ack(bench, first)).code == code
            assert committed(bench) == {0: 2}


async def test_messages_of_a_pop_in_order_lie_behind_the_offset_and_are_not_in_flight(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a", "b")
        await popped(bench, queue_id=0, max_msg_nums=1)
        assert bench.parts.in_flight.count("g", "T", 0) == 1
        await next_ones(bench)
        assert committed(bench) == {0: 1} and bench.parts.in_flight.count("g", "T", 0) == 0


async def test_without_the_state_of_a_queue_an_acknowledgement_moves_the_offset_behind_its_message(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a", "b", "c")
        first, second, third = await next_ones(bench)
        bench.parts.orders.remove("T@g", 0)
        assert (await ack(bench, second)).code == ResponseCode.SUCCESS
        assert committed(bench) == {0: 2}
        for message in (first, third._replace(handle=third.handle._replace(offset=3))):
            assert (await ack(bench, message)).code == ResponseCode.NO_MESSAGE
            assert committed(bench) == {0: 2}, "neither one before it counts, nor one behind the end"
        assert (await ack(bench, third, group="other")).code == ResponseCode.NO_MESSAGE
        assert committed(bench, group="other") == {}, "a group that popped nothing gets no offset"


async def test_a_batch_acknowledges_messages_of_a_pop_in_order(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a", "b", "c")
        first, *_ = await next_ones(bench)
        assert (await ack_batch(bench, entry(first, 0b011))).code == ResponseCode.SUCCESS
        assert committed(bench) == {0: 2}
        assert await next_ones(bench) == []
        assert (await ack_batch(bench, entry(first, 0b1111))).code == ResponseCode.SUCCESS
        assert committed(bench) == {0: 3}
        assert stored(bench) == []


async def test_the_state_is_there_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a", "b")
        first, _ = await next_ones(bench, attempt_id="a")
        await ack(bench, first)
        bench.parts.orders.save()
    async with serving(tmp_path) as bench:
        assert await next_ones(bench) == []
        assert names(await next_ones(bench, attempt_id="a")) == "b"


async def test_a_reset_unblocks_a_queue(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a", "b")
        first, second = await next_ones(bench)
        await ack(bench, first)
        bench.clock.advance(1)
        reset = ResetOffsetHeader(topic="T", group="g", time=0, is_force=True, queue_id=0, offset=0)
        answer = await held(bench, **IN_ORDER)
        await bench.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)
        again = handed(await answer)
        assert names(again) == "a b"
        await ack(bench, second)
        assert committed(bench) == {0: 0}, "it is one of an earlier pop"


async def test_a_topic_that_is_deleted_and_created_again_is_not_blocked(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a", "b")
        await next_ones(bench)
        assert bench.parts.orders.places() == [("T@g", 0)]
        deleted = await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        assert deleted.code == ResponseCode.SUCCESS
        assert bench.parts.orders.places() == []
        await topic(bench)
        await send(bench, "c")
        assert names(await next_ones(bench)) == "c"


async def test_messages_that_the_filter_rejects_are_passed_over(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "x", "y", TAGS="B")
        assert await next_ones(bench, exp="A") == []
        assert committed(bench) == {0: 2}
        await send(bench, "a", TAGS="A")
        await send(bench, "z", TAGS="B")
        await send(bench, "b", TAGS="A")
        messages = await next_ones(bench, exp="A")
        assert names(messages) == "a b" and committed(bench) == {0: 2}
        for message in messages:
            await ack(bench, message)
        assert committed(bench) == {0: 5}


async def test_an_attempt_s_name_has_a_limit(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, "a")
        refused = await pop(bench, **IN_ORDER, attempt_id="x" * (ATTEMPT_ID_LENGTH_MAX + 1))
        assert refused.code == ResponseCode.INVALID_PARAMETER and "at most 256" in (refused.remark or "")
        assert names(await next_ones(bench, attempt_id="x" * ATTEMPT_ID_LENGTH_MAX)) == "a"


async def test_members_that_pop_at_once_share_the_messages_in_order(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, *map(str, range(12)))
        seen: list[str] = []

        async def member() -> None:
            client = await Client.open(bench.address)
            while len(seen) < 12:
                answer = await client.ask(
                    RequestCode.POP_MESSAGE, pop_header(**IN_ORDER, max_msg_nums=2, poll_time=POLL_MS)
                )
                for message in handed(answer):
                    seen.append(message.body.decode())
                    await ack(client, message)
            await client.connection.close()

        members = [asyncio.create_task(member()) for _ in range(3)]
        await asyncio.wait(members, return_when=asyncio.FIRST_COMPLETED)
        assert seen == [str(number) for number in range(12)]
        advance(bench, POLL_MS)  # the others wait for messages
        await asyncio.gather(*members)
