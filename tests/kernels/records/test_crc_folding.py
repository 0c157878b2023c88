"""Blocks that are added up by products have the checksum that they have one after the other."""

import os
import subprocess
import sys
import zlib

import pytest

from cometmq.kernels.records import crc
from cometmq.kernels.records.crc_folding import BLOCK, FOLDS, LANES, STRIDE

DATA = bytes(n * n % 251 for n in range(STRIDE * LANES * 3))


@pytest.mark.skipif(not FOLDS, reason="this processor has no carry-less products")
@pytest.mark.parametrize("strides", [1, 2, 5])
@pytest.mark.parametrize("blocks", range(LANES))
@pytest.mark.parametrize("more", [0, 1, BLOCK - 1])
def test_strides_blocks_and_what_is_behind_them_are_added_up(strides: int, blocks: int, more: int) -> None:
    size = strides * STRIDE + blocks * BLOCK + more
    for begin in (0, 1, 7):
        assert crc.crc32(DATA[begin : begin + size]) == zlib.crc32(DATA[begin : begin + size])


TABLES = """
import zlib
from cometmq.kernels.records import crc
data = bytes(n * n % 251 for n in range(1_000))
for end in range(700, 1_000):
    assert crc.crc32(data[:end]) == zlib.crc32(data[:end]), end
print(crc.FOLDS)
"""


def test_a_processor_without_products_of_that_kind_has_the_tables() -> None:
    plain = os.environ | {"NUMBA_CPU_NAME": "generic"}
    answer = subprocess.run(
        [sys.executable, "-c", TABLES], env=plain, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "False"
