"""Pops that are held: what wakes them, what they are answered with then, and what wakes nobody."""

import asyncio
from pathlib import Path

from tests.broker.conftest import Client, bodies, pull_header, serving
from tests.broker.pops import NOTHING, come_back, committed, handed, pop, popped
from tests.kit.pops import POLL_MS, answered, held, topic, turns

from cometmq.broker.requests.pop.waiting import MARGIN_MS, POLL_MS_MAX
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import ResetOffsetHeader, TopicHeader


async def test_a_pop_that_finds_nothing_is_answered_when_a_message_comes(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        answer = await held(bench)
        assert not answer.done() and bench.parts.waiting.held_count() == 1
        await bench.send("T", b"a", 2)
        assert [message.body for message in handed(await answer)] == [b"a"]
        assert bench.parts.waiting.held_count() == 0
        assert committed(bench)[2] == 1


async def test_one_message_is_handed_out_to_one_of_those_who_wait(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        answers = [await held(bench) for _ in range(3)]
        await bench.send("T", b"a")
        await answered(answers, 1)
        assert [answer.done() for answer in answers].count(True) == 1
        assert bench.parts.waiting.held_count() == 2
        missed = bench.parts.rates.missed.total
        await bench.send("T", b"b")
        await answered(answers, 2)
        assert [answer.done() for answer in answers].count(True) == 2
        assert bench.parts.rates.missed.total == missed  # nobody else was woken


async def test_what_one_leaves_wakes_the_next(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        answers = [await held(bench, max_msg_nums=2) for _ in range(4)]
        await asyncio.gather(*(bench.send("T", b"%d" % n) for n in range(5)))
        found = [handed(await answer) for answer in answers[:3]]
        assert sorted(message.body for one in found for message in one) == [b"0", b"1", b"2", b"3", b"4"]
        assert not answers[3].done()


async def test_only_a_wanted_tag_wakes_and_the_retry_topic_always_does(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        await topic(bench, "%RETRY%g_T")
        await bench.send("T", b"first")
        await popped(bench)
        answer = await held(bench, exp="A")
        missed = bench.parts.rates.missed.total
        await bench.send("T", b"b", TAGS="B")
        await turns()
        assert not answer.done() and bench.parts.rates.missed.total == missed
        come_back(bench, "%RETRY%g_T", b"again", TAGS="A")
        assert [message.body for message in handed(await answer)] == [b"again"]


async def test_the_filter_s_rest_is_read_on_without_an_answer_in_between(tmp_path: Path) -> None:
    async with serving(tmp_path, {"max_filter_message_size": 320}) as bench:
        await asyncio.gather(*(bench.send("T", b"x", TAGS="B") for _ in range(100)))
        await bench.send("T", b"a", TAGS="A")
        answer = await pop(bench, exp="A", poll_time=POLL_MS)
        assert [message.body for message in handed(answer)] == [b"a"]


async def test_a_pop_is_answered_a_little_before_its_time_is_up(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        waiting = bench.parts.waiting
        asked: list[int | None] = []
        waiting.on_hold.append(lambda: asked.append(waiting.expire()))
        answer = await held(bench)
        endless = await held(bench, poll_time=10**9)
        assert asked == [POLL_MS - MARGIN_MS + 10]  # a step of 20 ms; the second is later
        bench.clock.advance(POLL_MS - MARGIN_MS + 9)
        assert waiting.expire() == 1
        await turns()
        assert not answer.done()
        bench.clock.advance(1)
        waiting.expire()
        assert ((await answer).code, (await answer).remark) == NOTHING
        bench.clock.advance(POLL_MS_MAX)
        assert waiting.expire() is None
        assert (await endless).code == ResponseCode.POLLING_TIMEOUT


async def test_a_client_whose_clock_is_ahead_waits_no_longer_than_it_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        answer = await held(bench, born_time=bench.clock.now_ms() + 3_600_000)
        bench.clock.advance(POLL_MS)
        bench.parts.waiting.expire()
        assert (await answer).code == ResponseCode.POLLING_TIMEOUT


async def test_without_a_poll_time_or_room_a_pop_is_answered_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path, pop_polling_size=1) as bench:
        await topic(bench)
        assert (await pop(bench)).code == ResponseCode.POLLING_TIMEOUT
        assert (await pop(bench, poll_time=MARGIN_MS)).code == ResponseCode.POLLING_TIMEOUT
        first = await held(bench)
        assert (await pop(bench, poll_time=POLL_MS)).code == ResponseCode.POLLING_FULL
        await bench.send("T")
        assert (await first).code == ResponseCode.SUCCESS


async def test_a_closed_connection_s_pops_take_no_messages(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        other = await Client.open(bench.address)
        await held(other)
        await other.connection.close()
        answer = await held(bench)
        await turns(20)  # the broker sees that it is closed
        assert bench.parts.waiting.held_count() == 1
        await bench.send("T", b"a")
        assert [message.body for message in handed(await answer)] == [b"a"]


async def test_of_a_deleted_topic_held_pops_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        answers = [await held(bench), await held(bench), await held(bench, queue_id=1)]
        assert (await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))).code == 0
        codes = {answer.code for answer in await asyncio.gather(*answers)}
        assert codes == {ResponseCode.TOPIC_NOT_EXIST}


async def test_a_reset_wakes_a_held_pop(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"a", 1)
        await popped(bench)
        answer = await held(bench)
        reset = ResetOffsetHeader(topic="T", group="g", time=0, is_force=True, queue_id=1, offset=0)
        assert (await bench.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)).code == 0
        assert [message.body for message in handed(await answer)] == [b"a"]


async def test_held_pulls_and_pops_are_both_woken(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        pull = bench.ask_later(RequestCode.PULL_MESSAGE, pull_header("T", wait_ms=POLL_MS))
        answer = await held(bench)
        await bench.send("T", b"a")
        assert bodies(await pull) == [b"a"]
        assert [message.body for message in handed(await answer)] == [b"a"]
