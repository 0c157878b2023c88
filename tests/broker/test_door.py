"""What goes through the door: frames are read once, checked on their rows, and taken by kind."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock, patch

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.broker.auth.signing import ANN, ROOT
from tests.broker.desk import ROOT as DIRECTORY
from tests.broker.desk import USUAL, Desk, binary_frame, desk, framed, json_frame, served_by
from tests.kernels.querying import BY_KEY
from tests.kit.pull_frames import PUSH, heartbeat

from cometmq import kernels
from cometmq.access.directory import Directory
from cometmq.access.guard import Guard
from cometmq.access.policies import Acl, PolicyEntry
from cometmq.access.users import User, UserType
from cometmq.broker.auth.guarding import guard_of, serve
from cometmq.broker.door import Door
from cometmq.broker.settings import BrokerSettings
from cometmq.format.pop.check_point import decode_ack
from cometmq.format.record import Record, decode_many
from cometmq.io.clock import ManualClock
from cometmq.kernels.frames.fields import FrameKind
from cometmq.kernels.frames.rows import FrameOps, Frames
from cometmq.net.server import Session
from cometmq.store.reading import Run
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.acl import Credentials, signed_fields
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import ONEWAY_FLAG, RESPONSE_FLAG, Command, SerializeType, decode

V2, QUERY, VIEW = RequestCode.SEND_MESSAGE_V2, RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID
PULL, ACK = RequestCode.PULL_MESSAGE, RequestCode.ACK_MESSAGE
STATS = RequestCode.GET_TOPIC_STATS_INFO
NO_PERMISSION, SUCCESS = ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS


def signed(frame: bytes, credentials: Credentials = ANN) -> bytes:
    """Sign a frame as a client would have; its header is written as the Java client does."""
    sent = decode(frame)
    fields = signed_fields(sent.ext_fields, sent.body, sent.version, credentials)
    write = json_frame if sent.serialize_type is SerializeType.JSON else binary_frame
    return write(fields, sent.opaque, sent.body, code=sent.code, flag=sent.flag)


def send(
    topic: str = "TopicA", opaque: int = 1, frame: Callable[..., bytes] = json_frame, **changes: Any
) -> bytes:
    return signed(frame(USUAL | {"b": topic}, opaque, **changes))


def pull(opaque: int, topic: str = "TopicA") -> bytes:
    return signed(json_frame(PUSH | {"topic": topic, "sysFlag": "0"}, opaque, b"", code=PULL))


def ack(opaque: int, topic: str = "TopicA", offset: int = 0) -> bytes:
    handle = f"0 {ManualClock().now_ms()} 15000 2 0 broker-a 3 {offset}"
    fields = {
        "consumerGroup": "cg",
        "topic": topic,
        "queueId": "3",
        "offset": str(offset),
        "extraInfo": handle,
    }
    return signed(json_frame(fields, opaque, b"", code=ACK))


@contextmanager
def checked(*, compiled: bool = True, **changes: Any) -> Iterator[Desk]:
    """Open a desk whose requests are checked: ann may use TopicA in the group cg."""
    with served_by(compiled=compiled), desk(DIRECTORY, bulk=True, files=MemoryDisk(), **changes) as made:
        made.read(heartbeat("cg"))
        directory = Directory()
        directory.create(User("ann", ANN.secret_key))
        directory.create(User("root", ROOT.secret_key, UserType.SUPER))
        entries = [
            PolicyEntry.parse("Topic:TopicA", ["Pub", "Sub", "Get"], None, "Allow"),
            PolicyEntry.parse("Group:cg", ["Sub"], None, "Allow"),
        ]
        directory.put_acl(Acl("ann", tuple(entries)))
        own = BrokerSettings.of(authentication_enabled=True, authorization_enabled=True)
        guard = guard_of(directory, own, made.server.clock)
        serve(made.server, made.parts.requests, cast(Any, made.bulk), guard)
        made.guard = guard
        made.wire.data, made.bulk.taken = b"", 0
        yield made


def answers(made: Desk) -> dict[int, int]:
    """Return the codes of all answers since the last call, by the numbers of their requests."""
    got, made.wire.data = FrameReader().receive_data(made.wire.data), b""
    return {one.opaque: one.code for one in got}


@pytest.mark.parametrize("frame", [json_frame, binary_frame])
async def test_allowed_sends_are_stored_in_bulk_and_refused_ones_cut_out(frame: Callable[..., bytes]) -> None:
    with checked() as made:
        allowed = [send(opaque=1, frame=frame), send(opaque=3, frame=frame)]
        before = made.parts.rates.send_rows.total()
        made.read(allowed[0] + send("TopicB", 2, frame) + allowed[1] + frame(USUAL, 4))
        assert answers(made) == {1: SUCCESS, 2: NO_PERMISSION, 3: SUCCESS, 4: NO_PERMISSION}
        assert made.parts.rates.send_rows.total() - before == 2


async def test_a_read_without_refused_frames_is_passed_on_as_it_is() -> None:
    with checked() as made:
        data = b"".join(send(opaque=number) for number in range(20))
        made.read(data)
        assert set(answers(made).values()) == {SUCCESS}
        assert made.bulk.taken == len(data)


async def test_a_read_of_refused_frames_only_stores_nothing() -> None:
    with checked() as made:
        before = made.store.written_offset
        made.read(b"".join(send("TopicB", number) for number in range(5)))
        assert answers(made) == dict.fromkeys(range(5), NO_PERMISSION)
        assert made.store.written_offset == before


async def test_sends_and_pulls_and_other_requests_come_in_any_order() -> None:
    with checked() as made:
        stats = signed(json_frame({"topic": "TopicA"}, 3, b"", code=STATS))
        forbidden = signed(json_frame({"topic": "TopicB"}, 4, b"", code=STATS))
        by_key = signed(json_frame(BY_KEY | {"topic": "TopicA"}, 5, b"", code=QUERY))
        frames = [send(opaque=1), pull(2), stats, forbidden, by_key, pull(6, "TopicB"), send(opaque=7), stats]
        made.read(b"".join(frames))
        codes = answers(made)
        assert {number for number, code in codes.items() if code == NO_PERMISSION} == {4, 6}
        assert set(codes) == {1, 2, 3, 4, 5, 6, 7}
        assert codes[1] == codes[2] == codes[3] == codes[7] == SUCCESS


async def test_allowed_acknowledgements_are_joined_as_rows_and_refused_ones_cut_out() -> None:
    with checked() as made:
        before, rates = made.store.written_offset, made.parts.rates
        made.read(send(opaque=1) + ack(2) + ack(3, "TopicB") + ack(4, offset=1) + pull(5))
        codes = answers(made)
        assert codes.pop(5) is not None
        assert codes == {1: SUCCESS, 2: SUCCESS, 3: NO_PERMISSION, 4: SUCCESS}
        assert (rates.ack_rows.total(), rates.ack_commands) == (2, 0)
        stored = [decode_ack(one.body) for one in _records(made, before) if one.topic != "TopicA"]
        found = [(one.topic, one.group, one.offsets) for one in stored]
        assert found == [("TopicA", "cg", (0,)), ("TopicA", "cg", (1,))]


async def test_an_unusual_acknowledgement_that_is_allowed_becomes_a_command() -> None:
    with checked() as made:
        made.read(ack(1, offset=0) + ack(2, offset=9) + ack(3, offset=1) + ack(4, "TopicB"))
        await made.on_disk()  # what came as commands is answered at the end of the turn
        assert answers(made) == {1: SUCCESS, 2: ResponseCode.NO_MESSAGE, 3: SUCCESS, 4: NO_PERMISSION}
        assert made.parts.rates.ack_rows.total() == 2 and made.parts.rates.ack_commands == 1


async def test_a_refused_one_way_send_is_cut_out_silently() -> None:
    with checked() as made:
        before = made.store.written_offset
        made.read(send("TopicB", 1, flag=ONEWAY_FLAG) + send(opaque=2))
        assert answers(made) == {2: SUCCESS}
        assert made.store.written_offset > before


async def test_a_frame_that_comes_in_parts_is_checked_once_it_is_complete() -> None:
    with checked() as made:
        for topic, expected in (("TopicA", SUCCESS), ("TopicB", NO_PERMISSION)):
            frame = send(topic, 9)
            for begin in range(0, len(frame), 100):
                made.read(frame[begin : begin + 100])
            assert answers(made) == {9: expected}


async def test_a_view_by_place_is_no_row_since_only_the_message_tells_its_topic() -> None:
    with checked() as made:
        made.read(signed(json_frame({"offset": "0", "topic": "TopicA"}, 1, b"", code=VIEW), ROOT))
        assert answers(made) == {1: SUCCESS}
        assert made.bulk.taken == 0


async def test_a_response_is_no_send_whatever_its_code() -> None:
    with checked() as made:
        before = made.store.written_offset
        made.read(json_frame(USUAL, 1, flag=RESPONSE_FLAG) + send(opaque=2))
        assert answers(made) == {2: SUCCESS}
        assert len(list(_records(made, before))) == 1


async def test_rare_sends_are_checked_as_commands_too() -> None:
    with checked() as made:
        rare = signed(json_frame(USUAL | {"i": "DELAY\x011\x02"}))
        made.read(rare + signed(json_frame(USUAL | {"b": "TopicB", "i": "DELAY\x011\x02"}, 2)))
        assert answers(made) == {1: SUCCESS, 2: NO_PERMISSION}
        assert made.bulk.taken == len(signed(json_frame(USUAL | {"b": "TopicB", "i": "DELAY\x011\x02"}, 2)))


async def test_a_signed_frame_is_read_once() -> None:
    """What is permitted and what is executed are the same row, and nothing else looks at its bytes."""
    with checked() as made:
        made.read(send(opaque=1))  # the first of its kind is decided by the policies
        served, data = kernels.loading.ops, b"".join(send(opaque=number) for number in range(2, 12))
        frames = Reads(served.frames)
        ops = SimpleNamespace(body=served.body, frames=frames, sends=served.sends)
        with (
            patch.object(kernels.loading, "ops", ops),
            patch("cometmq.wire.frame.decode_parts", side_effect=AssertionError),
            patch("cometmq.kernels.frames.rows.Frames.request", side_effect=AssertionError),
        ):
            made.read(data)
        assert set(answers(made)) == set(range(1, 12))
        assert frames.calls == 1


class Reads:
    """Counts the calls of the operation that reads frames."""

    def __init__(self, ops: FrameOps) -> None:
        self.calls = 0
        self._ops = ops

    def read(self, frames: Frames, /) -> int:
        self.calls += 1
        return self._ops.read(frames)


async def test_a_header_with_two_objects_of_fields_is_read_in_one_way_only() -> None:
    """The one that is checked must be the one that is used."""
    with checked() as made:
        sent = decode(send("TopicA"))
        head = {"code": int(V2), "flag": 0, "opaque": 1, "version": 479}
        for first, second in (({"b": "TopicB"}, sent.ext_fields), (sent.ext_fields, {"b": "TopicB"})):
            text = json.dumps(head, separators=(",", ":"))[:-1]
            text += "".join(f',"extFields":{json.dumps(fields)}' for fields in (first, second)) + "}"
            before = made.store.written_offset
            made.read(framed(text.encode(), b"body"))
            assert {record.topic for record in _records(made, before)} <= {"TopicA"}


class Failing:
    """A guard that fails at one topic; it counts what it checks."""

    def __init__(self, guard: Guard) -> None:
        self._check = guard
        self.repeats = guard.repeats
        self.checked = 0

    def refusal(self, command: Command, address: str) -> str | None:
        self.checked += 1
        if command.ext_fields.get("b") == "TopicB":
            raise KeyError("a fault")
        return self._check.refusal(command, address)

    def is_signed(self, command: Command) -> bool:
        return self._check.is_signed(command)

    def is_suspect(self, address: str) -> bool:
        return self._check.is_suspect(address)


async def test_a_check_that_fails_lets_nothing_pass_and_harms_no_other_connection() -> None:
    with checked() as made:
        failing: Any = Failing(made.guard)
        serve(made.server, made.parts.requests, cast(Any, made.bulk), failing)
        other = Session(made.server.shared)
        other.connection_made(made.wire)  # type: ignore[arg-type]  # it is one as far as a session cares
        other.data_received(send(opaque=4))
        made.read(send(opaque=1) + send("TopicB", 2) + send(opaque=3))
        assert answers(made) == {1: SUCCESS, 2: ResponseCode.SYSTEM_ERROR, 3: SUCCESS, 4: SUCCESS}
        made.server.remove(other)


@pytest.mark.parametrize("compiled", [True, False])
async def test_of_a_request_like_one_that_was_allowed_only_the_signature_is_checked(
    *, compiled: bool
) -> None:
    with checked(compiled=compiled) as made:
        counting: Any = Failing(made.guard)
        serve(made.server, made.parts.requests, cast(Any, made.bulk), counting)
        queues = [signed(json_frame(USUAL | {"e": str(number % 4)}, number)) for number in range(20)]
        made.read(b"".join(queues))
        assert counting.checked == 1
        made.read(send(opaque=20) + signed(json_frame(USUAL, 21), Credentials("ann", "a guess")) + pull(22))
        assert counting.checked == 3
        assert {number for number, code in answers(made).items() if code == NO_PERMISSION} == {21}


async def test_what_was_allowed_is_refused_once_users_or_policies_change() -> None:
    with checked() as made:
        directory = made.guard.repeats._directory
        sent = send(opaque=1)
        changes: list[Callable[[], None]] = [
            lambda: directory.update("ann", password="another"),
            lambda: directory.update("ann", password=ANN.secret_key),
            lambda: directory.put_acl(
                Acl("ann", (PolicyEntry.parse("Topic:TopicA", ["Pub"], None, "Deny"),))
            ),
        ]
        codes = []
        for change in changes:
            made.read(sent + sent)
            codes += [answers(made)[1]]
            change()
        made.read(sent)
        assert [*codes, answers(made)[1]] == [SUCCESS, NO_PERMISSION, SUCCESS, NO_PERMISSION]


async def test_a_body_that_was_changed_is_refused_however_often_its_like_was_allowed() -> None:
    with checked() as made:
        made.read(send(opaque=1) * 3)
        before = made.store.written_offset
        made.read(send(opaque=2)[:-1] + b"?")
        assert answers(made) == {1: SUCCESS, 2: NO_PERMISSION}
        assert made.store.written_offset == before


async def test_a_suspects_connection_is_closed_in_bulk_too() -> None:
    with checked() as made:
        made.guard._failures.most = 2
        made.read(b"".join(json_frame(USUAL, number) for number in range(5)) + send(opaque=9))
        assert made.wire.is_closed
        assert made.session.closed
        assert not answers(made)  # those that were not sent yet are dropped with the connection
        assert made.server.shared.refused_requests == 3


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
async def test_no_frame_that_was_changed_stores_anything_else(data: st.DataObject) -> None:
    with checked() as made:
        for write in (json_frame, binary_frame):
            frame = bytearray(send(frame=write))
            at = data.draw(st.integers(4, len(frame) - 1))
            frame[at] ^= data.draw(st.integers(1, 255))
            before = made.store.written_offset
            made.read(bytes(frame))
            for record in _records(made, before):
                assert (record.topic, record.body, record.flag) == ("TopicA", b"body", 0)
                assert record.properties.startswith(USUAL["i"].encode())
            if made.wire.is_closed:
                return


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
async def test_no_acknowledgement_that_was_changed_acknowledges_anything_else(data: st.DataObject) -> None:
    with checked() as made:
        frame = bytearray(ack(1))
        at = data.draw(st.integers(4, len(frame) - 1))
        frame[at] ^= data.draw(st.integers(1, 255))
        before = made.store.written_offset
        made.read(bytes(frame))
        for record in _records(made, before):
            assert decode_ack(record.body)[:4] == ("TopicA", "cg", 3, 0)


def _records(made: Desk, begin: int) -> list[Record]:
    """Return the records from a place in the log on."""
    found: list[Record] = []
    offset = begin
    while offset < made.store.written_offset:
        run = Run(made.store.readings.record(offset))
        assert run.go_on()
        data = run.answer
        assert data is not None
        found += decode_many(data)
        offset += len(data)
    return found


@pytest.mark.parametrize("compiled", [True, False])
async def test_the_frames_of_one_kind_of_all_connections_are_taken_together(*, compiled: bool) -> None:
    with served_by(compiled=compiled), desk(DIRECTORY, bulk=True, files=MemoryDisk()) as made:
        made.read(heartbeat("cg"))
        taken: list[tuple[FrameKind, list[int]]] = []

        def seen(kind: FrameKind, taker: Any) -> Any:
            def take(ops: Any, frames: Frames, runs: list[Any]) -> None:
                taken.append((kind, [run.last - run.first for _, run in runs]))
                taker.take(ops, frames, runs)

            return MagicMock(take=take)

        door = made.parts.bulk
        made.server.bulk = Door({kind: seen(kind, taker) for kind, taker in door.takers.items()})
        other = Session(made.server.shared)
        other.connection_made(made.wire)  # type: ignore[arg-type]  # it is one as far as a session cares
        one, command = json_frame(USUAL, 1), json_frame({}, 3, b"", code=STATS)
        asked = json_frame(PUSH | {"topic": "TopicA", "sysFlag": "0"}, 2, b"", code=PULL)
        other.data_received(one + one + asked)
        made.read(one + command + asked + asked)
        made.server.remove(other)
        assert taken == [(FrameKind.SEND, [2, 1]), (FrameKind.PULL, [1]), (FrameKind.PULL, [2])]


PULL_FIELDS = PUSH | {"topic": "TopicA", "sysFlag": "0"}
ANY_REQUEST: dict[str, tuple[dict[str, str], bytes, int]] = {
    "send": (USUAL, b"body", V2),
    "rare send": (USUAL | {"i": "DELAY\x011\x02"}, b"body", V2),
    "send to nowhere": (USUAL | {"e": "99"}, b"body", V2),
    "pull": (PULL_FIELDS, b"", PULL),
    "pull with a long key": (
        PULL_FIELDS | {"sysFlag": "4", "subscription": "||".join(["tag"] * 300)},
        b"",
        PULL,
    ),
    "query": (BY_KEY | {"topic": "TopicA"}, b"", QUERY),
    "unusual query": (BY_KEY | {"topic": "TopicA", "maxNum": "+1"}, b"", QUERY),
    "command": ({"topic": "TopicA"}, b"", STATS),
}


@pytest.mark.parametrize("compiled", [True, False])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(received=st.lists(st.lists(st.sampled_from(sorted(ANY_REQUEST)), max_size=6), min_size=2, max_size=4))
@example(received=[["pull", "pull", "command"], ["pull with a long key"], ["pull", "pull", "pull"]])
async def test_each_connection_gets_the_answers_to_its_own_requests(
    *, compiled: bool, received: list[list[str]]
) -> None:
    with served_by(compiled=compiled), desk(DIRECTORY, bulk=True, files=MemoryDisk()) as made:
        made.read(heartbeat("cg"))
        wires = [type(made.wire)("127.0.0.1") for _ in received]
        sent: list[list[int]] = []
        for number, (wire, names) in enumerate(zip(wires, received, strict=True)):
            session = Session(made.server.shared)
            session.connection_made(wire)  # type: ignore[arg-type]  # it is one as far as a session cares
            sent.append([100 * number + place for place in range(len(names))])
            for opaque, name in zip(sent[-1], names, strict=True):
                fields, body, code = ANY_REQUEST[name]
                session.data_received(json_frame(fields, opaque, body, code=code))
        made.server.turn.handle()
        await asyncio.sleep(0)
        answered = [sorted(one.opaque for one in FrameReader().receive_data(wire.data)) for wire in wires]
        assert answered == sent


async def test_more_frames_than_there_are_rows_for_are_handled_in_their_order() -> None:
    with desk(DIRECTORY, bulk=True, files=MemoryDisk(), mapped_file_size_commit_log=1 << 20) as made:
        made.parts.bulk._frames = Frames(count=3)
        begin = made.store.max_queue_offset("TopicA", 0)
        made.read(b"".join(json_frame(USUAL, number) for number in range(10)))
        offsets = {
            one.opaque: int(one.ext_fields["queueOffset"])
            for one in FrameReader().receive_data(made.wire.data)
            if one.ext_fields["queueId"] == "0"
        }
        assert [offsets[number] for number in range(1, 10)] == list(range(begin + 1, begin + 10))
