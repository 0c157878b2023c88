"""A remote store as one machine's checks look at it: like a local one, with few requests."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.counted import CountedFiles

from cometmq.format import layout
from cometmq.io.files import Disk
from cometmq.spark.files import remote_files
from cometmq.spark.files.remote import RemotePath, path_of
from cometmq.spark.files.remote_files import BLOCKS_MAX, NEAR_BYTES, RemoteFiles, layer_of
from cometmq.store.verify import verify

STORE = path_of("counted://lake/broker-a")


@pytest.fixture
def local(golden: Mapping[str, Path], tmp_path: Path) -> Path:
    """Return a store with damage in its first file; its copy is where requests are counted."""
    store = Path(shutil.copytree(golden["store-clean"], tmp_path / "store"))
    with layout.commitlog_path(store, 0).open("r+b") as file:
        file.seek(400_000)
        file.write(bytes(50_000))
    files = [path for path in store.rglob("*") if path.is_file()]
    CountedFiles.start({f"lake/broker-a/{path.relative_to(store)}": path.read_bytes() for path in files})
    return store


def test_a_remote_store_is_checked_like_a_local_one(local: Path) -> None:
    assert isinstance(layer_of(local), Disk) and not isinstance(layer_of(local), RemoteFiles)
    found, expected = verify(STORE, layer=layer_of(STORE)), verify(local)
    assert found.state is expected.state and found.messages == expected.messages
    assert [one.what for one in found.findings] == [one.what for one in expected.findings]


def test_names_and_sizes_come_from_one_listing_of_a_folder(local: Path) -> None:
    layer, queues = layer_of(STORE), layout.consume_queues_dir(STORE)
    there = layout.consume_queues_dir(local)
    assert layer.names(queues) == sorted(path.name for path in there.iterdir())
    asked = CountedFiles.requests.total()
    for folder in (path for path in there.rglob("*") if path.is_dir()):
        remote = queues / folder.relative_to(there)
        assert layer.is_directory(remote) and layer.exists(remote)
        assert layer.names(remote) == sorted(path.name for path in folder.iterdir())
        sizes = [layer.size(remote / path.name) for path in folder.iterdir() if path.is_file()]
        assert sizes == [path.stat().st_size for path in folder.iterdir() if path.is_file()]
    assert not layer.exists(queues / "nothing") and not layer.is_directory(queues / "nothing")
    assert layer.names(queues / "nothing") == []
    with pytest.raises(FileNotFoundError, match="nothing: there is no such file"):
        layer.size(queues / "nothing")
    assert CountedFiles.requests.total() == asked
    assert layer.exists(layout.lock_path(STORE)) and not layer.exists(layout.abort_path(STORE))
    assert RemoteFiles().names(STORE / "nowhere") == []


def test_of_a_long_file_only_what_is_read_is_fetched(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = layout.commitlog_path(local, 0).read_bytes()
    path = layout.commitlog_path(STORE, 0)
    short = layer_of(STORE).open(path, writable=False)
    assert (short.read(100, 50), short.read(len(data) - 10, 50)) == (data[100:150], data[-10:])
    assert CountedFiles.requests["read"] == 1  # whole
    assert short.data_end(0) == len(data.rstrip(b"\0")) and short.data_end(len(data)) == len(data)
    assert CountedFiles.requests["read"] == 1
    monkeypatch.setattr(remote_files, "BLOCK", 100_000)
    CountedFiles.fetched.clear()
    file = layer_of(STORE).open(path, writable=False)
    assert (file.read(100, 50), file.read(len(data) - 10, 50)) == (data[100:150], data[-10:])
    assert file.read(4_000, 20) == data[4_000:4_020]  # near the first
    assert CountedFiles.requests["read"] == 3 and CountedFiles.fetched.total() == 2 * NEAR_BYTES
    assert file.read(NEAR_BYTES - 10, 200_000) == data[NEAR_BYTES - 10 : NEAR_BYTES + 199_990]
    assert CountedFiles.fetched.total() == 2 * NEAR_BYTES + 200_000
    assert (bytes(file.view()), file.size) == (data, len(data)) and file.read(7, 5) == data[7:12]
    assert CountedFiles.fetched.total() == 2 * NEAR_BYTES + 200_000 + len(data)
    assert file.data_end(0) >= len(data.rstrip(b"\0"))
    file.drop_pages()
    file.close()


@pytest.mark.usefixtures("local")
def test_few_blocks_of_a_long_file_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_files, "BLOCK", 100_000)
    monkeypatch.setattr(remote_files, "NEAR_BYTES", 1_000)
    file = layer_of(STORE).open(layout.commitlog_path(STORE, 0), writable=False)
    for _ in range(2):
        for number in range(BLOCKS_MAX + 1):
            assert len(file.read(number * 1_000, 4)) == 4
    assert CountedFiles.requests["read"] == 2 * (BLOCKS_MAX + 1)
    file.read(BLOCKS_MAX * 1_000, 4)
    assert CountedFiles.requests["read"] == 2 * (BLOCKS_MAX + 1)
    file.drop_pages()
    file.read(BLOCKS_MAX * 1_000, 4)
    assert CountedFiles.requests["read"] == 2 * (BLOCKS_MAX + 1) + 1


@pytest.mark.usefixtures("local")
def test_nothing_can_be_written() -> None:
    layer, path = layer_of(STORE), layout.checkpoint_path(STORE)
    with pytest.raises(OSError, match="cannot be written to"):
        layer.open(path, writable=True)
    file = layer.open(path, writable=False)
    for write in (
        lambda: file.write(0, b"a"),
        file.sync,
        lambda: file.reserve(0, 1),
        lambda: file.window(0, 1),
    ):
        with pytest.raises(OSError, match="cannot be written to"):
            write()
    assert file.read_ready(0, 1) is None and file.mapped() is None and file.unused_pages() is None


@pytest.mark.usefixtures("local")
def test_addresses_may_have_become_paths() -> None:
    path = layout.checkpoint_path(Path("counted:/lake/broker-a"))
    assert not isinstance(path, RemotePath)
    assert len(layer_of(STORE).load(path)) == layer_of(STORE).size(path) > 0
