"""Pulls that are read as rows get what pulls get that come as commands, and leave the same offsets."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any
from unittest.mock import MagicMock, patch

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.broker.conftest import SYNC, Nobody, bodies, pull_header
from tests.broker.desk import (
    ROOT,
    TOPICS,
    Desk,
    Result,
    binary_frame,
    desk,
    json_frame,
    served_by,
)
from tests.broker.desk import both as both_of
from tests.kit.pull_frames import LITE, PULL, PUSH, VERSION, heartbeat, pull, send

from cometmq import kernels
from cometmq.broker.requests.pull_rows import BYTES_MAX, IfNothing, PullRow
from cometmq.broker.requests.pull_targets import PullTarget
from cometmq.broker.state.subscriptions import PullFilter
from cometmq.format import layout
from cometmq.format.record import PHYSICAL_OFFSET_AT
from cometmq.kernels import plain
from cometmq.kernels.pulls.plain import row_of
from cometmq.net.server import Server, Session
from cometmq.store.read.bulk_reads import BYTES_MIN
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.bodies import MessageModel
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command, SerializeType, encode
from cometmq.wire.headers import ResetOffsetHeader
from cometmq.wire.headers import fields as fields_of

FRAMES: list[Callable[..., bytes]] = [json_frame, binary_frame]
GROUPS = ["cg", "other"]
LARGE: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 20}

LITE_PULL = PUSH | {"sysFlag": "22", "subscription": "*", "subVersion": "0", "maxMsgBytes": "2147483647"}
"""What the Java lite pull consumer asks."""


def reset(group: str, topic: str = "TopicA") -> bytes:
    fields = fields_of(ResetOffsetHeader(group, topic, -1, is_force=True))
    return encode(Command(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, 6, ext_fields=fields))


async def both(reads: Sequence[bytes], **changes: Any) -> tuple[Result, Result, int]:
    """Return what comes of reads whose pulls are commands, and rows, and how many bytes went as rows.

    With the plain body of the leaf operations the same must come of them as with the compiled one.
    """
    reads = [heartbeat(*GROUPS), *reads]
    with patch.object(kernels.loading, "ops", plain):
        commands, rows, plainly_taken = await both_of(reads, **LARGE | changes)
    assert without_order(rows) == without_order(commands)
    commands, rows, taken = await both_of(reads, **LARGE | changes)
    assert plainly_taken >= taken
    return commands, rows, taken


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(("code", "fields"), [(PULL, PUSH), (LITE, LITE_PULL)])
async def test_what_the_java_clients_ask_goes_as_rows(
    frame: Callable[..., bytes], code: RequestCode, fields: dict[str, str]
) -> None:
    reads = [
        b"".join(
            frame(
                fields | {"topic": TOPICS[n % 3], "queueId": str(n % 4), "queueOffset": str(n % 3)},
                read * 100 + n,
                b"",
                code=code,
            )
            for n in range(read)
        )
        for read in (1, 3, 26, 64)
    ]
    commands, rows, taken = await both(reads)
    assert commands == rows
    assert taken == sum(map(len, reads)), "each is checked once, and then cached"
    assert commands.held == sum(read // 3 for read in (1, 3, 26, 64)), (
        "a third begins behind the last message"
    )


async def test_many_messages_of_many_files_are_answered_in_as_many_turns_as_it_takes() -> None:
    body = bytes(2_000)
    sends = [b"".join(send(queue_id, body=body) for queue_id in range(4)) for _ in range(80)]
    pulls = b"".join(pull(n, queueId=str(n % 4), maxMsgNums=str(n)) for n in range(40))
    commands, rows, taken = await both([*sends, pulls], mapped_file_size_commit_log=1 << 18)
    assert commands == rows
    assert taken > len(b"".join(sends))


async def test_a_commit_ahead_of_the_queues_end_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    usual = [pull(n, queueId="3", queueOffset="1", commitOffset="1") for n in range(3)]
    ahead = [
        pull(3, queueId="0", commitOffset="99"),
        pull(4, queueId="1", queueOffset="50", commitOffset="50"),
        pull(5, queueId="2", queueOffset="2", commitOffset="7"),
    ]
    commands, rows, taken = await both([b"".join(usual + ahead)])
    assert commands == rows
    assert taken == len(b"".join(usual + ahead))
    warned = sorted(text.split(" in queue")[0] for text in caplog.messages if "it is ahead by" in text)
    assert warned == sorted(4 * [f"group cg has committed {offset}" for offset in (99, 50, 7)])


async def test_a_woken_pull_gets_what_it_gets_as_a_command() -> None:
    holds = b"".join(
        pull(n, FRAMES[n % 2], queueId=str(n % 4), queueOffset="2", consumerGroup=GROUPS[n % 2])
        for n in range(16)
    )
    wakes = [send(0), send(1) + send(2) + send(1), send(3, tag="TagB")]
    commands, rows, taken = await both([holds, *wakes])
    assert commands == rows
    assert rows.held == 0 and taken == len(holds) + len(b"".join(wakes))
    assert rows.pulled["TopicA@other"] == {1: 4, 3: 3}


async def test_a_consumer_that_keeps_up_waits_at_the_end_again_and_again_also_of_a_topic_made_anew() -> None:
    def keep_up(begin: int) -> list[bytes]:
        sends = b"".join(send(n) for n in range(4))
        reads: list[bytes] = []
        for offset in range(begin, begin + 4):
            pulls = [pull(n, queueId=str(n), queueOffset=str(offset)) for n in range(4)]
            reads += [b"".join(pulls), sends]
        return reads

    delete = encode(Command(RequestCode.DELETE_TOPIC_IN_BROKER, 8, ext_fields={"topic": "TopicA"}))
    again = [delete, *[send(n) for n in range(4)], *keep_up(1)]
    for changes in ({}, SYNC):
        commands, rows, _ = await both([*keep_up(2), *again, pull(9, queueOffset="5")], **changes)
        assert commands == rows
        assert rows.held == 1 and rows.next_offsets["TopicA", 0] == 5


async def test_a_consumer_of_a_topic_without_messages_is_held_by_numbers_once_it_has_one() -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:
        made.read(heartbeat("cg"))
        made.store.delete_topic("TopicB")
        answers(made)
        add = MagicMock(wraps=made.store.readings.bulk.add)
        made.store.readings.bulk.add = add  # type: ignore[method-assign]  # it does the same, and counts
        calls = []
        for offset in range(4):
            add.reset_mock()
            made.read(pull(topic="TopicB", queueOffset=str(offset)))
            calls.append(add.call_count)
            made.read(send(topic="TopicB"))
            await made.on_disk()
        assert calls == [1, 1, 0, 0], "its queue is looked for until it is there"
        assert len(answers(made)) == 4 * 2


async def test_a_pull_that_cannot_be_held_is_answered_so_and_the_others_are_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:
        made.read(heartbeat("cg") + pull(1, queueOffset="2"))
        answers(made)
        hold = made.parts.pulls._hold.hold

        def fail(held: PullRow) -> bool:
            if held.command.opaque == 3:
                raise ZeroDivisionError("a bug")
            return hold(held)

        monkeypatch.setattr(made.parts.pulls._hold, "hold", fail)
        made.read(b"".join(pull(n, queueOffset="2") for n in (2, 3, 4)))
        told = [(answer.opaque, answer.code) for answer in answers(made)]
        assert told == [(3, ResponseCode.SYSTEM_ERROR)]
        assert made.parts.pulls.held_count == 3


async def test_tags_are_chosen_by_the_leaf_operations() -> None:
    sends = b"".join(send(0, tag=f"Tag{'ABC'[n % 3]}") for n in range(9))
    filters = ["*", "TagA", "TagB || TagC", "TagD", "", "TagA||"]
    pulls = b"".join(
        frame(LITE_PULL | {"subscription": text, "queueOffset": "1"}, n, b"", code=LITE)
        for n, (text, frame) in enumerate((text, frame) for text in filters for frame in FRAMES)
    )
    commands, rows, taken = await both([heartbeat("cg", tags="TagB"), sends, pulls, pull(99)])
    assert commands == rows
    assert taken == len(sends + pulls + pull(99))


NUMBERS = ["0", "1", "-1", "3", "04", "x", "", " 1", "2147483647", "2147483648", "9" * 19]
CHANGES: dict[str, Sequence[Any]] = {
    "consumerGroup": [*GROUPS, "Unknown", "grüppe", "", 'q"', "no/group"],
    "topic": [*TOPICS, "Missing", "тема", "", "SCHEDULE_TOPIC_XXXX"],
    "queueId": ["0", "1", "2", "3", "4", *NUMBERS],
    "queueOffset": ["2", "4", "9", *NUMBERS],
    "maxMsgNums": ["2", "32", *NUMBERS],
    "sysFlag": ["2", "4", "5", "6", "7", "16", "22", *NUMBERS],
    "commitOffset": ["2", *NUMBERS],
    "suspendTimeoutMillis": ["15000", *NUMBERS],
    "subscription": ["*", "TagA", "TagB || TagA", "TagX", "a > 1", "ü", "||", "x" * 2_000],
    "subVersion": ["6", "7", "8", *NUMBERS],
    "expressionType": ["TAG", "SQL92", "", "tag", "ü"],
    "maxMsgBytes": ["300", "-1", *NUMBERS],
    "zz": ["anything", "ü"],
    "topiC": ["other"],
}
usual = st.builds(
    lambda kind, group, topic, queue_id, offset: (
        kind
        | {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "queueOffset": str(offset)}
        | {"commitOffset": str(offset)}
    ),
    st.sampled_from([PUSH, PUSH, LITE_PULL, LITE_PULL | {"subscription": "TagA"}]),
    st.sampled_from(GROUPS),
    st.sampled_from(TOPICS),
    st.integers(0, 3),
    st.integers(0, 4),
)
changes = st.lists(st.sampled_from(sorted(CHANGES)), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(CHANGES[name]) for name in names})
)
fields = st.one_of(
    usual,
    usual,
    st.builds(lambda kept, changed: kept | changed, usual, changes),
    st.builds(
        lambda kept, gone: {name: value for name, value in kept.items() if name != gone},
        usual,
        st.sampled_from(sorted(PUSH)),
    ),
)
pulls = st.builds(
    lambda frame, values, opaque, code, flag, body: frame(values, opaque, body, code=code, flag=flag),
    st.sampled_from(FRAMES),
    fields,
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([PULL, PULL, LITE]),
    st.sampled_from([0] * 10 + [1, 2, 4]),
    st.sampled_from([b""] * 10 + [b"body"]),
)
others = st.sampled_from(
    [
        send(),
        send(1, tag="TagB"),
        send(2) + send(2, tag=""),
        heartbeat("cg", version=VERSION),
        heartbeat("cg", tags="TagA", version=VERSION + 1),
        heartbeat("Unknown"),
        heartbeat("other", message_model=MessageModel.BROADCASTING),
        reset("cg"),
        reset("other"),
        encode(Command(RequestCode.DELETE_TOPIC_IN_BROKER, 8, ext_fields={"topic": "TopicB"})),
        encode(Command(RequestCode.GET_MAX_OFFSET, 8, ext_fields={"topic": "TopicA", "queueId": "0"})),
    ]
)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Cut frames into reads."""
    data = b"".join(draw(st.lists(st.one_of(pulls, pulls, pulls, others), min_size=1, max_size=16)))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=3)))
    return [data[begin:end] for begin, end in pairwise([0, *cuts, len(data)])]


@given(streams())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
async def test_any_reads_give_what_commands_give(reads: list[bytes]) -> None:
    commands, rows, taken = await both(reads)
    event(f"rows: {taken > 0}")
    assert without_order(commands) == without_order(rows)


def without_order(result: Result) -> Result:
    """Drop the offsets that groups have pulled: of several pulls of a queue in a turn any may be the last."""
    return result._replace(pulled={key: dict.fromkeys(queues, 0) for key, queues in result.pulled.items()})


def answers(made: Desk) -> list[Command]:
    data, made.wire.data = made.wire.data, b""
    return FrameReader().receive_data(data)


async def test_a_pull_is_checked_again_when_the_state_changes() -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:

        def code_of(frame: bytes) -> int:
            made.read(frame)
            return answers(made)[-1].code

        asked = pull(queueId="3")
        made.read(heartbeat("cg"))
        assert code_of(asked) == code_of(asked) == ResponseCode.SUCCESS
        topic = made.parts.topics.find("TopicA")
        assert topic is not None
        made.parts.topics.put(replace(topic, read_queue_count=1))
        assert code_of(asked) == ResponseCode.INVALID_PARAMETER
        made.parts.topics.put(topic)
        assert code_of(asked) == ResponseCode.SUCCESS
        made.read(heartbeat("cg", tags="TagX", version=VERSION + 1))
        assert code_of(asked) == ResponseCode.PULL_RETRY_IMMEDIATELY
        delete = Command(RequestCode.DELETE_SUBSCRIPTIONGROUP, 8, ext_fields={"groupName": "cg"})
        create = Command(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            8,
            body=b'{"groupName":"cg","consumeEnable":false}',
        )
        made.read(encode(delete) + encode(create))
        assert code_of(asked) == ResponseCode.NO_PERMISSION


async def test_a_held_pull_is_checked_again_by_its_own_filter() -> None:
    def sent_along(opaque: int, tags: str) -> bytes:
        return pull(opaque, queueOffset="1", sysFlag="6", subscription=tags, subVersion="0")

    def registered(opaque: int, version: int) -> bytes:
        return pull(opaque, queueOffset="1", subVersion=str(version))

    holds = [heartbeat("cg", version=9), sent_along(1, "TagA"), sent_along(2, "TagB"), registered(3, 9)]
    changes = [heartbeat("cg", tags="TagA", version=8), heartbeat("cg", tags="TagB", version=10)]
    commands, rows, taken = await both([send(), *holds, *changes, send(), send(tag="TagB")])
    assert commands == rows
    assert taken >= len(b"".join(holds[1:]))
    assert rows.held == 0 and rows.pulled["TopicA@cg"] == {0: 3}


async def test_a_group_hears_of_a_reset_though_its_pulls_go_as_rows() -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:
        made.read(heartbeat(*GROUPS) + pull() + pull(consumerGroup="other"))
        made.parts.offsets.reset("cg", "TopicA", 0, 1)
        answers(made)
        made.read(pull(1) + pull(2, consumerGroup="other") + pull(3))
        told = {answer.opaque: answer.remark for answer in answers(made)}
        assert told == {1: "OFFSET_RESET", 2: "FOUND", 3: "FOUND"}


async def test_a_reset_is_told_though_the_answers_before_it_congest_its_connection() -> None:
    with served_by(compiled=False), desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:
        made.read(heartbeat(*GROUPS) + 40 * send(body=bytes(2_900)))
        await made.on_disk()
        made.parts.offsets.reset("other", "TopicA", 0, 1)
        answers(made)
        write = made.wire.writelines

        def write_to_a_peer_that_reads_nothing(data: Sequence[bytes]) -> None:
            write(data)
            made.session.pause_writing()

        made.wire.writelines = write_to_a_peer_that_reads_nothing  # type: ignore[method-assign]  # the far end
        made.read(b"".join(pull(n) for n in range(16)) + pull(16, consumerGroup="other"))
        told = {answer.opaque: answer.remark for answer in answers(made)}
        assert 0 < list(told.values()).count("FOUND") < 16, "the others wait until it reads again"
        assert told[16] == "OFFSET_RESET"


async def test_a_read_of_more_pulls_than_are_taken_at_once_is_answered_whole() -> None:
    frames = b"".join(pull(n, queueId=str(n % 4), queueOffset="1") for n in range(700))
    commands, rows, taken = await both([frames])
    assert commands == rows
    assert taken == len(frames)


async def test_pulls_and_sends_of_one_read_keep_their_order() -> None:
    frames = pull(1, queueOffset="2") + send() + pull(2, queueOffset="2") + send() + send() + pull(3)
    commands, rows, taken = await both([frames, frames + pull(4, queueOffset="9")])
    assert commands == rows
    assert taken == len(frames + frames + pull(4, queueOffset="9"))


async def test_records_that_are_damaged_are_passed_over() -> None:
    kernels.load()
    files = MemoryDisk()
    with desk(ROOT, bulk=True, files=files, **LARGE) as made:
        made.read(heartbeat("cg"))
        for n in range(6):
            made.read(send(body=b"sound %d" % n))
        await made.on_disk()
        found = made.store.get("TopicA", 0, 4)
        offset = int.from_bytes(found.records[0][PHYSICAL_OFFSET_AT:][:8], "big")
        log = files.open(
            layout.commitlog_dir(ROOT) / files.names(layout.commitlog_dir(ROOT))[0], writable=True
        )
        place = offset + found.records[0].index(b"sound")
        log.write(place, b"wrong")
        answers(made)
        made.read(pull(1, queueOffset="2") + pull(2, queueOffset="5"))
        first, second = sorted(answers(made), key=lambda answer: answer.opaque)
        assert bodies(first) == [b"sound 0", b"sound 1"]
        assert bodies(second) == [b"sound 3", b"sound 4", b"sound 5"]


def made(**changes: int | None) -> PullRow:
    header = pull_header("T", 5, queue_id=3)
    for name, value in changes.items():
        setattr(header, name, value)
    code, tags = RequestCode.PULL_MESSAGE, frozenset({7})
    target = PullTarget(code, header, "T@group", ("T", 3), PullFilter(tags), tags, is_rare=False)
    command = Command(code, 9, serialize_type=SerializeType.ROCKETMQ)
    return PullRow(Session(Server(Nobody()).shared), target, row_of(command, header))


@pytest.mark.parametrize(
    ("size", "given"),
    [(0, BYTES_MIN), (-1, BYTES_MIN), (500, 500), (2**31 - 1, BYTES_MAX), (None, BYTES_MAX)],
)
def test_a_pull_is_given_as_many_bytes_as_it_may_ask_for(size: int | None, given: int) -> None:
    assert made(max_message_bytes=size).max_bytes == given


@pytest.mark.parametrize(("count", "given"), [(-3, 1), (0, 1), (32, 32)])
def test_a_pull_is_given_one_message_at_least(count: int, given: int) -> None:
    assert made(max_message_count=count).max_count == given


def test_a_pull_that_is_held_waits_where_it_begins() -> None:
    pull = made()
    assert pull.owner is pull.session and pull.if_nothing is IfNothing.HOLD
    assert (pull.queue_offset, pull.deadline_ms) == (5, 0)
    pull.wait_until(1_000)
    assert (pull.queue, pull.queue_offset, pull.deadline_ms) == (("T", 3), 5, 1_000)
    assert pull.tags_codes == frozenset({7})


def test_what_answers_a_pull_finds_its_request() -> None:
    command = made().command
    assert (command.code, command.opaque) == (RequestCode.PULL_MESSAGE, 9)
    assert command.serialize_type is SerializeType.ROCKETMQ


async def test_pulls_are_counted_by_the_way_they_go() -> None:
    with desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:
        made.read(heartbeat("cg"))
        rates = made.parts.rates
        with patch.object(kernels.loading, "ops", plain):
            made.read(pull(1) + pull(2))
        kernels.load()
        made.read(pull(3))
        assert rates.pull_rows == {"plain": 2, "compiled": 1}
        assert (rates.pull_commands, rates.rare_pulls, rates.found.total) == (0, 0, 3)
        made.read(pull(4, topic="Missing") + pull(5, subscription="gr\u00fc"))
        assert rates.pull_rows == {"plain": 2, "compiled": 2}
        assert (rates.pull_commands, rates.rare_pulls, rates.found.total) == (1, 1, 4)
