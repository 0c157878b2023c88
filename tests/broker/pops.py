"""Pops, acknowledgements and what they leave in the store: what the tests of pops share."""

from typing import Any, NamedTuple

from tests.broker.conftest import Bench, Client
from tests.broker.halves import records

from cometmq.format import properties
from cometmq.format.pop import check_point
from cometmq.format.pop.names import flag_of, revive_topic
from cometmq.format.pop.offset_info import parse_begin_offsets, parse_offsets
from cometmq.format.pop.receipt import ReceiptHandle, parse_receipt
from cometmq.format.record import Record, decode_many
from cometmq.store.append import NewMessage
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import (
    AckHeader,
    ChangeInvisibleHeader,
    PopHeader,
    PopResponseHeader,
    parse,
)

TIMER = "rmq_sys_wheel_timer"
REVIVE = revive_topic("DefaultCluster")
INVISIBLE_MS = 15_000
HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"
NOTHING = (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")


class Handed(NamedTuple):
    """A message that was handed out, and its handle as a client computes it."""

    body: bytes
    handle: ReceiptHandle
    record: Record

    @property
    def place(self) -> tuple[str, int, int]:
        """The topic, queue and offset under which it is acknowledged."""
        topic = self.record.topic
        if self.handle.retry_flag:
            topic = f"%RETRY%g{'+' if self.handle.retry_flag == 2 else '_'}{topic}"
        return topic, self.handle.queue_id, self.handle.offset


def pop_header(topic: str = "T", **changes: Any) -> PopHeader:
    values: dict[str, Any] = {
        "consumer_group": "g",
        "topic": topic,
        "queue_id": -1,
        "max_msg_nums": 32,
        "invisible_time": INVISIBLE_MS,
        "poll_time": 0,
        "born_time": 0,
        "init_mode": 0,
    }
    return PopHeader(**values | changes)


async def pop(client: Client, topic: str = "T", **changes: Any) -> Command:
    return await client.ask(RequestCode.POP_MESSAGE, pop_header(topic, **changes))


async def popped(client: Client, topic: str = "T", **changes: Any) -> list[Handed]:
    """Pop, and give the messages."""
    return handed(await pop(client, topic, **changes))


def handed(answer: Command) -> list[Handed]:
    """Return the messages of an answer, with their handles, as the Java client does."""
    header = parse(PopResponseHeader, answer.ext_fields)
    if answer.code != ResponseCode.SUCCESS:
        assert not answer.body and header.start_offset_info is None
        return []
    assert answer.remark == "FOUND" and header.start_offset_info and header.msg_offset_info
    begins, offsets = parse_begin_offsets(header.start_offset_info), parse_offsets(header.msg_offset_info)
    assert begins.keys() == offsets.keys()
    found = []
    seen: dict[Any, list[int]] = {}
    for record in decode_many(answer.body):
        given = properties.decode(record.properties).get("POP_CK")
        if given is None:
            queue = flag_of(record.topic), record.queue_id
            assert record.queue_offset in offsets[queue]
            handle = ReceiptHandle(
                *(begins[queue], header.pop_time, header.invisible_time, header.revive_queue_id),
                *(queue[0], "broker-a", record.queue_id, record.queue_offset),
            )
        else:
            handle = parse_receipt(given)
        seen.setdefault((handle.retry_flag, handle.queue_id), []).append(handle.offset)
        found.append(Handed(record.body, handle, record))
    assert {queue: tuple(offsets) for queue, offsets in seen.items()} == offsets
    return found


async def ack(client: Client, message: Handed, *, group: str = "g", handle: str = "") -> Command:
    topic, queue_id, offset = message.place
    header = AckHeader(group, topic, queue_id, handle or str(message.handle), offset)
    return await client.ask(RequestCode.ACK_MESSAGE, header)


async def change(client: Client, message: Handed, invisible_ms: int, **changes: Any) -> Command:
    topic, queue_id, offset = message.place
    header = ChangeInvisibleHeader("g", topic, queue_id, str(message.handle), offset, invisible_ms, **changes)
    return await client.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)


class Stored(NamedTuple):
    """A check point or an acknowledgement in the store.

    Attributes:
        due_ms: when it comes due; None if it was due when it was stored.
    """

    what: check_point.CheckPoint | check_point.PopAck
    revive_queue_id: int
    due_ms: int | None


def stored(bench: Bench) -> list[Stored]:
    """Return the check points and acknowledgements that wait in the timer topic, and those that do not."""
    found = []
    for record in records(bench, TIMER):
        named = properties.decode(record.properties)
        if named.get("REAL_TOPIC") == REVIVE:
            found.append(Stored(_what(record), int(named["REAL_QID"]), int(named["TIMER_DELIVER_MS"])))
    for queue_id in range(8):
        found += [Stored(_what(record), queue_id, None) for record in records(bench, REVIVE, queue_id)]
    return found


def check_points(bench: Bench) -> list[check_point.CheckPoint]:
    return [one.what for one in stored(bench) if isinstance(one.what, check_point.CheckPoint)]


def acks(bench: Bench) -> list[check_point.PopAck]:
    return [one.what for one in stored(bench) if isinstance(one.what, check_point.PopAck)]


def come_back(bench: Bench, topic: str, *bodies: bytes, **named: str) -> None:
    """Store messages in a retry topic, as a broker does."""
    data = properties.encode(named)
    bench.store.append(
        [NewMessage(topic, 0, body, data, 0, HOST, HOST, named.get("TAGS")) for body in bodies]
    )


async def fill(bench: Bench, disk: MemoryDisk) -> None:
    """Send until the disk is full."""
    assert (await bench.send("Filler")).code == ResponseCode.SUCCESS  # its topic is saved
    disk.space_bytes = 0
    while (await bench.send("Filler", b"x")).code == ResponseCode.SUCCESS:
        pass


def _what(record: Record) -> check_point.CheckPoint | check_point.PopAck:
    named = properties.decode(record.properties)
    what: check_point.CheckPoint | check_point.PopAck
    if named["TAGS"] == "ck":
        what = check_point.decode_check_point(record.body)
        kind, offset, body = "ck", what.begin_offset, what.encode()
    else:
        what = check_point.decode_ack(record.body)
        tag, offset, body = check_point.encode_ack(what.offsets, what.key.ack_members())
        assert named["TAGS"] == tag
        kind = "ack"
    assert (named["UNIQ_KEY"], record.body) == (unique_key(what.key, offset, kind), body)
    return what


def unique_key(key: check_point.PopKey, offset: int, kind: str) -> str:
    """Return the unique key of a message of a check point; ``kind`` is ``ck`` or ``ack``."""
    before, behind = check_point.unique_key_formats(key.topic, key.group, key.broker_name, kind)
    return f"{before % key.queue_id}{offset}{behind % key.pop_time_ms}"


def committed(bench: Bench, topic: str = "T", group: str = "g") -> dict[int, int]:
    """Return the committed offsets of a group by queue."""
    return dict(bench.parts.offsets.queues_of(f"{topic}@{group}"))
