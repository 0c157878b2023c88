import pytest

from cometmq.format import sys_flag
from cometmq.format.sys_flag import CompressionType


@pytest.mark.parametrize(
    "transaction",
    [
        sys_flag.TRANSACTION_NOT,
        sys_flag.TRANSACTION_PREPARED,
        sys_flag.TRANSACTION_COMMIT,
        sys_flag.TRANSACTION_ROLLBACK,
    ],
)
def test_a_transaction_type_replaces_another_and_leaves_the_rest(transaction: int) -> None:
    before = 0x7FF
    after = sys_flag.with_transaction_type(before, transaction)
    assert sys_flag.transaction_type(after) == transaction
    assert after | sys_flag.TRANSACTION_MASK == before


@pytest.mark.parametrize(
    ("flag", "compression"), [(0x1, 3), (0x101, 1), (0x201, 2), (0x301, 3), (0x701, 7), (0x13, 3)]
)
def test_old_clients_wrote_no_type_and_meant_zlib(flag: int, compression: int) -> None:
    assert sys_flag.is_compressed(flag)
    assert sys_flag.compression_type(flag) == compression


@pytest.mark.parametrize("compression", CompressionType)
def test_a_compression_replaces_another_and_leaves_the_rest(compression: CompressionType) -> None:
    flag = sys_flag.compressed_with(0x7F8, compression)
    assert sys_flag.compression_type(flag) == compression
    assert flag & 0xFF == 0xF8 | sys_flag.COMPRESSED


def test_compression_type_alone_does_not_say_compressed() -> None:
    assert not sys_flag.is_compressed(0x300)
