"""SYSFLAG, the field of a record in which client and broker mark how a message is stored.

==========  =====================  ==================================================================
bits        name                   meaning
==========  =====================  ==================================================================
``0x001``   COMPRESSED             the body is compressed
``0x002``   MULTI_TAGS             TAGS holds several tags
``0x00C``   transaction type       a two-bit number: 0 NOT, 4 PREPARED, 8 COMMIT, 12 ROLLBACK
``0x010``   BORN_HOST_V6           BORNHOST takes 20 bytes instead of 8
``0x020``   STORE_HOST_V6          STOREHOST takes 20 bytes instead of 8
``0x040``   NEED_UNWRAP            the body is an inner batch that must be unwrapped
``0x080``   INNER_BATCH            the record stands for several messages
``0x700``   compression type       1 LZ4, 2 ZSTD, 3 ZLIB; 0, written by old clients, means ZLIB
==========  =====================  ==================================================================

Source: RocketMQ: MessageSysFlag.java, CompressionType.java.
"""

from enum import IntEnum
from typing import Final

COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2

TRANSACTION_NOT: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC

BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
HOSTS_V6: Final = BORN_HOST_V6 | STORE_HOST_V6

NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80

COMPRESSION_SHIFT: Final = 8
COMPRESSION_MASK: Final = 0x700


class CompressionType(IntEnum):
    """The algorithm that compressed a body."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def transaction_type(sys_flag: int) -> int:
    """Return the transaction type: one of the ``TRANSACTION_…`` constants."""
    return sys_flag & TRANSACTION_MASK


def with_transaction_type(sys_flag: int, transaction: int) -> int:
    """Return ``sys_flag`` with its transaction type replaced."""
    return sys_flag & ~TRANSACTION_MASK | transaction


def is_compressed(sys_flag: int) -> bool:
    """Check whether the body is compressed."""
    return bool(sys_flag & COMPRESSED)


def compression_bits(sys_flag: int) -> int:
    """Return the bits that say whether and how a body is compressed; 0 if it is not."""
    return sys_flag & (COMPRESSED | COMPRESSION_MASK) if is_compressed(sys_flag) else 0


def compression_type(sys_flag: int) -> int:
    """Return the number of the compression type; 0, which old clients wrote, is returned as ZLIB.

    The number may be unknown to ``CompressionType``: the field has three bits.
    """
    return (sys_flag & COMPRESSION_MASK) >> COMPRESSION_SHIFT or CompressionType.ZLIB


def compressed_with(sys_flag: int, compression: CompressionType) -> int:
    """Return ``sys_flag`` marked as compressed with ``compression``."""
    return sys_flag & ~COMPRESSION_MASK | COMPRESSED | compression << COMPRESSION_SHIFT
