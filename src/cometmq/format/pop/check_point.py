"""Check points and acknowledgements: the bodies of the messages that pop consumption stores.

A check point lists the messages that one pop has delivered from one queue; an acknowledgement names messages
of it. Both are JSON, timed messages for the revive topic, with these tags, keys and members::

    ck   topic@queue_id@begin_offset@group@pop_time@broker_name@ck
         {"bm":0,"bn":"broker-a","c":"g","d":[0],"it":15000,"n":1,"pt":1795602262251,"q":3,
          "reviveTime":1795602277251,"ro":0,"so":0,"sp":false,"t":"T"}
    ack  topic@queue_id@offset@group@pop_time@broker_name@ack
         {"ao":0,"bn":"broker-a","c":"g","pt":1795602262251,"q":3,"so":0,"t":"T"}
    bAck the same key with the offset -1
         {"ao":-1,"aol":[0,2],"bn":…}

============= =============================================================================
``so, pt, it`` begin offset, pop time (ms since the epoch), invisible time (ms)
``c, t, q``    group, topic (a retry topic by its own name), queue id
``bn``         broker name; brokers before 5.1 write none: it is their own
``d, n``       distances of the offsets from ``so``, and their number; brokers before 5.0.1 write no ``d``:
               the offsets are ``so`` to ``so + n - 1``
``rp``         how often the check point was stored again, because its messages could not be read
``sp``         whether its messages return without counting as consumed once more
``bm, ro``     acknowledged bits and revive offset: in memory only, 0 here
``reviveTime`` pt + it
``ao, aol``    acknowledged offset; those of a batch
============= =============================================================================

Source: RocketMQ ``store/pop/PopCheckPoint.java``, ``AckMsg.java``, ``BatchAckMsg.java``.
"""

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec

from cometmq.errors import FormatError
from cometmq.format.pop.names import POP_COUNT_MAX
from cometmq.message import Buffer

CHECK_POINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
CONSECUTIVE: Final = [tuple(range(count)) for count in range(POP_COUNT_MAX + 1)]
"""The distances of so many messages that follow each other from a read's beginning on."""
BATCH_OFFSET: Final = -1
"""Stands for the offset in an acknowledgement of several messages."""
_DIGITS_MAX: Final = 9
"""Longest number of times that is read, in digits."""
_SHOWN_LENGTH: Final = 200
"""Longest body in an error's text, in bytes; longer ones are cut."""


class PopKey(NamedTuple):
    """The identity of a check point, which its acknowledgements name."""

    topic: str
    group: str
    queue_id: int
    begin_offset: int
    pop_time_ms: int
    broker_name: str

    def ack_members(self) -> bytes:
        """Encode the members of an acknowledgement's body that name the check point, up to the body's end."""
        topic, group, queue_id, begin_offset, pop_time_ms, broker_name = self
        named = _AckMembers(broker_name, group, pop_time_ms, queue_id, begin_offset, topic)
        return _ENCODER.encode(named)[1:]


class CheckPoint(NamedTuple):
    """The messages that one pop has delivered from one queue.

    Attributes:
        begin_offset: the queue offset at which the read began.
        pop_time_ms: ms since the epoch.
        distances: those of the messages' offsets from ``begin_offset``.
        re_put_times: how often it was stored again, because messages could not be read.
        is_suspended: whether its messages return without counting as consumed once more.
    """

    topic: str
    group: str
    queue_id: int
    begin_offset: int
    pop_time_ms: int
    invisible_ms: int
    distances: tuple[int, ...]
    broker_name: str
    re_put_times: int = 0
    is_suspended: bool = False

    @property
    def revive_time_ms(self) -> int:
        """When its messages are visible again, ms since the epoch."""
        return self.pop_time_ms + self.invisible_ms

    @property
    def offsets(self) -> tuple[int, ...]:
        """The queue offsets of its messages."""
        begin, distances = self.begin_offset, self.distances
        if distances == CONSECUTIVE[min(len(distances), POP_COUNT_MAX)]:  # nearly always
            return tuple(range(begin, begin + len(distances)))
        return tuple([begin + distance for distance in distances])

    @property
    def key(self) -> PopKey:
        """Its identity."""
        topic, group, queue_id, begin_offset, pop_time_ms, _, _, broker_name, *_ = self
        named = topic, group, queue_id, begin_offset, pop_time_ms, broker_name
        return tuple.__new__(PopKey, named)  # in half the time of PopKey(…)

    def encode(self) -> bytes:
        """Encode the body, as RocketMQ 5.5 does byte for byte."""
        return _ENCODER.encode(
            _CheckPointOut(
                0,
                self.broker_name,
                self.group,
                self.distances,
                self.invisible_ms,
                len(self.distances),
                self.pop_time_ms,
                self.queue_id,
                self.revive_time_ms,
                0,
                str(self.re_put_times) if self.re_put_times else msgspec.UNSET,
                self.begin_offset,
                self.is_suspended,
                self.topic,
            )
        )


class PopAck(NamedTuple):
    """An acknowledgement of messages of one check point.

    Attributes:
        begin_offset: of the check point, as are the topic, group, queue id, pop time and broker name.
        offsets: queue offsets of the messages.
    """

    topic: str
    group: str
    queue_id: int
    begin_offset: int
    pop_time_ms: int
    broker_name: str
    offsets: tuple[int, ...]

    @property
    def key(self) -> PopKey:
        """The identity of its check point."""
        return PopKey(*self[:-1])


def unique_key_formats(topic: str, group: str, broker_name: str, tag: str) -> tuple[str, str]:
    """Return what is before and behind the offset in the unique key of a message, as formats.

    The first is one of the queue id, the second of the pop time.

    Args:
        tag: ``CHECK_POINT_TAG`` or ``ACK_TAG``.
    """
    topic, group, broker_name = (name.replace("%", "%%") for name in (topic, group, broker_name))
    return f"{topic}@%d@", f"@{group}@%d@{broker_name}@{tag}"


def encode_ack(offsets: Sequence[int], members: bytes) -> tuple[str, int, bytes]:
    """Return the tag of an acknowledgement, the offset in its unique key, and its body.

    The body is encoded as RocketMQ 5.5 does byte for byte.

    Args:
        offsets: queue offsets of the messages.
        members: those of the body that name the check point: see ``PopKey.ack_members``.
    """
    if len(offsets) == 1:
        return ACK_TAG, offsets[0], b'{"ao":%d,%b' % (offsets[0], members)
    body = b'{"ao":%d,"aol":%b,%b' % (BATCH_OFFSET, _ENCODER.encode(offsets), members)
    return BATCH_ACK_TAG, BATCH_OFFSET, body


def decode_check_point(body: Buffer, own_broker_name: str = "") -> CheckPoint:
    """Decode the body of a check point.

    Args:
        own_broker_name: stands for the name that old brokers have not written.

    Raises:
        FormatError: it is no check point, or has more than POP_COUNT_MAX messages.
    """
    found = _decode(body, _CheckPointBody)
    distances = found.d if found.d is not None else tuple(range(min(found.n, POP_COUNT_MAX + 1)))
    if len(distances) > POP_COUNT_MAX:
        raise FormatError(
            f"a check point of more than {POP_COUNT_MAX} messages: {bytes(body[:_SHOWN_LENGTH])!r}"
        )
    again = found.rp or ""
    return CheckPoint(
        found.t,
        found.c,
        found.q,
        found.so,
        found.pt,
        found.it,
        distances,
        found.bn or own_broker_name,
        int(again) if again.isdecimal() and len(again) <= _DIGITS_MAX else 0,
        found.sp,
    )


def decode_ack(body: Buffer, own_broker_name: str = "") -> PopAck:
    """Decode the body of an acknowledgement, of one message or several.

    Args:
        own_broker_name: stands for the name that old brokers have not written.

    Raises:
        FormatError: it is no acknowledgement.
    """
    found = _decode(body, _AckBody)
    offsets = found.aol if found.aol is not None else (found.ao,)
    broker_name = found.bn or own_broker_name
    return PopAck(found.t, found.c, found.q, found.so, found.pt, broker_name, offsets)


_Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Time = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""Ms since the epoch: with an invisible time added it still is a number that JSON can hold."""


class _CheckPointBody(msgspec.Struct):
    t: str
    c: str
    q: _Int
    so: _Long
    pt: _Time
    it: _Long
    n: _Int = 0
    d: tuple[_Int, ...] | None = None
    bn: str | None = None
    rp: str | None = None
    sp: bool = False


class _AckBody(msgspec.Struct):
    t: str
    c: str
    q: _Int
    so: _Long
    pt: _Long
    ao: _Long = BATCH_OFFSET
    aol: tuple[_Long, ...] | None = None
    bn: str | None = None


class _CheckPointOut(msgspec.Struct, rename={"revive_time": "reviveTime"}):
    """A check point's body as RocketMQ writes it: its members in this order."""

    bm: int
    bn: str
    c: str
    d: tuple[int, ...]
    it: int
    n: int
    pt: int
    q: int
    revive_time: int
    ro: int
    rp: str | msgspec.UnsetType
    so: int
    sp: bool
    t: str


class _AckMembers(msgspec.Struct):
    """An acknowledgement's body as RocketMQ writes it, behind the offsets: its members in this order."""

    bn: str
    c: str
    pt: int
    q: int
    so: int
    t: str


_ENCODER: Final = msgspec.json.Encoder()

BodyT = TypeVar("BodyT", _CheckPointBody, _AckBody)

_LONG_NAMES: Final = {
    "ackOffset": "ao",
    "ackOffsetList": "aol",
    "startOffset": "so",
    "consumerGroup": "c",
    "topic": "t",
    "queueId": "q",
    "popTime": "pt",
    "brokerName": "bn",
    "invisibleTime": "it",
    "num": "n",
    "queueOffsetDiff": "d",
    "rePutTimes": "rp",
    "suspend": "sp",
}
"""The names of members that RocketMQ reads besides those that it writes."""


def _decode(body: Buffer, kind: type[BodyT]) -> BodyT:
    try:
        members = msgspec.json.decode(body, type=dict[str, object])
        named = {_LONG_NAMES.get(name, name): value for name, value in members.items() if value is not None}
        return msgspec.convert(named, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(
            f"{bytes(body[:_SHOWN_LENGTH])!r} is no check point or acknowledgement: {error}"
        ) from None
