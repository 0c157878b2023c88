"""No start loses an entry of a queue or of the index: the log has its record, or a copy is kept."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from random import Random

import pytest
from tests.campaigns.storage.damage_cases import (
    Case,
    Kind,
    Variant,
    _damaged,
    cut_cases,
    flip_case,
    kind_of,
    sample_of,
)
from tests.campaigns.storage.damage_sample import ROOT, SETTINGS

from cometmq.errors import CometMQError
from cometmq.format import layout
from cometmq.format.index import ENTRY_SIZE, FIRST_ENTRY
from cometmq.format.queue_entry import FILLER, SIZE, pack
from cometmq.store import MessageStore
from cometmq.store.log.log_scan import LogDamage
from cometmq.store.recovery import lost_entries
from cometmq.testing.memory_disk import MemoryDisk

SET_ASIDE = ROOT / "setaside"
FEW = 400
"""Messages of a damaged store."""
CUTS = 8
KEY_SIZE = 12
"""Of an entry: the hash and the offset."""
_ENTRIES_AT = 40 + 4 * SETTINGS.max_hash_slot_num


def entries_in(data: bytes) -> Iterator[bytes]:
    """The entries of a queue's file that are no filler and not empty."""
    for at in range(0, len(data) - SIZE + 1, SIZE):
        entry = data[at : at + SIZE]
        if entry.strip(b"\0") and entry != pack(*FILLER):
            yield entry


def keys_in(data: bytes) -> Iterator[bytes]:
    """The entries of an index file, without the chains between them, which a shorter file has otherwise."""
    for at in range(_ENTRIES_AT + FIRST_ENTRY * ENTRY_SIZE, len(data), ENTRY_SIZE):
        if key := data[at : at + KEY_SIZE].rstrip(b"\0"):
            yield key


def derived(disk: MemoryDisk) -> set[bytes]:
    """All entries of queues and index, and of what was set aside, whole files or pieces of them."""
    found: set[bytes] = set()
    for path, content in disk._files.items():
        data = bytes(content.data)
        if layout.consume_queues_dir(ROOT) in path.parents:
            found.update(entries_in(data))
        elif layout.index_dir(ROOT) in path.parents:
            found.update(keys_in(data))
        elif SET_ASIDE in path.parents and "consumequeue" in str(path.relative_to(SET_ASIDE)):
            found.update(entries_in(data))
        elif SET_ASIDE in path.parents and path.name.startswith("entries-of-index-"):
            found.update(keys_in(bytes(_ENTRIES_AT + ENTRY_SIZE) + data))
        elif (SET_ASIDE in path.parents and "index" in path.name) or path.name.endswith(".damaged"):
            found.update(keys_in(data))
    return found


def opened_and_closed(disk: MemoryDisk) -> None:
    MessageStore.open(ROOT, SETTINGS, files=disk).close()


def shorter(disk: MemoryDisk, files: int) -> MemoryDisk:
    """The disk with a log that lacks its last files, as if restored from an older copy."""
    copy = disk.after_kill()
    names = copy.names(layout.commitlog_dir(ROOT))
    for name in names[-files:]:
        copy.remove(layout.commitlog_dir(ROOT) / name)
    return copy


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("files", [1, 3])
def test_entries_of_records_that_the_log_has_lost_are_set_aside(
    is_closed: bool, files: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cometmq.store.mend.CHECKED_BYTES", 0)  # as in a large store
    disk = shorter(sample_of(Variant(is_closed)).disk, files)
    before = derived(disk)
    opened_and_closed(disk)
    assert before <= derived(disk)
    if is_closed:  # a kill took what was in memory only
        assert "queue entries have no records in the log" in caplog.text
        assert "index entries have no records in the log" in caplog.text


def test_after_a_kill_nothing_is_set_aside_that_is_written_again() -> None:
    disk = sample_of(Variant(closed=False)).disk.after_kill()
    before = derived(disk)
    opened_and_closed(disk)
    assert before <= derived(disk) and disk.names(SET_ASIDE) == []


def test_only_the_newest_keys_are_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_entries, "KEYS_MAX", 3)
    monkeypatch.setattr("cometmq.store.mend.CHECKED_BYTES", 0)
    disk = shorter(sample_of(Variant(closed=True)).disk, 1)
    opened_and_closed(disk)
    (name,) = [name for name in disk.names(SET_ASIDE) if name.startswith("entries-of-index-")]
    assert len(disk.load(SET_ASIDE / name)) == 3 * ENTRY_SIZE


def damaged_extents(case: Case, damages: Iterable[LogDamage]) -> list[range]:
    """Where the log is damaged: as recovery reports it, and the record that the case has hit.

    Where no checksum guards what a record says of queue and keys, new entries take it from there.
    """
    reported = [(layout.parse_offset_name(one.path.name) + one.position, one.size) for one in damages]
    extents = [range(start, start + size) for start, size in reported]
    if kind_of(case.path) is Kind.COMMIT_LOG:
        at = layout.parse_offset_name(case.path.name) + case.position
        records = sample_of(case.variant).wanted.records.items()
        extents += [hit for start, data in records if at in (hit := range(start, start + len(data)))]
    return extents


def record_of(entry: bytes) -> int:
    """The CommitLog offset in an entry of a queue or of the index."""
    return int.from_bytes(entry[:8] if len(entry) == SIZE else entry[4:KEY_SIZE].ljust(8, b"\0"))


@pytest.mark.parametrize("kind", [Kind.COMMIT_LOG, Kind.CONSUME_QUEUE, Kind.INDEX, Kind.CHECKPOINT])
@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("checked_bytes", [0, 2**30])
def test_no_start_of_a_damaged_store_loses_an_entry(
    kind: Kind, is_closed: bool, checked_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cometmq.store.mend.CHECKED_BYTES", checked_bytes)
    variant = Variant(is_closed, messages=FEW)
    cuts = list(cut_cases(variant, kind))
    flips = [case for seed in range(60) if kind_of((case := flip_case(variant, seed)).path) is kind]
    for case in [*flips, *Random(1).sample(cuts, min(CUTS, len(cuts)))]:
        disk = _damaged(sample_of(variant).disk, case)
        before, damages = derived(disk) & derived(sample_of(variant).disk), list[LogDamage]()
        with suppress(CometMQError):  # it is not opened, and nothing is cut
            store = MessageStore.open(ROOT, sample_of(variant).settings, files=disk)
            store.close()
            damages = store.recovered.damages
        extents, lost = damaged_extents(case, damages), before - derived(disk)
        assert all(any(record_of(entry) in extent for extent in extents) for entry in lost), str(case)
