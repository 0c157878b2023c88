"""Reading the properties of a send inside kernels: those that matter before all are stored unchanged."""

from collections.abc import Collection
from typing import Any, Final

from cometmq.format import properties
from cometmq.kernels.arrays import Bytes
from cometmq.kernels.compiling.buffers import byte_at
from cometmq.kernels.compiling.jit import inlined, int32, int64, uint32
from cometmq.kernels.sends.rows import RARE, RARE_IN_BATCHES
from cometmq.kernels.text.properties import next_property
from cometmq.kernels.text.utf8 import hash_text

_VALUE_END: Final = ord(properties.VALUE_END)
_CODED_MAX: Final = 8


def _code(name: str) -> int:
    return int.from_bytes(f"\1{name}".encode()[-_CODED_MAX:], "big")


def _codes(names: Collection[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the codes of names, and of longer ones the first 8 bytes."""
    short = {_code(name) for name in names if len(name) <= _CODED_MAX}
    longer = {int.from_bytes(name.encode()[:_CODED_MAX], "big") for name in names if len(name) > _CODED_MAX}
    return tuple(sorted(short)), tuple(sorted(longer))


_TAGS: Final = _code("TAGS")
_UNIQ_KEY: Final = _code("UNIQ_KEY")
_WAIT: Final = _code("WAIT")
_TRUE: Final = tuple(b"true")
_UNUSUAL, _UNUSUAL_LONG = _codes(RARE)
_UNUSUAL_OF_MEMBER, _UNUSUAL_LONG_OF_MEMBER = _codes(RARE_IN_BATCHES)


@inlined
def read_properties(texts: Bytes, begin: int, end: int, send: Any) -> bool:
    """Find unique key and tags, and store them in ``send``; return False if anything is unusual."""
    if end == begin or texts[end - 1] != _VALUE_END:
        return False
    key = key_end = tags = tags_end = begin
    position = begin
    while position < end:
        code, name_end, value_end = next_property(texts, position, end)
        if position < name_end < value_end - 1:
            if code == _UNIQ_KEY:
                key, key_end = name_end + 1, value_end
            elif code == _TAGS:
                tags, tags_end = name_end + 1, value_end
            elif code == -1:
                if _is_one_of(_long_code(texts, position), _UNUSUAL_LONG):
                    return False
            elif code == _WAIT:
                if not _is_true(texts, name_end + 1, value_end):
                    return (
                        False  # the sender does not wait for the flush: as a command it is answered at once
                    )
            elif _is_one_of(code, _UNUSUAL):
                return False
        position = value_end + 1
    for i in range(key, key_end):
        byte = texts[i]
        if not (48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122):
            return False
    send.key_at, send.key_length = key, key_end - key
    send.tags_code = _hash_of(texts, tags, tags_end)
    return key < key_end


@inlined
def read_member(buffer: Bytes, position: int, end: int) -> Any:
    """Read the properties of a batch's message; return the hash of its tags or 0, and whether it is usual."""
    tags = tags_end = position
    is_usual = True
    while position < end:
        code, name_end, value_end = next_property(buffer, position, end)
        if code == _TAGS and position < name_end < value_end - 1:
            tags, tags_end = name_end + 1, value_end
        elif code == -1:
            if _is_one_of(_long_code(buffer, position), _UNUSUAL_LONG_OF_MEMBER):
                is_usual = False
        elif _is_one_of(code, _UNUSUAL_OF_MEMBER):
            is_usual = False
        position = value_end + 1
    return _hash_of(buffer, tags, tags_end), is_usual


@inlined
def _is_true(texts: Bytes, begin: int, end: int) -> bool:
    if end - begin != len(_TRUE):
        return False
    for i in range(len(_TRUE)):
        if texts[begin + i] != _TRUE[i]:
            return False
    return True


@inlined
def _long_code(buffer: Bytes, position: int) -> Any:
    """Return the number that stands for the first 8 bytes of a longer name."""
    code = int64(0)
    for i in range(_CODED_MAX):
        code = code << 8 | byte_at(buffer, position + i)
    return code


@inlined
def _hash_of(buffer: Bytes, tags: int, tags_end: int) -> Any:
    return int64(int32(hash_text(uint32(0), buffer, tags, tags_end)))


@inlined
def _is_one_of(code: int, codes: tuple[int, ...]) -> bool:
    for other in codes:
        if code == other:
            return True
    return False
