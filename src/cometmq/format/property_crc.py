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

It is a property like any other: PROPLEN and TOTALSIZE, under the checksum themselves, count it. It is
written with ``enabledAppendPropCRC``, and looked at with ``forceVerifyPropCRC`` alone: a record without it
then counts as damaged. What a producer sent under its name is removed; a last property that lacks its
``\x02`` gets it.

RocketMQ does neither for the members of a batch: of two properties of the name the last counts, but without
the ``\x02`` it finds none, and later discards the message. Here both are done for every message.

Source: RocketMQ: CommitLog.java (CRC32_RESERVED_LEN, doAppend, checkMessageAndReturnSize),
MessageExtEncoder.java, MessageDecoder.java (createCrc32), MessageUtils.java (deleteProperty).
"""

import re
from typing import Final
from zlib import crc32

from cometmq.format.properties import CRC32, NAME_END, VALUE_END
from cometmq.message import Buffer

NAME: Final = f"{CRC32}{NAME_END}".encode()
"""With which the property begins."""
DIGITS: Final = 10
SIZE: Final = len(NAME) + DIGITS + len(VALUE_END)
MASK: Final = 0x7FFFFFFF
"""The highest bit of a checksum is left out."""

_END: Final = VALUE_END.encode()
_SENT: Final = re.compile(rb"(^|(?<=\x02))" + re.escape(NAME) + rb"[^\x02]*(\x02|$)", re.DOTALL)
assert SIZE == 20


def reserve(properties: bytes) -> bytes:
    """Give a properties string with room for the property CRC, which ``seal`` fills."""
    if NAME in properties:
        properties = _SENT.sub(b"", properties)
    if properties and not properties.endswith(_END):
        properties += _END
    return properties + bytes(SIZE)


def seal(record: bytes) -> bytes:
    """Give a record, whose properties have room for it, with its property CRC."""
    covered = record[:-SIZE]
    return covered + _property(crc32(covered))


def is_sealed(record: Buffer) -> bool:
    """Tell whether a record ends in the property CRC that its other bytes ask for."""
    end = len(record) - SIZE
    return end >= 0 and record[end:] == _property(crc32(record[:end]))


def is_without(properties: bytes) -> bool:
    """Tell whether a properties string is whole and never had a property CRC.

    A flipped bit cannot take away its name and its digits both, and a torn string does not end as others do.
    """
    name, digits = properties[-SIZE : len(NAME) - SIZE], properties[len(NAME) - SIZE : -len(_END)]
    is_there = name == NAME or (len(digits) == DIGITS and digits.isdigit())
    return not properties or (properties.endswith(_END) and not is_there)


def _property(crc: int) -> bytes:
    return NAME + (b"%010d" % (crc & MASK))[::-1] + _END
