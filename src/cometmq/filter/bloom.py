"""The Bloom filter by which a message's bitmap says which consumer groups may want it.

Each group with an SQL92 filter on a topic owns a few bit positions, told by its name. A message's bitmap has
the bits of every group whose filter it passed when it was stored; a group whose bits are not all set does
not want the message, one whose bits are set may.

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
    """The sizes that a wanted error rate gives.

    Args:
        error_percent: how many of 100 groups may have their bits set by others, 1 to 99.
        expected: for how many groups that shall hold.

    Attributes:
        bit_count: length of a bitmap, a multiple of 8.
        hash_count: how many positions a group owns; they may coincide.
    """

    def __init__(self, error_percent: int, expected: int) -> None:
        rate = error_percent / 100
        self.hash_count = math.ceil(_log(0.5, rate))
        bits = math.ceil(expected * _log(2, 1 / rate) * _log(2, math.e))
        self.bit_count = -(-bits // BYTE) * BYTE

    def positions(self, name: str) -> tuple[int, ...]:
        """Give the positions that ``name`` owns."""
        both = murmur3(name.encode(errors="replace"))
        low, high = both & 0xFFFF_FFFF, both >> 32
        return tuple(self._position(low + number * high) for number in range(1, self.hash_count + 1))

    def pack(self, bits: int) -> bytes:
        """Give a bitmap's bytes."""
        return bits.to_bytes(self.bit_count // BYTE, "little")

    def _position(self, both: int) -> int:
        """Fold a sum as Java's 32-bit arithmetic does: a negative one is inverted."""
        both &= 0xFFFF_FFFF
        return (both if both < 2**31 else both ^ 0xFFFF_FFFF) % self.bit_count


def bits_of(positions: Iterable[int]) -> int:
    """Give the bitmap with these positions set."""
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits


def unpack(bitmap: bytes) -> int:
    """Read a bitmap's bytes."""
    return int.from_bytes(bitmap, "little")


def murmur3(data: bytes) -> int:
    """Give the first 64 bits of MurmurHash3 x64 128 with seed 0, unsigned."""
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
