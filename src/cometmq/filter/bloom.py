"""The Bloom filter behind a message's bitmap, which says which consumer groups may want the message.

Each group with an SQL92 filter on a topic owns a few bit positions, derived from its name. A message's bitmap
has the bits of every group whose filter it passed when it was stored. A group whose bits are not all set does
not want the message; one whose bits are set may want it.

A bitmap is an int in here, bit ``p`` being position ``p``; its bytes are that number in little-endian order.

Source: RocketMQ ``filter/util/BloomFilter.java``, ``BitsArray.java``; Guava's ``Hashing.murmur3_128``, which
is A. Appleby's MurmurHash3 x64 128.
"""

import math
from collections.abc import Iterable
from typing import Final

BYTE: Final = 8

_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_MASK: Final = 2**64 - 1
_BLOCK: Final = 16


class BloomFilter:
    """The sizes of a bitmap for a given error rate.

    Args:
        error_percent: how many of 100 groups may find their bits set by other groups, 1 to 99.
        expected: the number of groups for which that must hold.

    Attributes:
        bit_count: length of a bitmap in bits, a multiple of 8.
        hash_count: number of positions of a group; they may coincide.
    """

    def __init__(self, error_percent: int, expected: int) -> None:
        rate = error_percent / 100
        self.hash_count = math.ceil(_log(0.5, rate))
        bits = math.ceil(expected * _log(2, 1 / rate) * _log(2, math.e))
        self.bit_count = -(-bits // BYTE) * BYTE

    def positions(self, name: str) -> tuple[int, ...]:
        """Return the positions of the group ``name``."""
        both = murmur3(name.encode(errors="replace"))
        low, high = both & 0xFFFF_FFFF, both >> 32
        return tuple(self._position(low + number * high) for number in range(1, self.hash_count + 1))

    def pack(self, bits: int) -> bytes:
        """Encode a bitmap."""
        return bits.to_bytes(self.bit_count // BYTE, "little")

    def _position(self, both: int) -> int:
        """Fold a sum to a position as Java's 32-bit arithmetic does: a negative sum is inverted."""
        both &= 0xFFFF_FFFF
        return (both if both < 2**31 else both ^ 0xFFFF_FFFF) % self.bit_count


def bits_of(positions: Iterable[int]) -> int:
    """Return the bitmap in which these positions are set."""
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits


def unpack(bitmap: bytes) -> int:
    """Decode a bitmap."""
    return int.from_bytes(bitmap, "little")


def murmur3(data: bytes) -> int:
    """Return the first 64 bits of MurmurHash3 x64 128 with seed 0, unsigned."""
    first = second = 0
    whole = len(data) // _BLOCK * _BLOCK
    for at in range(0, whole, _BLOCK):
        first ^= _mixed(_word(data[at : at + 8]), _C1, 31, _C2)
        first = ((_rotated(first, 27) + second) * 5 + 0x52DCE729) & _MASK
        second ^= _mixed(_word(data[at + 8 : at + 16]), _C2, 33, _C1)
        second = ((_rotated(second, 31) + first) * 5 + 0x38495AB5) & _MASK
    second ^= _mixed(_word(data[whole + 8 :]), _C2, 33, _C1)
    first ^= _mixed(_word(data[whole : whole + 8]), _C1, 31, _C2)
    first ^= len(data)
    second ^= len(data)
    first = (first + second) & _MASK
    second = (second + first) & _MASK
    return (_finished(first) + _finished(second)) & _MASK


def _mixed(word: int, factor: int, rotation: int, last_factor: int) -> int:
    return _rotated(word * factor & _MASK, rotation) * last_factor & _MASK


def _finished(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return word ^ word >> 33


def _rotated(word: int, count: int) -> int:
    return (word << count | word >> 64 - count) & _MASK


def _word(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _log(base: float, number: float) -> float:
    return math.log(number) / math.log(base)
