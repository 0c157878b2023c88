"""Entries are held against the keys of records; ``test_index`` checks whole indexes."""

from typing import NamedTuple

import numpy as np
import pytest
from tests.store.conftest import ROOT, SMALL

from cometmq.format.index import IndexHeader
from cometmq.kernels.arrays import Longs
from cometmq.store.directory import StoreDirectory
from cometmq.store.verify.findings import Findings
from cometmq.store.verify.keys import NONE_MISSING, Entries, IndexedFile, KeyCheck, Missing, RecordKeys
from cometmq.testing.memory_disk import MemoryDisk

HEADER = IndexHeader(1_000, 9_000, 10, 30, 3, 4)


class Extent(NamedTuple):
    """A log of 100 bytes whose last ones are damaged."""

    begin_offset: int = 0
    end_offset: int = 90
    damaged: list[tuple[int, int]] = [(80, 90)]  # noqa: RUF012  nobody changes it


def longs(*values: int) -> Longs:
    return np.array(values, np.int64)


def entries(*found: tuple[int, int, int]) -> Entries:
    """Return entries of hash, place in the log and time difference, numbered from 1 on."""
    hashes, offsets, times = zip(*found, strict=True) if found else ((), (), ())
    numbers = np.arange(1, len(found) + 1, dtype=np.int32)
    return Entries(
        np.zeros(len(found), np.int32),
        numbers,
        longs(*hashes),
        longs(*offsets),
        longs(*times).astype(np.int32),
    )


def keys(*found: tuple[int, int], may_miss: bool = False) -> RecordKeys:
    """Return keys of hash and place in the log, of records stored 100 ms after one another."""
    hashes, offsets = zip(*found, strict=True)
    times = longs(*(1_000 + 100 * offset for offset in offsets))
    return RecordKeys(longs(*hashes), longs(*offsets), times, np.full(len(found), may_miss))


@pytest.fixture
def findings() -> Findings:
    """Return no findings."""
    return Findings()


@pytest.fixture
def check(sound: MemoryDisk, findings: Findings) -> KeyCheck:
    """Return the check of an index with one file, of records from 10 to 30."""
    file = IndexedFile(ROOT / "index" / "1", HEADER, 10, 2**31, 10, 30)
    return KeyCheck(StoreDirectory(ROOT, SMALL, sound), Extent(), findings, [file], None, is_whole=True)


def test_entries_that_fit_their_records_are_sound(check: KeyCheck, findings: Findings) -> None:
    check.check(10, keys((7, 10), (8, 20), (8, 30)), entries((7, 10, 1), (8, 20, 2), (8, 30, 3)))
    assert [finding.what for finding in findings] == [
        "begin time 1000 ms, by its record 2000 ms",
        "end time 9000 ms, by its record 4000 ms",
    ]
    assert check.missing == NONE_MISSING


def test_what_does_not_fit_is_told(check: KeyCheck, findings: Findings) -> None:
    found = entries((7, 5, 0), (9, 20, 2), (8, 20, 9), (7, 85, 0), (7, 95, 0))
    check.check(10, keys((8, 20), (6, 25), (6, 40), (6, 41)), found)
    assert [finding.what for finding in findings] == [
        "entry 1 points to 5, no record with its key is there",
        "entry 2 points to 20, no record with its key is there",
        "entry 5 points to 95, behind the log's end",
        "entry 3 time difference 9 s, by its record 2 s",
        "end time 9000 ms, by its record 3000 ms",
        "a key of the record at 25 has no entry in the index",
    ]
    assert check.missing == Missing(2, 40)


def test_a_key_that_stands_for_tags_may_miss(check: KeyCheck, findings: Findings) -> None:
    check.check(10, keys((8, 20), may_miss=True), entries())
    assert list(findings) == [] and check.missing == NONE_MISSING


def test_missing_keys_add_up() -> None:
    assert NONE_MISSING.plus(Missing(2, 40)).plus(Missing(3, 10)).plus(NONE_MISSING) == Missing(5, 10)
