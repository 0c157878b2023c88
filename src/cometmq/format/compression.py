"""Compressed bodies: what a producer made smaller, a consumer makes whole again.

Which way is said by the record's ``sys_flag``: a zlib stream, an LZ4 frame or a Zstandard frame. The
libraries for LZ4 and Zstandard are loaded when the first such body is met.

Source: RocketMQ: ZlibCompressor.java, Lz4Compressor.java, ZstdCompressor.java; RFC 1950, RFC 8878, LZ4 frame
format 1.6.
"""

import sys
import zlib
from typing import Any, Final, Protocol

from cometmq.errors import FormatError
from cometmq.format.sys_flag import CompressionType, compression_type, is_compressed
from cometmq.message import Buffer

DECOMPRESSED_MAX: Final = 64 * 1024 * 1024
"""Largest body in bytes that is made whole unless the caller says otherwise: a few bytes can stand for
gigabytes. RocketMQ's own clients refuse to send more than 4 MiB."""

LEVEL: Final = 5
"""RocketMQ's default level. LZ4 has none there."""


def compress(body: Buffer, compression: CompressionType, level: int = LEVEL) -> bytes:
    """Give ``body`` compressed; ``sys_flag.compressed_with`` marks a message so."""
    if compression is CompressionType.ZLIB:
        return zlib.compress(body, level)
    if compression is CompressionType.LZ4:
        # Java's reader knows neither linked blocks nor, in its old versions, a stored size.
        return bytes(_lz4_frame().compress(body, block_linked=False, store_size=False))
    return bytes(_zstd().compress(body, level))


def decompress(body: Buffer, sys_flag: int, *, size_max: int = DECOMPRESSED_MAX) -> bytes:
    """Give a stored body as its producer had it: as it is, if it is not compressed.

    Args:
        body: the body as stored.
        sys_flag: the record's; says whether and how the body is compressed.
        size_max: most bytes that may come out of a compressed body.

    Raises:
        FormatError: the body is damaged or cut off, is larger than ``size_max``, or is compressed in
            an unknown way.
    """
    if not is_compressed(sys_flag):
        return bytes(body)
    decompressor, error = _decompressor(compression_type(sys_flag))
    try:
        whole = decompressor.decompress(body, size_max + 1)
    except error as reason:
        raise FormatError(f"compressed body of {len(body)} bytes: {reason}") from None
    if len(whole) > size_max:
        raise FormatError(f"compressed body of {len(body)} bytes: larger than {size_max} when decompressed")
    if not decompressor.eof:
        raise FormatError(f"compressed body of {len(body)} bytes: cut off after {len(whole)} decompressed")
    return whole


class _Decompressor(Protocol):
    """What the three libraries have in common."""

    @property
    def eof(self) -> bool: ...

    def decompress(self, data: Buffer, max_length: int, /) -> bytes: ...


def _decompressor(number: int) -> tuple[_Decompressor, type[Exception]]:
    """Give what decompresses one body, and what it raises for a damaged one."""
    match number:
        case CompressionType.ZLIB:
            return zlib.decompressobj(), zlib.error
        case CompressionType.LZ4:
            return _lz4_frame().LZ4FrameDecompressor(), RuntimeError
        case CompressionType.ZSTD:
            return _zstd().ZstdDecompressor(), _zstd().ZstdError
        case _:
            raise FormatError(f"body compressed in way {number}: 1 (LZ4), 2 (ZSTD) and 3 (ZLIB) are known")


def _lz4_frame() -> Any:
    import lz4.frame  # noqa: PLC0415  most processes never meet an LZ4 body

    return lz4.frame


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415  most processes never meet a Zstandard body
    else:
        from backports import zstd  # noqa: PLC0415  most processes never meet a Zstandard body
    return zstd
