"""Timed messages that are recalled: the handle that a send is answered with, and what becomes of it."""

from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import SYNC, Bench, GatedDisk, send_header, serving
from tests.broker.halves import records
from tests.kit.timed_messages import TIMER, delivered, pass_time

from cometmq.errors import MessageIllegal, StoreNotWritable
from cometmq.format import properties
from cometmq.format.layout import RETRY_PREFIX
from cometmq.store.append import NewMessage
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import ONEWAY_FLAG, Command
from cometmq.wire.headers import RecallHeader, SendHeader, fields
from cometmq.wire.recall_handle import RecallHandle, parse

OK, ILLEGAL = ResponseCode.SUCCESS, ResponseCode.ILLEGAL_OPERATION
REGION = {"MSG_REGION": "DefaultRegion"}
ENABLED: dict[str, Any] = {"recall_message_enable": True}
WAIT_S = 5


async def handle_of(bench: Bench, body: bytes = b"x", **named: str) -> str | None:
    """Send a message that is due in five seconds, unless it says something else; give its handle."""
    named = named or {"TIMER_DELAY_SEC": str(WAIT_S)}
    answer = await bench.send("T", body, queue_id=2, **{"UNIQ_KEY": body.decode()} | named)
    assert answer.code == OK, answer
    return answer.ext_fields.get("recallHandle")


async def sent(bench: Bench, body: bytes = b"x", **named: str) -> str:
    handle = await handle_of(bench, body, **named)
    assert handle is not None
    return handle


async def recall(bench: Bench, handle: object, topic: str = "T", group: str | None = "pg") -> Command:
    return await bench.ask(RequestCode.RECALL_MESSAGE, RecallHeader(topic, str(handle), group))


async def refused(bench: Bench, handle: object, topic: str = "T") -> tuple[int, str]:
    """Be refused to take a message back; give the code and the text."""
    before = bench.parts.rates.refused.total
    answer = await recall(bench, handle, topic)
    assert answer.code != OK and answer.ext_fields == REGION
    assert bench.parts.rates.refused.total == before + 1
    return answer.code, answer.remark or ""


@pytest.mark.parametrize(
    "named", [{"TIMER_DELAY_SEC": "5"}, {"TIMER_DELAY_MS": "4500"}, {"TIMER_DELIVER_MS": "TIME"}]
)
async def test_a_timed_message_s_handle_says_what_and_where_it_is(
    tmp_path: Path, named: dict[str, str]
) -> None:
    async with serving(tmp_path) as bench:
        due = str(bench.clock.now_ms() + 4_000)
        asks = {name: value.replace("TIME", due) for name, value in named.items()}
        handle = parse(await sent(bench, b"a", **asks))
        (waiting,) = records(bench, TIMER)
        out_ms = int(properties.decode(waiting.properties)["TIMER_OUT_MS"])
        assert handle == RecallHandle("T", "broker-a", str(out_ms + 1), "a")


async def test_each_kind_of_single_send_gets_one_and_with_a_unique_key_that_the_broker_makes(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        header = send_header("T", 2, TIMER_DELAY_SEC="5")
        first = SendHeader(**{name: getattr(header, name) for name in SendHeader.__struct_fields__})
        for code, asked in ((RequestCode.SEND_MESSAGE, first), (RequestCode.SEND_MESSAGE_V2, header)):
            answer = await bench.ask(code, asked, b"x")
            handle = parse(answer.ext_fields["recallHandle"])
            assert handle.unique_id == answer.ext_fields["transactionId"]


async def test_what_does_not_wait_for_a_time_has_no_handle(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        assert await handle_of(bench, KEYS="k") is None
        assert await handle_of(bench, DELAY="3") is None
        assert await handle_of(bench, DELAY="3", TIMER_DELAY_SEC="5") is None
        assert await handle_of(bench, TIMER_DELIVER_MS="1") is None
        assert await handle_of(bench, TIMER_DELAY_SEC="5", TRAN_MSG="true", PGROUP="pg") is None
        await bench.heartbeat("g", "T")
        retry = await bench.send(f"{RETRY_PREFIX}g", TIMER_DELAY_SEC="5")
        assert retry.code == OK and "recallHandle" not in retry.ext_fields
        assert len(records(bench, TIMER)) == 1


async def test_a_repetition_that_is_not_stored_has_no_handle_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        asks = {"TIMER_DELAY_SEC": "5", "IDEMPOTENCE_KEY": "k"}
        assert await handle_of(bench, b"a", **asks) is not None
        assert await handle_of(bench, b"b", **asks) is None
        assert len(records(bench, TIMER)) == 1


@pytest.mark.parametrize("with_topic", [False, True])
async def test_what_is_recalled_does_not_come_and_all_else_does(tmp_path: Path, *, with_topic: bool) -> None:
    store = {"append_topic_for_timer_delete_key": with_topic}
    async with serving(tmp_path, store, **ENABLED) as bench:
        await bench.parts.timed_messages.load()
        handles = {body: await sent(bench, body) for body in (b"a", b"b", b"c")}
        answer = await recall(bench, handles[b"b"])
        assert (answer.code, answer.remark, answer.ext_fields) == (OK, None, REGION | {"msgId": "b"})
        stored_before = bench.parts.rates.stored.total
        assert (await recall(bench, handles[b"b"].rstrip("="), group=None)).code == OK
        assert bench.parts.rates.stored.total == stored_before + 1
        await pass_time(bench, 8_000)
        assert delivered(bench) == [b"a", b"c"]
        recalled, again = records(bench, TIMER)[3:]
        named = properties.decode(recalled.properties)
        out_ms = int(parse(handles[b"b"]).time) - 1
        assert (recalled.body, named) == (
            b"0",
            {
                "TAGS": "_RECALL_TAG_",
                "TIMER_DEL_UNIQKEY": "T+b" if with_topic else "b",
                "UNIQ_KEY": "b",
                "TIMER_DELIVER_MS": str(out_ms + 1),
                "BORN_TIMESTAMP": named["BORN_TIMESTAMP"],
                "PGROUP": "pg",
                "TIMER_OUT_MS": str(out_ms),
                "REAL_TOPIC": "T",
                "REAL_QID": "0",
            },
        )
        assert "PGROUP" not in properties.decode(again.properties)


async def test_one_can_be_recalled_in_its_last_millisecond_and_not_later(tmp_path: Path) -> None:
    async with serving(tmp_path, **ENABLED) as bench:
        await bench.parts.timed_messages.load()
        first, second = await sent(bench, b"a"), await sent(bench, b"b")
        left_ms = int(parse(first).time) - bench.clock.now_ms()
        await pass_time(bench, left_ms - 1)
        assert (await recall(bench, first)).code == OK
        bench.clock.advance(1)
        code, remark = await refused(bench, second)
        assert code == ILLEGAL and "message b is due at" in remark and "as long as it waits" in remark
        await pass_time(bench, 3_000)
        assert delivered(bench) == [b"b"]


async def test_what_is_recalled_late_does_not_come_after_a_kill_either(tmp_path: Path) -> None:
    async with serving(tmp_path, **ENABLED) as bench:
        timed = bench.parts.timed_messages
        await timed.load()
        handle = await sent(bench, b"a")
        await sent(bench, b"b")
        await timed.round()
        await timed.save()
        assert (await recall(bench, handle)).code == OK
        killed_ms = bench.clock.now_ms()
    async with serving(tmp_path, **ENABLED) as bench:
        bench.clock.set_wall(killed_ms + 60_000)
        await bench.parts.timed_messages.load()
        await pass_time(bench, 2_000)
        assert delivered(bench) == [b"b"]


async def test_a_broker_takes_nothing_back_unless_it_is_told_to(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        code, remark = await refused(bench, await sent(bench))
        assert (code, "recallMessageEnable" in remark) == (ResponseCode.NO_PERMISSION, True)


@pytest.mark.parametrize("allowed", [True, False])
async def test_without_write_permission_messages_are_recalled_if_that_is_allowed(
    tmp_path: Path, *, allowed: bool
) -> None:
    settings: dict[str, Any] = {"broker_permission": 4, "allow_recall_when_broker_not_writeable": allowed}
    async with serving(tmp_path, **ENABLED, **settings) as bench:
        handle = await sent(bench)
        if allowed:
            assert (await recall(bench, handle)).code == OK
        else:
            code, remark = await refused(bench, handle)
            assert code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "allowRecallWhenBrokerNotWriteable" in remark


async def test_of_two_rules_that_a_request_breaks_rocketmqs_first_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path, **ENABLED) as bench:
        now = bench.clock.now_ms()
        good = parse(await sent(bench))
        assert await refused(bench, "?", topic="U") == (
            ResponseCode.TOPIC_NOT_EXIST,
            "topic U does not exist",
        )
        others = good._replace(topic="U", broker_name="broker-b", time="1")
        for handle, words in (
            ("?", "'?' is not a recall handle: give the one"),
            (others, "the handle is of topic U, the request of T"),
            (others._replace(topic="T"), "of broker broker-b, and this is broker-a"),
            (good._replace(time="1"), f"message x is due at 1, now it is {now}"),
        ):
            code, remark = await refused(bench, handle)
            assert (code, words in remark) == (ILLEGAL, True), remark
        assert len(records(bench, TIMER)) == 1


@pytest.mark.parametrize("time", ["soon", "-1", "0", "1.5", "9" * 19, "9" * 20, "٣", "NOW", "TOO FAR"])
async def test_a_time_for_which_no_message_waits_is_refused(tmp_path: Path, time: str) -> None:
    async with serving(tmp_path, {"timer_max_delay_sec": 60}, **ENABLED) as bench:
        now = bench.clock.now_ms()
        good = parse(await sent(bench))
        known = {"NOW": str(now), "TOO FAR": str(now + 60_000)}
        code, remark = await refused(bench, good._replace(time=known.get(time, time)))
        assert code == ILLEGAL and "60 s (timerMaxDelaySec)" in remark
        assert (await recall(bench, good._replace(time=f"+{now + 59_999}"))).code == OK


@pytest.mark.parametrize("field", ["topic", "recallHandle"])
async def test_a_request_without_what_it_must_say_is_refused(tmp_path: Path, field: str) -> None:
    async with serving(tmp_path, **ENABLED) as bench:
        said = {"topic": "T", "recallHandle": "x"}
        said.pop(field)
        answer = await bench.connection.request(Command(RequestCode.RECALL_MESSAGE, ext_fields=said))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert f"header field {field}: missing" in (answer.remark or "")


@pytest.mark.parametrize("unique_id", ["a\1b\2c", "a\2DELAY\1" + "1", "x" * 32_700])
async def test_a_made_up_name_adds_no_properties(tmp_path: Path, unique_id: str) -> None:
    async with serving(tmp_path, **ENABLED) as bench:
        good = parse(await sent(bench))
        code, remark = await refused(bench, good._replace(unique_id=unique_id))
        assert (code, "is not recalled: " in remark) == (ResponseCode.SYSTEM_ERROR, True)


async def test_a_broker_without_a_timer_takes_nothing_back(tmp_path: Path) -> None:
    async with serving(tmp_path, {"timer_wheel_enable": False}, **ENABLED) as bench:
        assert (await bench.send("T")).code == OK
        handle = RecallHandle("T", "broker-a", str(bench.clock.now_ms() + 5_000), "x")
        code, remark = await refused(bench, handle)
        assert (code, "timerWheelEnable" in remark) == (ResponseCode.SYSTEM_ERROR, True)


@pytest.mark.parametrize("error", [StoreNotWritable("the disk is full"), MessageIllegal("too long")])
async def test_what_cannot_be_stored_is_not_recalled(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, **ENABLED) as bench:
        handle = await sent(bench)

        def refuse(_: list[NewMessage]) -> None:
            raise error

        monkeypatch.setattr(bench.store, "append", refuse)
        remark = f"message x is not recalled: {error}"
        assert await refused(bench, handle) == (ResponseCode.SYSTEM_ERROR, remark)


async def test_a_one_way_request_is_done_and_not_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, SYNC, **ENABLED) as bench:
        header = RecallHeader("T", await sent(bench))
        oneway = Command(RequestCode.RECALL_MESSAGE, flag=ONEWAY_FLAG, ext_fields=fields(header))
        bench.connection.oneway(oneway)
        assert (await bench.send("T")).code == OK
        assert len(records(bench, TIMER)) == 2 and bench.told.empty()


async def test_under_sync_flush_the_answer_waits_for_the_disk() -> None:
    disk = GatedDisk()
    async with serving(Path("/disk/store"), SYNC, files=disk, **ENABLED) as bench:
        header = RecallHeader("T", await sent(bench))
        disk.gate.clear()
        told = bench.ask_later(RequestCode.RECALL_MESSAGE, header)
        held = bench.ask_later(RequestCode.GET_MAX_OFFSET)  # answered behind what waits for nothing
        await held
        assert not told.done()
        disk.gate.set()
        answer = await told
        assert (answer.code, answer.ext_fields["msgId"]) == (OK, "x")


async def test_a_disk_that_takes_too_long_is_no_failure_as_at_rocketmqs_broker() -> None:
    disk = GatedDisk()
    store = SYNC | {"sync_flush_timeout": 20}
    async with serving(Path("/disk/store"), store, files=disk, **ENABLED) as bench:
        sending = send_header("T", 2, TIMER_DELAY_SEC="5", UNIQ_KEY="x")
        disk.gate.clear()
        late = await bench.ask(RequestCode.SEND_MESSAGE_V2, sending, b"x")
        assert late.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert (await recall(bench, late.ext_fields["recallHandle"])).code == OK
        disk.gate.set()
