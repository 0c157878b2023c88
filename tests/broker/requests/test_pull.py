import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.broker.conftest import Client, bodies, pull_header, serving

from cometmq.broker.requests.pull import SUSPEND_MS_MAX
from cometmq.wire.bodies import ConsumerData, Heartbeat, SubscriptionData
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import ONEWAY_FLAG
from cometmq.wire.headers import (
    PullFlag,
    PullResponseHeader,
    TopicHeader,
    UpdateConsumerOffsetHeader,
    parse,
)

PULL = RequestCode.PULL_MESSAGE


async def test_a_pull_gives_the_records_and_the_ends_of_the_queue(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for n in range(5):
            await bench.send("T", b"%d" % n)
        answer = await bench.ask(PULL, pull_header("T", 2))
        assert (answer.code, answer.remark, bodies(answer)) == (0, "FOUND", [b"2", b"3", b"4"])
        assert parse(PullResponseHeader, answer.ext_fields) == PullResponseHeader(0, 5, 0, 5)
        few = await bench.ask(PULL, replace(pull_header("T"), max_message_count=2))
        assert bodies(few) == [b"0", b"1"] and few.ext_fields["nextBeginOffset"] == "2"
        small = await bench.ask(PULL, replace(pull_header("T"), max_message_bytes=1))
        assert bodies(small) == [b"0"]


async def test_a_tag_filter_passes_over_what_is_not_wanted(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for n in range(6):
            await bench.send("T", b"%d" % n, TAGS="ABC"[n % 3])
        answer = await bench.ask(PULL, pull_header("T", tags="A || C"))
        assert bodies(answer) == [b"0", b"2", b"3", b"5"]
        assert answer.ext_fields["nextBeginOffset"] == "6"
        nothing = await bench.ask(PULL, pull_header("T", tags="D"))
        assert (nothing.code, nothing.remark) == (
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            "NO_MATCHED_MESSAGE",
        )
        assert nothing.ext_fields["nextBeginOffset"] == "6"


@pytest.mark.parametrize(
    ("offset", "queue_id", "code", "remark", "next_offset"),
    [
        (2, 0, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", "2"),
        (9, 0, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", "0"),
        (-1, 0, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", "0"),
        (0, 1, ResponseCode.PULL_NOT_FOUND, "NO_MATCHED_LOGIC_QUEUE", "0"),
        (5, 1, ResponseCode.PULL_OFFSET_MOVED, "NO_MATCHED_LOGIC_QUEUE", "0"),
    ],
)
async def test_an_offset_where_nothing_is_gets_rocketmqs_code(
    tmp_path: Path, offset: int, queue_id: int, code: ResponseCode, remark: str, next_offset: str
) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        await bench.send("T")
        answer = await bench.ask(PULL, pull_header("T", offset, queue_id=queue_id))
        assert (answer.code, answer.remark) == (code, remark)
        assert answer.ext_fields["nextBeginOffset"] == next_offset


async def test_behind_the_end_a_group_with_an_offset_goes_on_at_the_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        bench.parts.offsets.commit("cg", "T", 0, 5)
        answer = await bench.ask(PULL, pull_header("T", 5))
        assert answer.code == ResponseCode.PULL_OFFSET_MOVED
        assert answer.ext_fields["nextBeginOffset"] == "1"


@pytest.mark.parametrize("sent", [6, 3, 9])
async def test_who_reads_a_topic_that_is_made_anew_goes_on_at_its_beginning(
    tmp_path: Path, sent: int
) -> None:
    async with serving(tmp_path) as bench:
        for n in range(6):
            await bench.send("T", b"%d" % n)
        assert len(bodies(await bench.ask(PULL, pull_header("T")))) == 6
        held = bench.ask_later(PULL, pull_header("T", 6, wait_ms=15_000))
        await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        for n in range(sent):
            await bench.send("T", b"new %d" % n)
        moved = await held
        assert (moved.code, moved.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")
        assert len(bodies(await bench.ask(PULL, pull_header("T")))) == sent
        assert (await bench.ask(PULL, pull_header("T", sent))).code == ResponseCode.PULL_NOT_FOUND
        assert not bench.parts.offsets.is_any_reset


async def test_what_was_read_of_a_deleted_topic_is_not_committed_in_the_one_made_anew(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for n in range(6):
            await bench.send("T", b"%d" % n)
        await bench.ask(PULL, pull_header("T"))
        await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        await bench.send("T")
        commit = UpdateConsumerOffsetHeader("cg", "T", 0, 6)
        assert (await bench.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == ResponseCode.SUCCESS
        assert bench.parts.offsets.committed("cg", "T", 0) is None
        moved = await bench.ask(PULL, pull_header("T", 6))
        assert (moved.code, moved.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")


async def test_a_held_pull_is_answered_by_the_message_that_it_waits_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", queue_id=1)
        producer = await Client.open(bench.address)
        held = bench.ask_later(PULL, pull_header("T", tags="A", wait_ms=15_000))
        await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)  # the pull is with the broker now
        assert bench.parts.pulls.held_count == 1
        await producer.send("T", b"other queue", queue_id=1, TAGS="A")
        await producer.send("T", b"other tag", TAGS="B")
        assert not held.done() and bench.parts.pulls.held_count == 1
        await producer.send("T", b"wanted", TAGS="A")
        answer = await held
        assert (answer.code, bodies(answer)) == (ResponseCode.SUCCESS, [b"wanted"])
        assert bench.parts.pulls.held_count == 0
        await producer.connection.close()


async def test_one_read_of_sends_wakes_each_waiter_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", queue_id=1)
        held = [bench.ask_later(PULL, pull_header("T", wait_ms=15_000)) for _ in range(3)]
        sends = [bench.send("T", b"%d" % n) for n in range(5)]
        await asyncio.gather(*sends)
        answers = await asyncio.gather(*held)
        assert [bodies(answer) for answer in answers] == [[b"0", b"1", b"2", b"3", b"4"]] * 3


async def test_with_the_pool_a_held_pull_is_answered_once_its_message_is_committed(tmp_path: Path) -> None:
    pool = {"transient_store_pool_enable": True, "commit_interval_commit_log": 1}
    async with serving(tmp_path, pool) as bench:
        await bench.send("T", b"first")
        held = bench.ask_later(PULL, pull_header("T", wait_ms=15_000))
        await bench.ask(RequestCode.GET_BROKER_CONFIG)  # the pull has come before this is answered
        assert not held.done() and bench.store.committed_offset == 0
        bench.clock.advance(200)
        assert bodies(await held) == [b"first"]
        assert bench.store.flushed_offset == 0 < bench.store.committed_offset


async def test_a_held_pull_is_answered_when_its_time_is_up(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        held = bench.ask_later(PULL, pull_header("T", 1, wait_ms=15_000))
        endless = bench.ask_later(PULL, pull_header("T", 1, wait_ms=10**9))
        await bench.send("T", queue_id=1)
        bench.clock.advance(14_999)
        bench.parts.pulls.expire()
        assert bench.parts.pulls.held_count == 2
        bench.clock.advance(1)
        bench.parts.pulls.expire()
        assert (await held).code == ResponseCode.PULL_NOT_FOUND
        assert not endless.done()
        bench.clock.advance(SUSPEND_MS_MAX)
        bench.parts.pulls.expire()
        assert (await endless).code == ResponseCode.PULL_NOT_FOUND


async def test_without_long_polling_a_pull_is_held_for_a_second(tmp_path: Path) -> None:
    async with serving(tmp_path, long_polling_enable=False) as bench:
        await bench.send("T")
        held = bench.ask_later(PULL, pull_header("T", 1, wait_ms=15_000))
        await bench.send("T", queue_id=1)
        bench.clock.advance(1_000)
        bench.parts.pulls.expire()
        assert (await held).code == ResponseCode.PULL_NOT_FOUND


async def test_the_pulls_of_a_lost_connection_are_forgotten(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        gone = await Client.open(bench.address)
        held = gone.ask_later(PULL, pull_header("T", 1, wait_ms=15_000))
        await gone.send("T", queue_id=1)
        assert bench.parts.pulls.held_count == 1
        await gone.connection.close()
        with pytest.raises(Exception, match="closed here"):
            await held
        await bench.send("T", queue_id=1)
        while bench.parts.pulls.held_count:
            await bench.send("T", queue_id=1)


async def test_a_pull_commits_the_offset_that_it_brings_when_told_to(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        header = replace(pull_header("T", 1), commit_offset=1)
        await bench.ask(PULL, header)
        assert bench.parts.offsets.committed("cg", "T", 0) is None
        await bench.ask(PULL, replace(header, sys_flag=header.sys_flag | PullFlag.COMMIT_OFFSET))
        assert bench.parts.offsets.committed("cg", "T", 0) == 1
        assert bench.parts.offsets.pulled("cg", "T", 0) == 1


async def test_lite_pull_can_be_switched_off(tmp_path: Path) -> None:
    async with serving(tmp_path, lite_pull_message_enable=False) as bench:
        await bench.send("T")
        answer = await bench.ask(RequestCode.LITE_PULL_MESSAGE, pull_header("T"))
        assert answer.code == ResponseCode.NO_PERMISSION
        assert bodies(await bench.ask(PULL, pull_header("T"))) == [b"body"]


async def test_a_peer_that_reads_nothing_gets_its_pulls_answered_when_it_reads_again(tmp_path: Path) -> None:
    async with serving(tmp_path, {"mapped_file_size_commit_log": 1 << 26}) as bench:
        body = bytes(1 << 18)
        for _ in range(4):
            await bench.send("T", body)
        bench.connection._outbox._transport.pause_reading()
        pulls = [bench.ask_later(PULL, pull_header("T", n % 4)) for n in range(40)]
        other = await Client.open(bench.address)
        for _ in range(3):
            assert (await other.send("U")).code == ResponseCode.SUCCESS
        bench.connection._outbox._transport.resume_reading()
        for pull in pulls:
            assert bodies(await pull) == [body]
        await other.connection.close()


async def test_a_held_pull_by_sql_waits_behind_what_it_does_not_want(tmp_path: Path) -> None:
    async with serving(tmp_path, enable_property_filter=True) as bench:
        await bench.send("T", b"0", size="0")
        producer = await Client.open(bench.address)
        by_sql = {"expression_type": "SQL92", "subscription": "size > 3"}
        header = replace(pull_header("T", 1, wait_ms=15_000), **by_sql)
        held, expiring = bench.ask_later(PULL, header), bench.ask_later(PULL, header)
        await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)  # the pulls are with the broker now
        await producer.send("T", b"1", size="1")
        await producer.send("T", b"2", size="2")
        assert not held.done() and bench.parts.pulls.held_count == 2
        await producer.send("T", b"4", size="4")
        for answer in (await held, await expiring):
            assert (answer.code, bodies(answer)) == (ResponseCode.SUCCESS, [b"4"])
            assert answer.ext_fields["nextBeginOffset"] == "4"

        late = bench.ask_later(PULL, replace(header, queue_offset=4))
        await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        await producer.send("T", b"3", size="3")
        bench.clock.advance(15_000)
        bench.parts.pulls.expire()
        answer = await late
        assert answer.code == ResponseCode.PULL_NOT_FOUND
        assert answer.ext_fields["nextBeginOffset"] == "5"
        await producer.connection.close()


async def test_a_held_pull_is_refused_when_it_may_be_given_nothing_any_more(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"0")
        topic = bench.parts.topics.find("T")
        assert topic is not None
        woken = bench.ask_later(PULL, pull_header("T", 1, wait_ms=15_000))
        await bench.send("T", b"other queue", queue_id=1)
        bench.parts.topics.put(replace(topic, perm=2))
        await bench.send("T", b"1")
        assert (await woken).code == ResponseCode.NO_PERMISSION

        bench.parts.topics.put(topic)
        expired = bench.ask_later(PULL, pull_header("T", 2, wait_ms=15_000))
        await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        bench.clock.advance(15_000)
        bench.parts.pulls.expire()
        assert (await expired).code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(
    ("kind", "before", "after"), [("TAG", "A", "A || B"), ("SQL92", "TAGS = 'A'", "TAGS IN ('A', 'B')")]
)
async def test_what_a_group_newly_wants_is_not_lost_by_a_pull_that_was_held_before(
    tmp_path: Path, kind: str, before: str, after: str
) -> None:
    async with serving(tmp_path, enable_property_filter=True) as bench:
        await bench.send("T", b"0")

        async def subscribe(expression: str, version: int) -> None:
            wanted = SubscriptionData("T", expression, version=version, expression_type=kind)
            consumer = ConsumerData("cg", subscriptions=[wanted])
            await bench.ask(RequestCode.HEART_BEAT, body=Heartbeat("c", consumers=[consumer]))

        await subscribe(before, 1)
        header = replace(pull_header("T", 1, wait_ms=15_000), sys_flag=PullFlag.SUSPEND, sub_version=1)
        woken, expired = bench.ask_later(PULL, header), bench.ask_later(PULL, header)
        await bench.send("T", b"unwanted yet", TAGS="B")
        await subscribe(after, 2)
        await bench.send("T", b"wanted", TAGS="A")
        assert bodies(await woken) == [b"unwanted yet", b"wanted"]
        bench.clock.advance(15_000)
        bench.parts.pulls.expire()
        assert bodies(await expired) == [b"unwanted yet", b"wanted"]


async def test_a_oneway_pull_is_not_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"0")
        for begin in (0, 1):
            header = replace(pull_header("T", begin, wait_ms=15_000), commit_offset=7)
            bench.ask_later(PULL, header, flag=ONEWAY_FLAG).cancel()
        await bench.ask(RequestCode.GET_BROKER_CONFIG)
        assert bench.parts.pulls.held_count == 0 and bench.parts.rates.found.total == 0
