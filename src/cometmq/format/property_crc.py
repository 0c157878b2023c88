r"""The property CRC: the last 20 bytes of a record, a property that holds the checksum of all before it.

======  ====  ============  ==============================================================
offset  size  field         meaning
======  ====  ============  ==============================================================
0       8     name          ``__CRC32#``
8       1     name's end    ``\x01``
9       10    value         CRC-32, 31 bits, of the record's bytes before this property: in
                            decimal, **the last digit first**, filled up with ``0``
19      1     value's end   ``\x02``
======  ====  ============  ==============================================================

It is a property like any other: PROPLEN and TOTALSIZE, which the checksum covers, count it. It is
written with ``enabledAppendPropCRC`` and verified only with ``forceVerifyPropCRC``: a record without it
then counts as damaged. A property of this name that a producer sent is removed; a last property that lacks
its ``\x02`` gets one.

RocketMQ does neither for the members of a batch: of two properties of the name the last one counts, but
without the ``\x02`` it finds none, and later discards the message. CometMQ does both for every message.

Source: RocketMQ: CommitLog.java (CRC32_RESERVED_LEN, doAppend, checkMessageAndReturnSize),
MessageExtEncoder.java, MessageDecoder.java (createCrc32), MessageUtils.java (deleteProperty).
"""

import re
from typing import Final
from zlib import crc32

from cometmq.format.properties import CRC32, NAME_END, VALUE_END
from cometmq.message import Buffer

NAME: Final = f"{CRC32}{NAME_END}".encode()
"""The beginning of the property: its name and the name's end."""
DIGITS: Final = 10
SIZE: Final = len(NAME) + DIGITS + len(VALUE_END)
MASK: Final = 0x7FFFFFFF
"""Clears the highest bit of a checksum."""

_END: Final = VALUE_END.encode()
_SENT: Final = re.compile(rb"(^|(?<=\x02))" + re.escape(NAME) + rb"[^\x02]*(\x02|$)", re.DOTALL)
assert SIZE == 20


def reserve(properties: bytes) -> bytes:
    """Return a properties string with 20 zero bytes appended for the property CRC, which ``seal`` fills."""
    if NAME in properties:
        properties = _SENT.sub(b"", properties)
    if properties and not properties.endswith(_END):
        properties += _END
    return properties + bytes(SIZE)


def seal(record: bytes) -> bytes:
    """Return a record with its property CRC filled in; its properties must end in room for it."""
    covered = record[:-SIZE]
    return covered + _property(crc32(covered))


def is_sealed(record: Buffer) -> bool:
    """Check whether a record ends in the property CRC of its other bytes."""
    end = len(record) - SIZE
    return end >= 0 and record[end:] == _property(crc32(record[:end]))


def is_complete_without_crc(properties: bytes) -> bool:
    r"""Check whether a properties string is complete and was written without a property CRC.

    One flipped bit cannot remove both its name and its digits, and a torn string lacks the last ``\x02``.
    """
    name, digits = properties[-SIZE : len(NAME) - SIZE], properties[len(NAME) - SIZE : -len(_END)]
    is_there = name == NAME or (len(digits) == DIGITS and digits.isdigit())
    return not properties or (properties.endswith(_END) and not is_there)


def _property(crc: int) -> bytes:
    return NAME + (b"%010d" % (crc & MASK))[::-1] + _END
