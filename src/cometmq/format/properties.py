r"""The properties string of a record: ``name \x01 value \x02`` repeated, in UTF-8.

Decoding is as lenient as RocketMQ's own parser:

* pieces end at ``\x02``; the last one may lack it,
* the first ``\x01`` of a piece ends its name; a value may hold further ones,
* a piece without ``\x01``, with an empty name or with an empty value is ignored,
* of several pieces with the same name the last one counts,
* bytes that are not UTF-8 decode to U+FFFD, so that every value can be printed, hashed and sent on.
  Code that must not lose them keeps the bytes, as ``record.Record.properties`` does.

Source: RocketMQ: MessageDecoder.java (messageProperties2String, string2messageProperties), MessageConst.java.
"""

from collections.abc import Mapping
from typing import Final

from cometmq.errors import MessageIllegal
from cometmq.message import Buffer

MAX_LENGTH: Final = 32767
"""Longest properties string in bytes: the record holds its length in a signed 16-bit number."""

NAME_END: Final = "\x01"
VALUE_END: Final = "\x02"
KEY_SEPARATOR: Final = " "
_PIECE_END: Final = VALUE_END.encode()

TAGS: Final = "TAGS"
KEYS: Final = "KEYS"
UNIQ_KEY: Final = "UNIQ_KEY"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
TRANSACTION_PREPARED: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
BUYER_ID: Final = "BUYER_ID"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
TRANSFER_FLAG: Final = "TRANSFER_FLAG"
CORRECTION_FLAG: Final = "CORRECTION_FLAG"
MQ2_FLAG: Final = "MQ2_FLAG"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
INNER_NUM: Final = "INNER_NUM"
INNER_BASE: Final = "INNER_BASE"
DUP_INFO: Final = "DUP_INFO"
CHECK_IMMUNITY_TIME: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_ID: Final = "__transactionId__"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
INSTANCE_ID: Final = "INSTANCE_ID"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
ARRIVE_TIME: Final = "ARRIVE_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
CLUSTER: Final = "CLUSTER"
MSG_TYPE: Final = "MSG_TYPE"
POP_CK: Final = "POP_CK"
POP_CK_OFFSET: Final = "POP_CK_OFFSET"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
ORIGIN_GROUP: Final = "ORIGIN_GROUP"
SHARDING_KEY: Final = "__SHARDINGKEY"
REDIRECT: Final = "REDIRECT"
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_ASKS: Final = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
"""The properties that ask for a delivery time; the first one that a message has counts."""
CRC32: Final = "__CRC32#"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"

IDEMPOTENCE_KEY: Final = "IDEMPOTENCE_KEY"
"""CometMQ's own: the same in each copy of a message that its producer sends again."""

TRANSIENT_PREFIX: Final = "__RMQ.TRANSIENT."
"""Prefix of properties that parts of a broker exchange and that are never stored."""

RESERVED: Final[frozenset[str]] = frozenset(
    {
        TAGS,
        KEYS,
        UNIQ_KEY,
        WAIT,
        DELAY,
        RETRY_TOPIC,
        REAL_TOPIC,
        REAL_QUEUE_ID,
        TRANSACTION_PREPARED,
        PRODUCER_GROUP,
        MIN_OFFSET,
        MAX_OFFSET,
        BUYER_ID,
        ORIGIN_MESSAGE_ID,
        TRANSFER_FLAG,
        CORRECTION_FLAG,
        MQ2_FLAG,
        RECONSUME_TIME,
        MSG_REGION,
        TRACE_ON,
        EXTEND_UNIQ_INFO,
        MAX_RECONSUME_TIMES,
        CONSUME_START_TIME,
        DUP_INFO,
        TRANSACTION_PREPARED_QUEUE_OFFSET,
        INSTANCE_ID,
        CORRELATION_ID,
        REPLY_TO_CLIENT,
        TTL,
        PUSH_REPLY_TIME,
        CLUSTER,
        MSG_TYPE,
        POP_CK,
        POP_CK_OFFSET,
        FIRST_POP_TIME,
        INNER_MULTI_QUEUE_OFFSET,
        TIMER_DELAY_SEC,
        TIMER_DELIVER_MS,
        BORN_HOST,
        BORN_TIMESTAMP,
        TIMER_OUT_MS,
        TIMER_ENQUEUE_MS,
        TIMER_DEQUEUE_MS,
        TIMER_ROLL_TIMES,
        TIMER_DEL_UNIQKEY,
        TIMER_DELAY_LEVEL,
        TIMER_DELAY_MS,
        CRC32,
        DLQ_ORIGIN_TOPIC,
        DLQ_ORIGIN_MESSAGE_ID,
    }
)
"""Names that an application must not use for its own properties, the same as in RocketMQ's Java client.

The other names above have a meaning too, but an application may set some of them, such as
CHECK_IMMUNITY_TIME.
"""


def encode(properties: Mapping[str, str]) -> bytes:
    r"""Encode properties to a properties string, in the order of the mapping.

    Half a surrogate pair becomes ``?``, as in Java. An empty name or value is written, but no reader
    returns it.

    Raises:
        MessageIllegal: a name holds ``\x01`` or ``\x02``, a value holds ``\x02``, or the string is
            longer than ``MAX_LENGTH``.
    """
    return encode_text(text_of(properties))


def text_of(properties: Mapping[str, str]) -> str:
    """Join properties to a properties string, as text. Raises MessageIllegal for a separator in one."""
    text = "".join([f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items()])
    if text.count(VALUE_END) != len(properties) or NAME_END in "".join(properties):
        raise MessageIllegal(f"a property holds a separator (\\x01 or \\x02): {text[:200]!r}")
    return text


def encode_text(text: str) -> bytes:
    """Encode a properties string to UTF-8. Raises MessageIllegal if it is too long."""
    return checked(text.encode("utf-8", "replace"))


def checked(data: bytes) -> bytes:
    """Return an encoded properties string. Raises MessageIllegal if it is too long."""
    if len(data) > MAX_LENGTH:
        raise MessageIllegal(
            f"properties take {len(data)} bytes, the limit is {MAX_LENGTH}: send fewer or shorter ones"
        )
    return data


def decode(data: Buffer) -> dict[str, str]:
    """Decode a properties string to a dict by name; ignores what the list above says, and never fails."""
    return parse(str(data, "utf-8", "replace"))


def parse(text: str) -> dict[str, str]:
    """Parse a properties string that is text already: see ``decode``."""
    found = {}
    for piece in text.split(VALUE_END):
        name, _, value = piece.partition(NAME_END)
        if name and value:
            found[name] = value
    return found


def value_of(data: bytes, name: str) -> str | None:
    """Return the value of one property of a properties string, as ``decode`` finds it; None without it."""
    marked = f"{name}{NAME_END}".encode()
    at = data.rfind(_PIECE_END + marked) + len(_PIECE_END)
    if not at and not data.startswith(marked):
        return None
    begin = at + len(marked)
    end = data.find(_PIECE_END, begin)
    value = data[begin:] if end < 0 else data[begin:end]
    return (
        str(value, "utf-8", "replace") if value else decode(data).get(name)
    )  # one before it may have a value


def split_keys(keys: str) -> list[str]:
    """Return the keys of a KEYS property: its parts between single blanks, without the empty ones."""
    return [key for key in keys.split(KEY_SEPARATOR) if key]
