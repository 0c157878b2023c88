"""An index file is read as it is looked at; its entries are cut up by where they point."""

import pickle
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from cometmq.format.index import FIRST_ENTRY
from cometmq.io.files import Disk
from cometmq.spark.jobs.verify.index import ENTRY_ROW, NOWHERE, IndexByReads, IndexPart, IndexSeen
from cometmq.spark.jobs.verify.rows import ENTRIES, INDEX
from cometmq.store.directory import StoreDirectory
from cometmq.store.index.index_view import IndexView

FILE = 1 << 20


@pytest.fixture
def view(golden: Mapping[str, Path]) -> IndexView:
    """Return the first index file of a store."""
    return StoreDirectory(golden["store-clean"]).index([])[0]


def test_what_is_read_is_what_a_map_shows(view: IndexView) -> None:
    read = IndexByReads(Disk().open(view.path, writable=False), view.slot_count, view.entry_count)
    assert (read.path, read.header, len(read.entries)) == (view.path, view.header, len(view.entries))
    assert np.array_equal(read.slots, view.slots)
    for part in (slice(0, 7), slice(5, None), slice(3, 3), slice(len(view.entries) - 2, 10**9)):
        assert np.array_equal(read.entries[part], view.entries[part])
    assert read.entries[-1] == view.entries[-1] and read.entries[FIRST_ENTRY] == view.entries[FIRST_ENTRY]


def test_entries_are_told_by_the_file_of_the_log_to_which_they_point(view: IndexView) -> None:
    whole = IndexPart(
        3,
        1,
        view.path,
        view.slot_count,
        view.entry_count,
        None,
        is_newest=True,
        log=(0, 2 * FILE),
        log_file_size=FILE,
    )
    for part in (whole, whole._replace(log=(FILE, 2 * FILE))):
        *rows, last = part.rows()
        assert {row["kind"] for row in rows} == {ENTRIES} and {row["store"] for row in rows} == {3}
        offsets = []
        for row in rows:
            entries = np.frombuffer(row["data"], ENTRY_ROW)
            assert row["begin"] == entries["physical_offset"].min() and set(entries["file"]) == {1}
            places = {offset // FILE * FILE for offset in entries["physical_offset"].tolist()}
            assert places == {0 if row["place"] == NOWHERE else row["place"]}
            offsets += entries["physical_offset"].tolist()
        assert sorted(offsets) == sorted(view.entries["physical_offset"][FIRST_ENTRY:].tolist())
        seen: IndexSeen = pickle.loads(last["data"])
        assert (last["kind"], seen.file, seen.is_usable, seen.reported.kept) == (INDEX, 1, True, [])
        assert (seen.indexed.path, seen.indexed.first) == (view.path, view.header.begin_physical_offset)
