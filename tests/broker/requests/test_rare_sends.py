"""What is made of sends as commands, one by one: stored as it asks, or refused."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.broker.conftest import bodies, send_header, serving

from cometmq.format import properties
from cometmq.wire import batch
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import SendHeader

V2 = RequestCode.SEND_MESSAGE_V2


async def test_the_old_form_of_the_header_says_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        v2 = send_header("T", 1, TAGS="TagA")
        old = SendHeader(*(getattr(v2, name) for name in v2.__struct_fields__))
        answer = await bench.ask(RequestCode.SEND_MESSAGE, old, b"x")
        assert answer.ext_fields["queueId"] == "1"
        assert bodies(bench.store.get("T", 1, 0).records) == [b"x"]


async def test_a_negative_queue_id_means_any_queue_in_turn(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        answers = [await bench.send("T", queue_id=-1) for _ in range(4)]
        assert {answer.ext_fields["queueId"] for answer in answers} == {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"topic": "../x"}, ResponseCode.INVALID_PARAMETER, "only the characters"),
        ({"topic": "a" * 128}, ResponseCode.INVALID_PARAMETER, "at most 127"),
        ({"topic": ""}, ResponseCode.INVALID_PARAMETER, "empty"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION, "broker's own"),
        ({"topic": "rmq_sys_REVIVE_LOG_DefaultCluster"}, ResponseCode.NO_PERMISSION, "broker's own"),
        ({"default_topic": "none"}, ResponseCode.TOPIC_NOT_EXIST, "autoCreateTopicEnable"),
        ({"queue_id": 4}, ResponseCode.INVALID_PARAMETER, "no queue 4: it has 4"),
        ({"sys_flag": 4}, ResponseCode.MESSAGE_ILLEGAL, "TRAN_MSG is not true"),
        ({"properties": "TRAN_MSG\x01true\x02"}, ResponseCode.MESSAGE_ILLEGAL, "without property PGROUP"),
        ({"properties": "TIMER_DELAY_SEC\x01x\x02"}, ResponseCode.MESSAGE_ILLEGAL, "TIMER_DELAY_SEC"),
        ({"properties": "a\x01" + "x" * 32767 + "\x02"}, ResponseCode.MESSAGE_ILLEGAL, "limit is 32767"),
        ({"topic": "%RETRY%"}, ResponseCode.SYSTEM_ERROR, "group is empty"),
        ({"batch": True}, ResponseCode.SYSTEM_ERROR, "batch message at 0"),
        ({"batch": True, "properties": "DELAY\x013\x02"}, ResponseCode.MESSAGE_ILLEGAL, "one by one"),
    ],
)
async def test_what_cannot_be_stored_is_refused_with_rocketmqs_code_and_the_remedy(
    tmp_path: Path, changes: dict[str, Any], code: ResponseCode, says: str
) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(V2, replace(send_header("T"), **changes), b"x")
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer
        assert bench.store.written_offset == 0
        assert (await bench.send("T")).code == ResponseCode.SUCCESS


async def test_a_delay_that_is_none_is_no_delay(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for delay in ("0", "-1"):
            assert (await bench.send("T", DELAY=delay)).code == ResponseCode.SUCCESS


async def test_an_empty_body_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        assert (await bench.send("T", b"")).code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_header_field_that_is_missing_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(V2)
        assert answer.code == ResponseCode.SYSTEM_ERROR and "missing" in (answer.remark or "")


@pytest.mark.parametrize(
    "named",
    [
        {"DELAY": "4Pinpoint"},
        {"DELAY": "abc"},
        {"DELAY": " 3"},
        {"DELAY": "1.0"},
        {"DELAY": "2147483648"},
        {"DELAY": "2", "TIMER_DELIVER_MS": "soon"},
        {"TIMER_DELAY_SEC": "1e1"},
        {"TRAN_MSG": "true", "PGROUP": "pg", "CHECK_IMMUNITY_TIME_IN_SECONDS": "1.5"},
        {"TRAN_MSG": "true", "PGROUP": "pg", "TRANSACTION_CHECK_TIMES": "many"},
        {"TRAN_MSG": "true", "PGROUP": "pg", "DELAY": "x"},
    ],
)
async def test_a_property_that_is_no_number_is_refused_with_its_value(
    tmp_path: Path, named: dict[str, str]
) -> None:
    async with serving(tmp_path) as bench:
        header = replace(send_header("T"), properties=properties.encode({"UNIQ_KEY": "u"} | named).decode())
        answer = await bench.ask(V2, header, b"x")
        name, value = list(named.items())[-1]
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert f"property {name} = {value!r}: give a whole number" in (answer.remark or "")


@pytest.mark.parametrize(("delay", "level"), [("0" * 19 + "1", 1), ("+2", 2), ("\u0663", 3), ("99", 18)])
async def test_a_delay_is_read_as_java_reads_it(tmp_path: Path, delay: str, level: int) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(V2, send_header("T", UNIQ_KEY="u", DELAY=delay), b"x")
        assert answer.code == ResponseCode.SUCCESS
        assert bench.store.max_queue_offset("SCHEDULE_TOPIC_XXXX", level - 1) == 1


async def test_a_half_message_that_could_not_be_committed_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        header = send_header("T", UNIQ_KEY="u", TRAN_MSG="true", PGROUP="pg", TIMER_DELAY_SEC="999999999")
        answer = await bench.ask(V2, header, b"x")
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "timerMaxDelaySec" in (answer.remark or "")


@pytest.mark.parametrize("named", [{"DELAY": "3"}, {"TIMER_DELAY_SEC": "10"}, {"TRAN_MSG": "true"}])
async def test_a_batch_takes_no_message_that_asks_to_wait(tmp_path: Path, named: dict[str, str]) -> None:
    members = [
        batch.BatchMessage(b"x", properties.encode({"UNIQ_KEY": "u"} | given)) for given in ({}, named)
    ]
    async with serving(tmp_path) as bench:
        header = replace(send_header("T", UNIQ_KEY="b"), batch=True)
        answer = await bench.ask(RequestCode.SEND_BATCH_MESSAGE, header, batch.encode(members))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "send them one by one" in (answer.remark or "")
        plain = [batch.BatchMessage(b"x", properties.encode({"UNIQ_KEY": "u", "DELAY": "0"}))]
        answer = await bench.ask(RequestCode.SEND_BATCH_MESSAGE, header, batch.encode(plain))
        assert answer.code == ResponseCode.SUCCESS
