"""Ending transactions: what consumers are given, what is refused, and that nothing is ended twice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.broker.conftest import bodies, deliver, pull_header, send_header, serving
from tests.broker.halves import (
    COMMIT,
    GIVEN_UP,
    HALF,
    OP,
    ROLLBACK,
    UNKNOWN,
    Half,
    asked,
    check,
    committed,
    end,
    ending,
    prepare,
    produce,
    records,
)

from cometmq.errors import StoreNotWritable
from cometmq.format import properties
from cometmq.format.message_id import offset_message_id
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import ONEWAY_FLAG
from cometmq.wire.headers import TopicHeader
from cometmq.wire.headers.admin import ResumeCheckHeader

RESUME = RequestCode.RESUME_CHECK_HALF_MESSAGE


async def test_a_message_is_given_to_consumers_once_it_is_committed(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        half = await prepare(bench, TAGS="A", KEYS="k")
        pull = bench.ask_later(
            RequestCode.PULL_MESSAGE, pull_header("T", queue_id=2, tags="A", wait_ms=10_000)
        )
        assert half == Half(0, 0) and committed(bench) == []
        assert (await end(bench, half)).code == ResponseCode.SUCCESS
        assert bodies(await pull) == [b"x"]
        (waiting,), (message,), (op,) = records(bench, HALF), records(bench, "T", 2), records(bench, OP)
        assert (message.sys_flag, message.prepared_transaction_offset) == (COMMIT, 0)
        named = properties.decode(message.properties)
        assert named | {"REAL_TOPIC": "T", "REAL_QID": "2"} == properties.decode(waiting.properties)
        assert op.body == b"0,"
        assert len(bench.store.query("T", "k").records) == 1


async def test_what_is_rolled_back_or_not_decided_is_given_to_nobody(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for decision in (ROLLBACK, UNKNOWN):
            half = await prepare(bench)
            header = ending(half, decision)
            bench.ask_later(RequestCode.END_TRANSACTION, header, flag=ONEWAY_FLAG)
        assert (await end(bench, half, UNKNOWN)).code == ResponseCode.SUCCESS
        await bench.send("T", b"later", queue_id=2)
        assert committed(bench) == [b"later"]
        assert [op.body for op in records(bench, OP)] == [b"0,"]


async def test_what_is_ended_once_is_not_ended_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        half = await prepare(bench)
        for decision in (COMMIT, COMMIT, ROLLBACK):
            assert (await end(bench, half, decision)).code == ResponseCode.SUCCESS
        assert committed(bench) == [b"x"]
        other = await prepare(bench, body=b"y")
        for decision in (ROLLBACK, COMMIT):
            assert (await end(bench, other, decision)).code == ResponseCode.SUCCESS
        assert committed(bench) == [b"x"]


async def test_those_ended_in_one_turn_share_an_op_message(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        halves = [await prepare(bench, body=b"%d" % number) for number in range(20)]
        answers = [bench.ask_later(RequestCode.END_TRANSACTION, ending(half)) for half in halves]
        await asyncio.gather(*answers)
        assert sorted(committed(bench)) == sorted(b"%d" % number for number in range(20))
        ops = records(bench, OP)
        assert len(ops) < 20
        assert b"".join(op.body for op in ops) == b"".join(b"%d," % number for number in range(20))


@pytest.mark.parametrize("topic", [None, "T", HALF])
async def test_a_client_names_the_messages_topic_or_that_of_the_question_or_none(
    tmp_path: Path, topic: str | None
) -> None:
    async with serving(tmp_path) as bench:
        assert (await end(bench, await prepare(bench), topic=topic)).code == ResponseCode.SUCCESS
        assert committed(bench) == [b"x"]


async def test_a_committed_message_waits_for_its_delay(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        half = await prepare(bench, DELAY="2")
        deliver(bench, 60_000)
        assert committed(bench) == []
        await end(bench, half)
        deliver(bench, 4_999)
        assert committed(bench) == []
        deliver(bench, 1)
        assert committed(bench) == [b"x"]


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"producer_group": "other"}, ResponseCode.SYSTEM_ERROR, "producer group wrong: other"),
        ({"topic": "other"}, ResponseCode.SYSTEM_ERROR, "topic wrong: other, the message is for T"),
        ({"half_offset": 1}, ResponseCode.SYSTEM_ERROR, "state table offset wrong: 1, the message's is 0"),
        ({"physical_offset": 7}, ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed"),
        ({"decision": 4}, ResponseCode.INVALID_PARAMETER, "commitOrRollback 4: 8 commits, 12 rolls back"),
        ({"physical_offset": -1}, ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed"),
    ],
)
async def test_an_end_that_does_not_fit_its_half_message_is_refused(
    tmp_path: Path, changes: dict[str, Any], code: ResponseCode, says: str
) -> None:
    async with serving(tmp_path) as bench:
        half = await prepare(bench)
        answer = await end(bench, half, **changes)
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer
        assert committed(bench) == [] and records(bench, OP) == []


async def test_only_half_messages_can_be_ended(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", queue_id=2, PGROUP="pg")
        answer = await end(bench, Half(0, 0))
        assert answer.code == ResponseCode.SYSTEM_ERROR and "no half message" in (answer.remark or "")


async def test_who_wants_to_be_asked_after_a_time_cannot_end_by_itself_after_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        half = await prepare(bench, CHECK_IMMUNITY_TIME_IN_SECONDS="9")
        bench.clock.advance(9_001)
        answer = await end(bench, half)
        assert answer.code == ResponseCode.ILLEGAL_OPERATION
        assert "9001 ms ago" in (answer.remark or "") and "after 9000 ms" in (answer.remark or "")
        assert (await end(bench, half, from_check=True)).code == ResponseCode.SUCCESS
        assert committed(bench) == [b"x"]


async def test_a_broker_may_refuse_transactions(tmp_path: Path) -> None:
    async with serving(tmp_path, reject_transaction_message=True) as bench:
        answer = await bench.send("T", TRAN_MSG="true", PGROUP="pg")
        assert answer.code == ResponseCode.NO_PERMISSION
        assert "rejectTransactionMessage" in (answer.remark or "")


async def test_a_committed_message_that_a_consumer_sends_back_is_no_half_message(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        named = {"PGROUP": "pg", "TRAN_MSG": "true", "DELAY": "1", "UNIQ_KEY": "u"}
        sent = replace(send_header("%RETRY%g", 0, **named), sys_flag=4, reconsume_times=1)
        assert (await bench.ask(RequestCode.SEND_MESSAGE_V2, sent, b"back")).code == ResponseCode.SUCCESS
        deliver(bench, 1_000)
        assert [one.body for one in records(bench, "%RETRY%g")] == [b"back"]
        assert records(bench, HALF) == []


async def test_while_the_store_takes_nothing_no_commit_succeeds_and_what_was_ended_is_noted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise StoreNotWritable("no space is left")

    async with serving(tmp_path) as bench:
        halves = [await prepare(bench, body=b"%d" % number) for number in range(2)]
        monkeypatch.setattr(bench.store, "append", refuse)
        assert (await end(bench, halves[0])).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (await end(bench, halves[1], ROLLBACK)).code == ResponseCode.SUCCESS
        assert committed(bench) == [] and records(bench, OP) == []
        monkeypatch.undo()
        assert (await end(bench, halves[0])).code == ResponseCode.SUCCESS
        await bench.parts.transaction_check.round()
        assert committed(bench) == [b"0"]
        assert sorted(b"".join(op.body for op in records(bench, OP))) == sorted(b"0,1,")


async def test_what_is_committed_after_its_topic_was_deleted_is_not_in_the_one_made_anew(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        half = await prepare(bench)
        await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        new = await prepare(bench, body=b"new")
        for one in (half, new):
            assert (await end(bench, one)).code == ResponseCode.SUCCESS
        assert committed(bench) == [b"new"]
        assert [op.body for op in records(bench, OP)] == [b"0,", b"1,"]


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
async def test_an_end_is_too_late_by_the_time_that_has_passed_however_the_wall_clock_is_set(
    tmp_path: Path, step_ms: int
) -> None:
    async with serving(tmp_path) as bench:
        halves = [await prepare(bench, body=b"%d" % n, CHECK_IMMUNITY_TIME_IN_SECONDS="20") for n in range(2)]
        bench.clock.set_wall(bench.clock.now_ms() + step_ms)
        bench.clock.advance(20_000)
        assert (await end(bench, halves[0])).code == ResponseCode.SUCCESS
        bench.clock.advance(1)
        assert (await end(bench, halves[1])).code == ResponseCode.ILLEGAL_OPERATION


async def test_a_half_message_that_was_given_up_is_checked_again(tmp_path: Path) -> None:
    async with serving(tmp_path, transaction_check_max=1) as bench:
        await produce(bench)
        await prepare(bench, TAGS="A")
        for _ in range(2):
            await check(bench)
        await asked(bench)
        (given_up,) = records(bench, GIVEN_UP)
        message_id = offset_message_id(given_up.store_host, given_up.physical_offset)
        answer = await bench.ask(RESUME, ResumeCheckHeader(GIVEN_UP, message_id))
        assert answer.code == ResponseCode.SUCCESS
        resumed = records(bench, HALF)[-1]
        named = properties.decode(given_up.properties) | {"TRANSACTION_CHECK_TIMES": "0"}
        assert properties.decode(resumed.properties) == named
        await check(bench)
        half, message = await asked(bench)
        assert message.body == b"x"
        assert (await end(bench, half)).code == ResponseCode.SUCCESS
        assert committed(bench) == [b"x"]


async def test_only_what_was_given_up_can_be_checked_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        sent = await bench.send("T")
        for message_id, code, words in (
            (sent.ext_fields["msgId"], ResponseCode.SYSTEM_ERROR, "only half messages that were given up"),
            ("7F00000100002A9F0000000000000999", ResponseCode.SYSTEM_ERROR, "there is no message of"),
            (None, ResponseCode.INVALID_PARAMETER, "offset message id"),
        ):
            answer = await bench.ask(RESUME, ResumeCheckHeader(message_id=message_id))
            assert answer.code == code and words in (answer.remark or ""), answer
        assert records(bench, HALF) == []
