"""Rows of an index, and their records."""

from tests.kit.chosen_records import BEGIN

from cometmq.format.java.java_hash import index_key_hash
from cometmq.format.record import MAGIC_V1, Record, encode
from cometmq.kernels.queries.rows import (
    constants_of,
)
from cometmq.wire.template import NumbersTemplate

SLOTS, ENTRIES = 5, 200
HASH = index_key_hash("T", "k1")
BY_ID, BY_KEY = NumbersTemplate(None, ()), NumbersTemplate(None, ("a", "b"))
CONSTANTS = constants_of((BY_ID, ()), (BY_KEY, (7, 8)))


def record_of(
    number: int,
    position: int,
    *,
    host: int = 8,
    body: bytes = b"body",
    topic: str = "T",
    properties: bytes = b"KEYS\1k1\2",
    magic: int = MAGIC_V1,
) -> bytes:
    """Encode a record that has the topic and the key of ``by_key``."""
    record = Record(
        topic, body, properties, 0, number, BEGIN + position, 0, 0, 1, bytes(host), 2, bytes(host)
    )
    return encode(record._replace(magic=magic))
