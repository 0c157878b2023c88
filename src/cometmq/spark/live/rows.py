"""From rows to messages: the columns that the sink takes.

=============  ==================  =======================================================================
column         type                meaning
=============  ==================  =======================================================================
topic          string              where to; the option ``topic`` where there is no such column, or null
body           binary or string    the payload, which RocketMQ does not let be empty; needed
tags           string              one tag
keys           array<string>       business keys
properties     map<string,string>  further properties; RocketMQ's own, as reads give them, are left out
queue_id       int                 which queue of the topic
sharding_key   string              … or the key whose messages stay in order in one queue
delay          int                 level of the delay after which consumers get it
flag           int                 the application's own number
=============  ==================  =======================================================================
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructType

from cometmq.errors import SettingsError
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
    "flag": ("int",),
}

DELIVER_TIME: Final = "deliver_time"
"""What RocketMQ's property ``TIMER_DELIVER_MS`` says. CometMQ's brokers refuse it; Java's before 5.0, and all
of them in batches, pass over it without a word."""


class Row(NamedTuple):
    """A message to be sent; ``queue_id`` is None where any queue will do."""

    message: Message
    queue_id: int | None


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise SettingsError if a frame's columns are not those of the sink, or do not say enough."""
    for field in schema.fields:
        if field.name == DELIVER_TIME:
            raise SettingsError(
                f"column {DELIVER_TIME}: not all brokers keep it, and some say nothing, use delay, a level"
            )
        right = TYPES.get(field.name)
        if right is None:
            raise SettingsError(
                f"column {field.name}: the sink does not take it, select some of {', '.join(TYPES)}"
            )
        if field.dataType.simpleString() not in right:
            raise SettingsError(
                f"column {field.name}: cast it from {field.dataType.simpleString()} to {' or '.join(right)}"
            )
    names = set(schema.fieldNames())
    if "body" not in names:
        raise SettingsError("there is no column body: select it, as body")
    if "topic" not in names and topic is None:
        raise SettingsError("there is no column topic: select it, or give the option topic")
    if names >= {"queue_id", "sharding_key"}:
        raise SettingsError("columns queue_id and sharding_key: select one of them, each names a queue")


def rows_of(batch: pa.RecordBatch, topic: str | None, keys: Iterable[str]) -> list[Row]:
    """Give the messages of a batch, each with the next one of the idempotence keys."""
    return [_row(row, topic, key) for row, key in zip(batch.to_pylist(), keys, strict=False)]


def _row(row: Mapping[str, Any], topic: str | None, key: str) -> Row:
    body = row["body"]
    properties = {
        name: value
        for name, value in row.get("properties") or ()
        if name not in RESERVED and not name.startswith(TRANSIENT_PREFIX)
    }
    message = Message(
        topic=row.get("topic") or topic or "",
        body=body.encode() if isinstance(body, str) else body or b"",
        tags=row.get("tags"),
        keys=tuple(row.get("keys") or ()),
        properties=properties | {IDEMPOTENCE_KEY: key},
        flag=row.get("flag") or 0,
        delay_level=row.get("delay") or 0,
        sharding_key=row.get("sharding_key"),
    )
    return Row(message, row.get("queue_id"))
