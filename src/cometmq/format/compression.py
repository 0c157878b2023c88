"""Compress and decompress message bodies.

The record's ``sys_flag`` says how a body is compressed: as a zlib stream, an LZ4 frame or a Zstandard frame.
The libraries for LZ4 and Zstandard are imported when the first such body is read.

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
"""Largest decompressed body in bytes, unless the caller sets another limit: a few compressed bytes can expand
to gigabytes. RocketMQ's own clients refuse to send more than 4 MiB."""

LEVEL: Final = 5
"""RocketMQ's default level, for zlib and Zstandard."""


def compress(body: Buffer, compression: CompressionType, level: int = LEVEL) -> bytes:
    """Compress ``body``; mark its message by ``sys_flag.compressed_with``."""
    if compression is CompressionType.ZLIB:
        return zlib.compress(body, level)
    if compression is CompressionType.LZ4:
        # Java's reader knows neither linked blocks nor, in its old versions, a stored size.
        return bytes(_lz4_frame().compress(body, block_linked=False, store_size=False))
    return bytes(_zstd().compress(body, level))


def decompress(body: Buffer, sys_flag: int, *, size_max: int = DECOMPRESSED_MAX) -> bytes:
    """Decompress a stored body; one that is not compressed is returned unchanged.

    Args:
        body: the body as stored.
        sys_flag: the record's SYSFLAG, which says whether and how the body is compressed.
        size_max: largest decompressed body, in bytes.

    Raises:
        FormatError: the body is damaged or cut off, is larger than ``size_max`` when decompressed, or has
            an unknown compression type.
    """
    if not is_compressed(sys_flag):
        return bytes(body)
    found, is_whole = decompress_beginning(body, sys_flag, size_max)
    if not is_whole:
        raise FormatError(f"compressed body of {len(body)} bytes: larger than {size_max} when decompressed")
    return found


def decompress_beginning(body: Buffer, sys_flag: int, size: int) -> tuple[bytes, bool]:
    """Return the first bytes of a stored body, decompressed, and whether they are all of it.

    Args:
        body, sys_flag: as for ``decompress``.
        size: most bytes to decompress: what is behind them is not looked at, and may be damaged.

    Raises:
        FormatError: this part is damaged or cut off, or the compression type is unknown.
    """
    if not is_compressed(sys_flag):
        return bytes(body[:size]), len(body) <= size
    decompressor, error = _decompressor(compression_type(sys_flag))
    try:
        found = decompressor.decompress(body, size + 1)
    except error as reason:
        raise FormatError(f"compressed body of {len(body)} bytes: {reason}") from None
    if len(found) > size:
        return found[:size], False
    if not decompressor.eof:
        raise FormatError(f"compressed body of {len(body)} bytes: cut off after {len(found)} decompressed")
    return found, True


class _Decompressor(Protocol):
    """The interface that the decompressors of the three libraries share."""

    @property
    def eof(self) -> bool: ...

    def decompress(self, data: Buffer, max_length: int, /) -> bytes: ...


def _decompressor(number: int) -> tuple[_Decompressor, type[Exception]]:
    """Return a decompressor for one body, and the exception that it raises for damaged data."""
    match number:
        case CompressionType.ZLIB:
            return zlib.decompressobj(), zlib.error
        case CompressionType.LZ4:
            return _lz4_frame().LZ4FrameDecompressor(), RuntimeError
        case CompressionType.ZSTD:
            return _zstd().ZstdDecompressor(), _zstd().ZstdError
        case _:
            raise FormatError(f"unknown compression type {number}: known are 1 (LZ4), 2 (ZSTD) and 3 (ZLIB)")


def _lz4_frame() -> Any:
    import lz4.frame  # noqa: PLC0415  most processes never meet an LZ4 body

    return lz4.frame


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415  most processes never meet a Zstandard body
    else:
        from backports import zstd  # noqa: PLC0415  most processes never meet a Zstandard body
    return zstd
