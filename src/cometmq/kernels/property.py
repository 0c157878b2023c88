"""The properties string inside kernels: the pieces that ``format.properties`` splits it into."""

from typing import Any, Final

from cometmq.format import properties
from cometmq.kernels.jit import Bytes, byte_at, inlined, int64

_NAME_END: Final = ord(properties.NAME_END)
_VALUE_END: Final = ord(properties.VALUE_END)
_CODED_MAX: Final = 8


def _code(name: str) -> int:
    """Give the number by which kernels know a name of at most 8 characters."""
    assert len(name) <= _CODED_MAX and name.isascii()
    return int.from_bytes(f"\1{name}".encode()[-_CODED_MAX:], "big")


_TAGS: Final = _code(properties.TAGS)
_KEYS: Final = _code(properties.KEYS)
_UNIQ_KEY: Final = _code(properties.UNIQ_KEY)
_DELAY: Final = _code(properties.DELAY)


@inlined
def next_property(buffer: Bytes, position: int, end: int) -> Any:
    """Read the piece at ``position``: its name's code, where the name ends, where the value ends.

    The piece counts only if ``position < name_end < value_end - 1``. A name of more than 8 bytes has
    code -1.
    """
    name_end = position
    code = int64(1)  # so that names that begin with zeros differ in code; shifted out by the eighth byte
    byte = 0
    while name_end < end:
        byte = byte_at(buffer, name_end)
        if byte <= _VALUE_END and byte >= _NAME_END:
            break
        code = code << 8 | byte
        name_end += 1
    value_end = name_end
    while value_end < end and byte_at(buffer, value_end) != _VALUE_END:
        value_end += 1
    return code if name_end - position <= _CODED_MAX else int64(-1), name_end, value_end


@inlined
def known_properties(buffer: Bytes, position: int, end: int) -> Any:
    """Find where the values of UNIQ_KEY, TAGS, KEYS and DELAY begin and end; a missing one is empty."""
    unique_key = unique_key_end = tags = tags_end = keys = keys_end = delay = delay_end = position
    while position < end:
        code, name_end, value_end = next_property(buffer, position, end)
        if position < name_end < value_end - 1:
            value = name_end + 1
            if code == _UNIQ_KEY:
                unique_key, unique_key_end = value, value_end
            elif code == _TAGS:
                tags, tags_end = value, value_end
            elif code == _KEYS:
                keys, keys_end = value, value_end
            elif code == _DELAY:
                delay, delay_end = value, value_end
        position = value_end + 1
    return unique_key, unique_key_end, tags, tags_end, keys, keys_end, delay, delay_end
