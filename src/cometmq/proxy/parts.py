"""How many parts a request has, counted before it is decoded.

Two bytes can be an empty message, or an empty text in a list, and what stands for it in memory has a hundred.
So a long request may be decoded only if it has few enough. Short ones need no look at them.

Source: protobuf's wire format: each field is a tag, which has its number and its kind, and a value.
"""

from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

UNCOUNTED_BYTES_MAX: Final = 64 * 1024
"""Longest request whose parts are not counted."""
PARTS_MAX: Final = 50_000
"""Most parts of a longer one: fields, also those of messages in it."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_SHIFT_MAX: Final = 56
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}


def has_too_many_parts(data: bytes, kind: Descriptor) -> bool:
    """Return whether a request of this kind has too many parts to be decoded.

    What is no request has as many as there are before that: whoever decodes it finds out.
    """
    if len(data) <= UNCOUNTED_BYTES_MAX:
        return False
    count = 0
    waiting = [(0, len(data), kind)]
    while waiting:
        at, end, kind = waiting.pop()
        nested = {
            number: field.message_type
            for number, field in kind.fields_by_number.items()
            if field.type == FieldDescriptor.TYPE_MESSAGE
        }
        while at < end:
            count += 1
            if count > PARTS_MAX:
                return True
            try:
                tag, at = _varint(data, at)
                size = _FIXED.get(tag & 7, 0)
                if tag & 7 == _LENGTH:
                    size, at = _varint(data, at)
                    if (inner := nested.get(tag >> 3)) is not None:
                        waiting.append((at, min(at + size, end), inner))
                elif tag & 7 == _VARINT:
                    _, at = _varint(data, at)
                elif not size:
                    return False
            except IndexError:
                return False
            at += size
    return False


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, and where it ends. Raises IndexError if the data ends before, or it is too long."""
    value = shift = 0
    while (byte := data[at]) > 127:
        if shift > _SHIFT_MAX:
            raise IndexError
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1
