"""The forms of a message in a transaction: half, committed, put back, checked, given up; and the op message.

A half message waits in the half topic with the topic that it is for among its properties, and its transaction
bits cleared. The committed message has all other properties, and the CommitLog offset of its half message.

An op message names half messages that are ended: see ``format/transaction.py``.

(RocketMQ: TransactionalMessageBridge.java, EndTransactionProcessor.java.)
"""

from collections.abc import Mapping, Sequence

from cometmq.cluster.system_names import CHECK_MAX_TIME_TOPIC
from cometmq.cluster.transaction import HalfMessage
from cometmq.errors import MessageIllegal
from cometmq.format import properties, record
from cometmq.format.properties import (
    CHECK_IMMUNITY_TIME,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQ_KEY,
    WAIT,
)
from cometmq.format.record import Record
from cometmq.format.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, with_transaction_type
from cometmq.format.transaction import (
    ENDED_TAG,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    QUEUE_ID,
    encode_offset,
    encode_offsets,
    ended_offsets,
)
from cometmq.store.append import NewMessage, once_more


def half(message: NewMessage) -> NewMessage:
    """Return the half message of a transactional message. Raises MessageIllegal."""
    named = properties.decode(message.properties)
    if not named.get(PRODUCER_GROUP):
        raise MessageIllegal(
            f"a transactional message without property {PRODUCER_GROUP}: nobody could end its transaction; "
            "give the producer group"
        )
    if unique_key := named.get(UNIQ_KEY):
        named[TRANSACTION_ID] = unique_key
    named |= {REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(message.queue_id)}
    return message._replace(
        topic=HALF_TOPIC,
        queue_id=QUEUE_ID,
        properties=properties.encode(named),
        sys_flag=with_transaction_type(message.sys_flag, TRANSACTION_NOT),
    )


def committed(waiting: Record) -> NewMessage:
    """Return the message that a half message becomes when it is committed. Raises MessageIllegal."""
    topic, queue_id, named = _real(waiting)
    del named[REAL_TOPIC], named[REAL_QUEUE_ID]
    return once_more(waiting)._replace(
        topic=topic,
        queue_id=queue_id,
        properties=properties.encode(named),
        sys_flag=with_transaction_type(waiting.sys_flag, TRANSACTION_COMMIT),
        prepared_transaction_offset=waiting.physical_offset,
    )


def put_back(waiting: Record, *, is_asked: bool) -> NewMessage:
    """Return the copy of a half message to append to the half queue.

    Args:
        is_asked: whether its producer is asked for the state of the transaction: such requests are counted.
    """
    named = properties.decode(waiting.properties)
    if is_asked:
        named[TRANSACTION_CHECK_TIMES] = str(_number(named, TRANSACTION_CHECK_TIMES) + 1)
    else:
        named.setdefault(TRANSACTION_PREPARED_QUEUE_OFFSET, str(waiting.queue_offset))
    return once_more(waiting)._replace(properties=properties.encode(named))


def check_record(back: NewMessage, waiting: Record, physical_offset: int, queue_offset: int) -> bytes:
    """Encode the record for a check request: the half message that was put back, in its own topic and queue.

    Args:
        waiting: the half message before it was put back.
        physical_offset: of ``back``, as is ``queue_offset``.

    Raises MessageIllegal.
    """
    topic, queue_id, _ = _real(waiting)
    return record.encode(
        waiting._replace(
            topic=topic,
            queue_id=queue_id,
            properties=back.properties,
            physical_offset=physical_offset,
            queue_offset=queue_offset,
            magic=None,
        )
    )


def given_up(waiting: Record) -> NewMessage:
    """Return the message for operators that stands for a half message that is given up."""
    return once_more(waiting)._replace(topic=CHECK_MAX_TIME_TOPIC)


def resumed(waiting: Record) -> NewMessage:
    """Return the half message that one of the topic for operators becomes again; its asks count anew."""
    named = properties.decode(waiting.properties)
    named[TRANSACTION_CHECK_TIMES] = "0"
    return once_more(waiting)._replace(
        topic=HALF_TOPIC, queue_id=QUEUE_ID, properties=properties.encode(named)
    )


def op_messages(
    half_offsets: Sequence[int], time: int, store_host: bytes, size_max: int
) -> list[tuple[NewMessage, list[int]]]:
    """Build the op messages that end half messages, each with the half offsets that it names.

    Args:
        time: now, ms since the epoch.
        store_host: the broker's address as records hold it.
        size_max: bytes from which a body is full.
    """
    parts: list[list[int]] = []
    size = size_max
    for half_offset in half_offsets:
        if size >= size_max:
            parts.append([])
            size = 0
        parts[-1].append(half_offset)
        size += len(encode_offset(half_offset))
    named = properties.encode({WAIT: "true", TAGS: ENDED_TAG})
    return [
        (
            NewMessage(
                HALF_OP_TOPIC,
                QUEUE_ID,
                encode_offsets(part),
                named,
                time,
                born_host=store_host,
                store_host=store_host,
                tags=ENDED_TAG,
            ),
            part,
        )
        for part in parts
    ]


def ended_by(op: Record) -> list[int]:
    """Return the half offsets that an op message names."""
    return ended_offsets(properties.decode(op.properties).get(TAGS), op.body)


def facts(waiting: Record) -> HalfMessage:
    """Return the facts on which a round decides about a half message."""
    named = properties.decode(waiting.properties)
    immunity_ms = _number(named, CHECK_IMMUNITY_TIME) * 1000 if CHECK_IMMUNITY_TIME in named else None
    return HalfMessage(
        waiting.born_time, waiting.store_time, _number(named, TRANSACTION_CHECK_TIMES), immunity_ms
    )


def _number(named: Mapping[str, str], name: str) -> int:
    """Return the number in a property; 0 if it is no number, as in RocketMQ."""
    value = named.get(name, "")
    return int(value) if value.isdecimal() else 0


def _real(waiting: Record) -> tuple[str, int, dict[str, str]]:
    """Return the topic and queue id that a half message is for, and its properties. Raises MessageIllegal."""
    named = properties.decode(waiting.properties)
    topic, queue_id = named.get(REAL_TOPIC), named.get(REAL_QUEUE_ID, "")
    if topic is None or not queue_id.isdecimal():
        raise MessageIllegal(
            f"the half message at {waiting.physical_offset} of the CommitLog does not say for which queue"
        )
    return topic, int(queue_id), named
