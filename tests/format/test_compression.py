import random
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.format.compression import compress, decompress, decompress_beginning
from cometmq.format.sys_flag import COMPRESSED, CompressionType, compressed_with

BODY = b"a comet comes back. " * 500
EACH_TYPE = pytest.mark.parametrize("compression", CompressionType)


@given(st.binary(max_size=5000), st.sampled_from(CompressionType))
def test_what_is_compressed_comes_back(body: bytes, compression: CompressionType) -> None:
    small = compress(body, compression)
    assert decompress(small, compressed_with(0, compression)) == body
    assert decompress(memoryview(small), compressed_with(0, compression)) == body


@EACH_TYPE
def test_a_repetitive_body_becomes_small(compression: CompressionType) -> None:
    assert len(compress(BODY, compression)) < len(BODY) // 10


def test_a_body_that_is_not_compressed_is_given_as_it_is() -> None:
    assert decompress(memoryview(BODY), 0) == BODY


def test_old_clients_say_no_type_and_mean_zlib() -> None:
    assert decompress(compress(BODY, CompressionType.ZLIB), COMPRESSED) == BODY


def test_an_lz4_frame_has_the_flags_that_java_can_read() -> None:
    magic, flags = (compress(bytes(200_000), CompressionType.LZ4)[at] for at in (slice(4), slice(4, 5)))
    assert magic.hex() == "04224d18"
    assert flags[0] & 0b0010_0000, "blocks are independent"
    assert not flags[0] & 0b0000_1000, "no size is stored"


@EACH_TYPE
def test_a_bomb_is_an_error_before_it_goes_off(compression: CompressionType) -> None:
    bomb = compress(bytes(50_000_000), compression)
    with pytest.raises(FormatError, match="larger than 1000 when decompressed"):
        decompress(bomb, compressed_with(0, compression), size_max=1000)


@EACH_TYPE
def test_a_body_may_be_as_large_as_the_limit(compression: CompressionType) -> None:
    small = compress(BODY, compression)
    assert decompress(small, compressed_with(0, compression), size_max=len(BODY)) == BODY
    with pytest.raises(FormatError, match="larger than"):
        decompress(small, compressed_with(0, compression), size_max=len(BODY) - 1)


@EACH_TYPE
@pytest.mark.parametrize("kept", [0, 1, 5, -1])
def test_a_body_that_is_cut_off_is_an_error(compression: CompressionType, kept: int) -> None:
    with pytest.raises(FormatError, match="compressed body"):
        decompress(compress(BODY, compression)[:kept], compressed_with(0, compression))


@EACH_TYPE
@given(data=st.binary(max_size=100))
def test_a_damaged_body_is_nothing_but_a_format_error(compression: CompressionType, data: bytes) -> None:
    whole = compress(BODY, compression)
    for damaged in (data, whole[:10] + data, whole[:-20] + data):
        with suppress(FormatError):
            decompress(damaged, compressed_with(0, compression))


@EACH_TYPE
def test_of_a_body_no_more_than_the_beginning_is_decompressed(compression: CompressionType) -> None:
    flags = compressed_with(0, compression)
    bomb = compress(bytes(50_000_000), compression)
    tracemalloc.start()
    try:
        assert decompress_beginning(bomb, flags, 480) == (bytes(480), False)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    assert decompress_beginning(compress(BODY, compression), flags, len(BODY)) == (BODY, True)
    assert decompress_beginning(BODY, 0, 7) == (BODY[:7], False)


@EACH_TYPE
def test_what_is_behind_the_beginning_may_be_damaged(compression: CompressionType) -> None:
    body = random.Random(1).randbytes(300_000)  # larger than a block
    flags, whole = compressed_with(0, compression), compress(body, compression)
    damaged = whole[: len(whole) // 2]
    assert decompress_beginning(damaged, flags, 480) == (body[:480], False)
    with pytest.raises(FormatError):
        decompress_beginning(damaged, flags, len(body))


def test_an_unknown_type_is_an_error() -> None:
    with pytest.raises(FormatError, match="type 7"):
        decompress(BODY, COMPRESSED | 0x700)
