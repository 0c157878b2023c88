"""Files of the log as kernels take them: where they begin and end, and where there is none."""

import errno
from pathlib import Path

import pytest
from tests.store.conftest import OpenStore, new_message

from cometmq.io.files import File
from cometmq.store.log_bytes import NOWHERE, bytes_at
from cometmq.testing.memory_disk import MemoryDisk


def test_a_file_is_given_up_to_where_it_can_be_read(open_store: OpenStore) -> None:
    store = open_store()
    first = store.append([new_message()])[0].physical_offset
    found = bytes_at(store._log, first)
    assert found is not None
    mapped, data = found
    assert (data.begin, data.end) == (0, store._log.committed_offset)
    assert data.data[: data.end].tobytes() == bytes(mapped.view[: data.end])
    assert len(data.resident) == len(mapped.resident)
    assert NOWHERE.begin == NOWHERE.end == 0


def test_there_is_nothing_where_nothing_is_written_or_nothing_is_known(
    open_store: OpenStore, disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    store.append([new_message()])
    for offset in (store._log.committed_offset, -1, 1 << 50):
        assert bytes_at(store._log, offset) is None
    disk.cold = True
    assert bytes_at(store._log, 0) is None
    disk.cold = False

    def refuse(_: object, path: Path, *, writable: bool) -> File:
        raise OSError(errno.EIO, f"{path} {writable}")

    store._parts.files.close()
    monkeypatch.setattr(type(disk), "open", refuse)
    assert bytes_at(store._log, 0) is None
