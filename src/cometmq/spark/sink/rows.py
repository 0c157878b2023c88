"""Convert rows to messages, by the columns of the sink.

=============  ==================  =======================================================================
column         type                meaning
=============  ==================  =======================================================================
topic          string              destination; by default, or where null, the option ``topic``
body           binary or string    the payload, which must not be empty; needed
tags           string              one tag
keys           array<string>       business keys
properties     map<string,string>  further properties; RocketMQ's own, which reads return, are left out,
                                   and so are those that are null
queue_id       int                 which queue of the topic
sharding_key   string              … or the key whose messages stay in order in one queue
delay          int                 level of the delay after which it is delivered, …
delay_ms       bigint              … or so many ms later, …
deliver_time   timestamp           … or at this time, or ms since the epoch (bigint)
flag           int                 the application's own number
=============  ==================  =======================================================================

Their names may be in any case, as in all of Spark.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructType

from cometmq.client.producer import outgoing
from cometmq.errors import CometMQError, IllegalName, MessageIllegal, SettingsError
from cometmq.format.properties import IDEMPOTENCE_KEY, RESERVED, TRANSIENT_PREFIX
from cometmq.message import Message

TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "tags": ("string",),
    "keys": ("array<string>",),
    "properties": ("map<string,string>",),
    "queue_id": ("int",),
    "sharding_key": ("string",),
    "delay": ("int",),
    "delay_ms": ("bigint", "int"),
    "deliver_time": ("timestamp", "bigint"),
    "flag": ("int",),
}

KeyOf = Callable[[Mapping[str, Any], tuple[Any, ...]], str]
"""Returns the idempotence key of a row by its columns and stored content."""

OnBad = Callable[[Mapping[str, Any], CometMQError], None]
"""Called with a row that is no message, and the error."""

UNIQUE_ID: Final = "0" * 32
"""Placeholder for the producer's unique id where a message is only checked."""


class MessageRow(NamedTuple):
    """A message to send; ``queue_id`` is None for any queue."""

    message: Message
    queue_id: int | None


def check_columns(schema: StructType, topic: str | None, key_column: str | None = None) -> None:
    """Raise SettingsError if columns of a DataFrame are unknown, missing or of another type.

    Args:
        topic: of rows without one.
        key_column: the column that the option ``idempotenceKey`` names, in small letters.
    """
    in_order = [name.lower() for name in schema.fieldNames()]
    names = set(in_order)
    types = TYPES if key_column is None else {**TYPES, key_column: ("string",)}
    if key_column is not None and key_column not in names:
        raise SettingsError(f"option idempotenceKey {key_column}: there is no such column, select it")
    if twice := [name for name in names if in_order.count(name) > 1]:
        raise SettingsError(f"column {twice[0]} is there more than once, in any case: select it once")
    for field in schema.fields:
        right = types.get(field.name.lower())
        if right is None:
            raise SettingsError(
                f"column {field.name}: the sink does not take it, select some of {', '.join(TYPES)}"
            )
        if field.dataType.simpleString() not in right:
            raise SettingsError(
                f"column {field.name}: cast it from {field.dataType.simpleString()} to {' or '.join(right)}"
            )
    if "body" not in names:
        raise SettingsError("there is no column body: select it, as body")
    if "topic" not in names and topic is None:
        raise SettingsError("there is no column topic: select it, or give the option topic")
    if names >= {"queue_id", "sharding_key"}:
        raise SettingsError("columns queue_id and sharding_key: select one of them, each names a queue")


def rows_of(
    batch: pa.RecordBatch, topic: str | None, key_of: KeyOf, on_bad: OnBad | None = None
) -> list[MessageRow]:
    """Build the messages of a batch, whose columns are named in any case.

    Args:
        topic: of rows without one.
        key_of: returns the idempotence key of each.
        on_bad: called for each row that is no message, which is left out. Without it rows are not checked
            here, but by the producer.
    """
    batch = batch.rename_columns([name.lower() for name in batch.schema.names])
    if on_bad is None:
        return [_row(columns, topic, key_of) for columns in batch.to_pylist()]
    rows = []
    for columns in batch.to_pylist():
        try:
            row = _row(columns, topic, key_of)
            outgoing.single(row.message, UNIQUE_ID, compress_over=None)
        except (MessageIllegal, IllegalName) as error:
            on_bad(columns, error)
        else:
            rows.append(row)
    return rows


def _row(row: Mapping[str, Any], topic: str | None, key_of: KeyOf) -> MessageRow:
    body, queue_id = row["body"], row.get("queue_id")
    properties = {
        name: value
        for name, value in row.get("properties") or ()
        if value is not None and name not in RESERVED and not name.startswith(TRANSIENT_PREFIX)
    }
    message = Message(
        topic=row.get("topic") or topic or "",
        body=body.encode() if isinstance(body, str) else body or b"",
        tags=row.get("tags"),
        keys=tuple(row.get("keys") or ()),
        properties=properties,
        flag=row.get("flag") or 0,
        delay_level=row.get("delay") or 0,
        sharding_key=row.get("sharding_key"),
        delay_ms=row.get("delay_ms") or 0,
        deliver_time=_ms(row.get("deliver_time")),
    )
    properties[IDEMPOTENCE_KEY] = key_of(row, (queue_id, *_content(message)))
    return MessageRow(message, queue_id)


def _content(message: Message) -> tuple[Any, ...]:
    """Return the stored content of a message, always in the same order."""
    return (
        message.topic,
        message.body,
        message.tags,
        message.keys,
        sorted(message.properties.items()),
        message.flag,
        message.delay_level,
        message.sharding_key,
        message.delay_ms,
        message.deliver_time,
    )


def _ms(time: datetime | int | None) -> int:
    """Return a time in ms since the epoch, 0 for none."""
    if isinstance(time, datetime):
        return round(time.timestamp() * 1000)
    return time or 0
