"""Many queries answered at once find what ``Readings.record`` and ``query`` do, or are left to them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.kernels.querying import by_id, by_key
from tests.kernels.reading import frames_in
from tests.store.conftest import ROOT, new_message

from cometmq import kernels
from cometmq.format import layout
from cometmq.format.checksum import Crc
from cometmq.io.files import Disk, FileMap
from cometmq.kernels import plain
from cometmq.kernels.queries.plain import PlainQueries
from cometmq.kernels.queries.rows import ANSWERS_SIZE_MAX, HOPS_MAX, QueryOps, QueryState, constants_of
from cometmq.message import Buffer
from cometmq.store.index.index import Index
from cometmq.store.read import bulk_finds
from cometmq.store.read.bulk_finds import LOOKS_MAX, BulkFinds
from cometmq.store.read.log_bytes import bytes_at
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.testing.memory_disk import MemoryDisk, MemoryFile
from cometmq.wire.connection import FrameReader
from cometmq.wire.template import NumbersTemplate

BY_ID, BY_KEY = NumbersTemplate(None, ()), NumbersTemplate(None, ("a", "b"))
FILE_SIZE = 1 << 16
ANSWERED, LEFT, NOTHING = QueryState.ANSWERED, QueryState.LEFT, QueryState.NOTHING


@pytest.fixture(params=["plain", "compiled"], autouse=True)
def query_ops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> QueryOps:
    """Provide one body of the operations, then the other."""
    ops = plain.queries if request.param == "plain" else kernels.load().queries
    if request.param == "plain":
        monkeypatch.setattr(kernels, "queries_for", lambda _: ops)
    return ops


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


def opened(root: Path, files: MemoryDisk | Disk) -> MessageStore:
    """Open a store of small files: of the index, so that there are several, too."""
    kernels.load()
    settings = StoreSettings(
        mapped_file_size_commit_log=FILE_SIZE,
        max_message_size=FILE_SIZE,
        max_hash_slot_num=7,
        max_index_num=100,
    )
    return MessageStore.open(root, settings, files=files)


@pytest.fixture
def store(disk: MemoryDisk) -> Iterator[MessageStore]:
    with opened(ROOT, disk) as made:
        yield made


def index_of(store: MessageStore) -> Index:
    index = store._parts.index
    assert index is not None
    return index


def fill(store: MessageStore, count: int, size: int = 100) -> list[int]:
    """Append messages of which several have each key; give their CommitLog offsets."""
    appended = [
        store.append([new_message("T", 0, body=bytes([n % 256]) * size, keys=f"k{n % 40} own{n}")])
        for n in range(count)
    ]
    return [one.physical_offset for (one,) in appended]


class Asked:
    """What came of queries.

    Attributes:
        bodies: of the answered ones, by opaque number.
        chunks: how many were answered together, each time.
    """

    def __init__(self, finds: BulkFinds, frames: list[bytes]) -> None:
        data = b"".join(frames)
        read = frames_in(kernels.loading.ops, data)
        count = kernels.loading.ops.queries.read(read, 0, len(frames), finds.begin())
        assert count == len(frames) == finds.queries.count
        self.last_update = finds.look_up()
        constants = constants_of((BY_ID, ()), (BY_KEY, self.last_update or (0, 0)))
        self.bodies: dict[int, bytes] = {}
        self.chunks: list[int] = []
        rows = finds.queries.rows
        for begin, end in finds.answer(constants):
            answers = finds.answers(0, rows[end - 1].answer_end)
            self.bodies |= {frame.opaque: frame.body for frame in FrameReader().receive_data(answers)}
            self.chunks.append(end - begin)
        self.states = finds.queries.states[:count].tolist()
        assert len(self.bodies) == self.states.count(ANSWERED)


def test_records_are_found_by_id_wherever_they_lie(store: MessageStore) -> None:
    offsets = fill(store, 1_500)[::11]
    asked = Asked(store.readings.finds, [by_id(offset, n) for n, offset in enumerate(offsets)])
    assert asked.bodies == {n: store.read_record(offset) for n, offset in enumerate(offsets)}
    nowhere = Asked(
        store.readings.finds, [by_id(offsets[5] + 1), by_id(-3), by_id(1 << 50), by_id(offsets[5])]
    )
    assert nowhere.states == [LEFT, LEFT, NOTHING, ANSWERED]


def test_records_are_found_by_key_in_all_files_of_the_index(store: MessageStore) -> None:
    fill(store, 500)
    store.query("T", "k1")
    assert len(index_of(store).newest_first) > 4
    keys = [f"{kind}{n}" for n in range(0, 40, 3) for kind in ("k", "own")]
    frames = [by_key({"key": key, "maxNum": str(1 + n % 20)}, n) for n, key in enumerate(keys)]
    asked = Asked(store.readings.finds, frames)
    for n, (key, state) in enumerate(zip(keys, asked.states, strict=True)):
        result = store.query("T", key, 1 + n % 20)
        assert asked.last_update == result[1:]
        if state == ANSWERED:
            assert asked.bodies[n] == b"".join(result.records)
    assert asked.states.count(ANSWERED) >= 20, "few lie in two files of the log"


def test_a_time_that_is_asked_for_leaves_the_files_before_it(store: MessageStore) -> None:
    fill(store, 100)
    times = {"beginTimestamp": "999999999999999999", "endTimestamp": str(2**63 - 1)}
    assert Asked(store.readings.finds, [by_key(times)]).states == [NOTHING]


def test_what_does_not_fit_is_answered_behind_it(store: MessageStore) -> None:
    offsets = fill(store, 40, 30_000)
    asked = Asked(store.readings.finds, [by_id(offset, n) for n, offset in enumerate(offsets)])
    assert len(asked.bodies) == 40 and sum(asked.chunks) == 40
    assert max(asked.chunks) <= ANSWERS_SIZE_MAX // 30_000 < 40


def test_an_answer_that_no_room_is_large_enough_for_is_left(disk: MemoryDisk) -> None:
    kernels.load()
    settings = StoreSettings(mapped_file_size_commit_log=1 << 20)
    with MessageStore.open(ROOT, settings, files=disk) as store:
        offsets = fill(store, 2, ANSWERS_SIZE_MAX) + fill(store, 1)
        asked = Asked(store.readings.finds, [by_id(offset, n) for n, offset in enumerate(offsets)])
        assert (asked.states, list(asked.bodies)) == ([LEFT, LEFT, ANSWERED], [2])


def test_what_is_not_in_memory_is_left_to_the_plain_way(store: MessageStore, disk: MemoryDisk) -> None:
    (offset, *_) = fill(store, 8)
    disk.cold = True
    assert Asked(store.readings.finds, [by_id(offset), by_key()]).states == [LEFT, LEFT]


def test_without_an_index_only_ids_are_found(disk: MemoryDisk) -> None:
    kernels.load()
    with MessageStore.open(ROOT, StoreSettings(message_index_enable=False), files=disk) as store:
        (offset, *_) = fill(store, 8)
        asked = Asked(store.readings.finds, [by_id(offset), by_key()])
        assert (asked.states, asked.last_update) == ([ANSWERED, NOTHING], (0, 0))
        assert Asked(store.readings.finds, [by_id(offset)]).last_update is None


def test_a_file_that_cannot_be_opened_is_left_to_the_plain_way(store: MessageStore, disk: MemoryDisk) -> None:
    (offset, *_) = fill(store, 8)
    store.tick()
    store._upkeep.write_back()
    store._parts.files.close()
    for name in disk.names(layout.index_dir(ROOT)):
        disk.remove(layout.index_dir(ROOT) / name)
    assert Asked(store.readings.finds, [by_key(), by_id(offset)]).states == [LEFT, ANSWERED]


def test_on_a_real_disk_pages_are_asked_about_first(tmp_path: Path) -> None:
    with opened(tmp_path / "store", Disk()) as store:
        offsets = fill(store, 300, 1_000)
        store._upkeep.write_back()
        frames = [by_id(offset, n) for n, offset in enumerate(offsets[:100])]
        asked = Asked(store.readings.finds, [*frames, by_key({"key": "own299"}, 100)])
        assert asked.states == [ANSWERED] * 101
        assert asked.bodies[100] == store.read_record(offsets[299])


def test_a_log_that_is_checked_otherwise_has_plain_operations(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    finds = store.readings.finds
    finds.begin()
    assert finds._ops is kernels.loading.ops.queries
    (offset,) = fill(store, 1)
    store._log.crc = Crc.RECORD
    finds.begin()
    assert isinstance(finds._ops, PlainQueries)
    assert Asked(store.readings.finds, [by_id(offset)]).states == [LEFT], "it has no such checksum"


class Forgetful:
    """A map of which no page is ever known to be in memory for long."""

    def __init__(self, mapped: FileMap) -> None:
        self.view = mapped.view
        self.resident = bytearray(len(mapped.resident))
        self.asked = 0

    def ready(self, begin: int, end: int) -> Buffer | None:
        self.asked += 1
        return self.view[begin:end]


def test_memory_that_is_too_short_for_an_index_file_ends_the_asking(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (offset, *_) = fill(store, 8)
    store.query("T", "k1")
    store._upkeep.write_back()
    path, mapped_of = index_of(store).newest_first[0].path, MemoryFile.mapped
    mapped = store._parts.files.get(path).mapped()
    assert mapped is not None
    forgetful = Forgetful(mapped)
    monkeypatch.setattr(
        MemoryFile, "mapped", lambda file: forgetful if file.path == path else mapped_of(file)
    )
    asked = Asked(store.readings.finds, [by_key(), by_id(offset)])
    assert (asked.states, forgetful.asked) == ([LEFT, ANSWERED], HOPS_MAX + 1)


def test_memory_that_is_too_short_for_a_record_ends_the_asking(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (offset, *_) = fill(store, 8)
    found = bytes_at(store._log, offset)
    assert found is not None
    forgetful = Forgetful(found[0])
    nothing = np.frombuffer(forgetful.resident, np.uint8)
    monkeypatch.setattr(bulk_finds, "bytes_at", lambda *_: (forgetful, found[1]._replace(resident=nothing)))
    assert Asked(store.readings.finds, [by_id(offset), by_id(offset)]).states == [LEFT, LEFT]
    assert 2 * LOOKS_MAX <= forgetful.asked <= 2 * (LOOKS_MAX + 1)
