"""Pops while the disk takes its time, and any pops by several consumers: none hands out a message twice."""

import asyncio
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.conftest import Client, serving
from tests.broker.pops import (
    ack,
    acks,
    change,
    check_points,
    committed,
    handed,
    pop,
    pop_header,
    popped,
)
from tests.kit.brokers import cold_broker, until

from cometmq.format.pop.receipt import ReceiptHandle
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import ResetOffsetHeader, TopicHeader

POP = RequestCode.POP_MESSAGE
ALL = [b"%d" % n for n in range(32)]


async def test_while_a_pop_waits_for_the_disk_others_skip_its_queue(tmp_path: Path) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        first = bench.ask_later(POP, pop_header())
        await until(bench, disk.asked.is_set)
        other = await Client.open(bench.address)
        skipped = await pop(other)
        assert (skipped.code, skipped.ext_fields["restNum"]) == (ResponseCode.POLLING_TIMEOUT, "40")
        await other.send("T", b"elsewhere", 1)
        disk.cold = False  # what has just been written is in memory
        assert [message.body for message in await popped(other)] == [b"elsewhere"]
        disk.turns.set()
        assert [message.body for message in handed(await first)] == ALL
        assert [message.body for message in await popped(other)] == [b"%d" % n for n in range(32, 40)]
        await other.connection.close()


async def test_one_that_is_held_because_it_skipped_a_queue_is_served_when_that_is_free(
    tmp_path: Path,
) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        first = bench.ask_later(POP, pop_header())
        await until(bench, disk.asked.is_set)
        other = await Client.open(bench.address)
        second = other.ask_later(POP, pop_header(queue_id=0, poll_time=15_000))
        await until(bench, lambda: bench.parts.waiting.held_count() == 1)
        disk.turns.set()
        found = [*handed(await first), *handed(await second)]
        assert [message.body for message in found] == [b"%d" % n for n in range(40)]
        await other.connection.close()


async def test_what_the_disk_gives_after_a_reset_is_read_again_from_there(tmp_path: Path) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        first = bench.ask_later(POP, pop_header(poll_time=1_000))
        await until(bench, disk.asked.is_set)
        reset = ResetOffsetHeader(topic="T", group="g", time=0, is_force=True, queue_id=0, offset=38)
        assert (await bench.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)).code == 0
        disk.turns.set()
        assert [message.body for message in handed(await first)] == [b"38", b"39"]
        assert committed(bench)[0] == 40


async def test_what_the_disk_gives_of_a_topic_that_is_deleted_moves_no_offset(tmp_path: Path) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        first = bench.ask_later(POP, pop_header())
        await until(bench, disk.asked.is_set)
        assert (await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))).code == 0
        disk.turns.set()
        assert handed(await first) == []
        disk.cold = False
        await bench.send("T", b"new")
        assert [message.body for message in await popped(bench)] == [b"new"]


async def test_the_queue_of_a_closed_connection_s_pop_is_free_again(tmp_path: Path) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        other = await Client.open(bench.address)
        other.ask_later(POP, pop_header()).add_done_callback(lambda done: done.exception())
        await until(bench, disk.asked.is_set)
        await other.connection.close()
        await until(bench, lambda: bench.parts.reads.waiting_count == 0)  # the broker knows that it is closed
        disk.turns.set()
        disk.cold = False
        assert [message.body for message in await popped(bench)] == ALL


async def test_the_queue_is_free_again_after_an_error_of_the_disk(tmp_path: Path) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        disk.broken = True
        disk.turns.set()
        assert (await pop(bench)).code == ResponseCode.SYSTEM_ERROR
        disk.cold = disk.broken = False
        assert [message.body for message in await popped(bench)] == ALL


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 3), st.integers(1, 5)),
        st.tuples(st.just("pop"), st.integers(-1, 3), st.integers(1, 6)),
        st.tuples(st.just("tag"), st.integers(-1, 3), st.integers(1, 6)),
        st.tuples(st.just("held"), st.integers(-1, 3), st.integers(1, 6)),
        st.tuples(st.just("ack"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("change"), st.integers(0, 9), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_each_message_is_handed_out_once_and_its_check_point_names_it(
    steps: list[tuple[str, int, int]],
) -> None:
    asyncio.run(_check_steps(steps))


async def _check_steps(steps: list[tuple[str, int, int]]) -> None:
    async with serving(Path("/disk/store"), files=MemoryDisk()) as bench:
        await bench.send("T")
        assert len(await popped(bench)) == 1
        sent, found, waiting, changed = 1, [], [], 0
        used: set[ReceiptHandle] = set()
        for what, where, count in steps:
            if what == "send":
                for n in range(count):
                    await bench.send("T", b"%d" % sent, where, TAGS="AB"[n % 2])
                    sent += 1
            elif what == "held":
                header = pop_header(queue_id=where, max_msg_nums=count, poll_time=15_000)
                waiting.append(bench.ask_later(POP, header))
                await bench.ask(RequestCode.GET_BROKER_CONFIG)  # the broker has it now
            elif what in ("pop", "tag"):
                exp = "A || B" if what == "tag" else "*"  # both take all but the way of the first read
                found += await popped(bench, queue_id=where, max_msg_nums=count, exp=exp)
            elif found:
                message = found[where % len(found)]
                is_used_up = message.handle in used
                used.add(message.handle)
                asked = ack(bench, message) if what == "ack" else change(bench, message, 30_000)
                code = ResponseCode.NO_MESSAGE if is_used_up else ResponseCode.SUCCESS
                assert (await asked).code == code
                changed += what == "change" and not is_used_up
            bench.clock.advance(7)
        bench.clock.advance(15_000)
        bench.parts.waiting.expire()
        for answer in waiting:
            found += handed(await answer)
        while more := await popped(bench):
            found += more
        places = [message.place for message in found]
        assert len(set(places)) == len(places) == sent - 1
        named = [
            (one.topic, one.queue_id, offset)
            for one in check_points(bench)
            for offset in one.offsets
            if one.invisible_ms == 15_000
        ]
        assert sorted(named) == sorted([*places, ("T", 0, 0)])
        keys = {one.key for one in check_points(bench)}
        assert all(one.key in keys for one in acks(bench))
        assert len(check_points(bench)) >= changed
