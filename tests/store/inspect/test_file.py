"""Which kind a store file is."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from cometmq.errors import SettingsError
from cometmq.io.files import Disk
from cometmq.store import StoreSettings
from cometmq.store.inspect import Kind, open_file

FILES = {
    "commitlog/00000000000001048576": (Kind.COMMIT_LOG, 1_048_576),
    "consumequeue/GoldenC/0/00000000000000006000": (Kind.CONSUME_QUEUE, 6_000),
    "index/20261121071241079": (Kind.INDEX, 0),
    "checkpoint": (Kind.CHECKPOINT, 0),
    "config/topics.json": (Kind.TABLE, 0),
    "config/topics.json.bak": (Kind.TABLE, 0),
    "lock": (Kind.LOCK, 0),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_in_its_place_is_known(golden: Mapping[str, Path], name: str) -> None:
    with open_file(Disk(), golden["store-clean"] / name) as file:
        assert (file.kind, file.base_offset) == FILES[name]
        assert list(file.rows())


@pytest.mark.parametrize("name", [name for name in FILES if name != "lock"])
def test_a_copy_elsewhere_is_known_by_what_it_holds(
    golden: Mapping[str, Path], tmp_path: Path, name: str
) -> None:
    shutil.copy(golden["store-clean"] / name, tmp_path / "copy")
    kind, base_offset = FILES[name]
    with open_file(Disk(), tmp_path / "copy") as file:
        assert file.kind is kind
        if kind is Kind.COMMIT_LOG:
            assert file.base_offset == base_offset


def test_a_file_of_a_log_elsewhere_is_known_by_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "disk" / "00000000000000004096"
    path.parent.mkdir()
    path.write_bytes(bytes(4_096))  # nothing in it tells
    settings = StoreSettings(store_path_commit_log=f"{path.parent},/other")
    with open_file(Disk(), path, settings) as file:
        assert (file.kind, file.base_offset) == (Kind.COMMIT_LOG, 4_096)


def test_the_file_of_an_extension_is_known_by_its_place(golden: Mapping[str, Path]) -> None:
    path = golden["store-extended"] / "consumequeue_ext/BySql/0/00000000000000000500"
    with open_file(Disk(), path) as file:
        assert (file.kind, file.base_offset) == (Kind.CONSUME_QUEUE_EXT, 500)
        rows = list(file.rows())
        assert [row.what for row in rows] == ["unit"] * (len(rows) - 1) + ["blank"]
        assert next(file.rows(520)).position == 20


@pytest.mark.parametrize("name", ["timerwheel", "timerlog/00000000000000000000", "config/timercheck"])
def test_files_of_the_timer_are_refused(golden: Mapping[str, Path], name: str) -> None:
    with pytest.raises(SettingsError, match="is no store file that can be shown"):
        open_file(Disk(), golden["store-clean"] / name)


def test_what_is_no_store_file_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"hello"):
        (tmp_path / "other").write_bytes(content)
        with pytest.raises(SettingsError, match="is no store file"):
            open_file(Disk(), tmp_path / "other")


def test_a_file_is_shown_from_a_place_in_it(golden: Mapping[str, Path]) -> None:
    root = golden["store-clean"]
    with open_file(Disk(), root / "commitlog" / "00000000000001048576") as file:
        assert next(file.rows(1_048_576 + 5)).position == 29_259
        with pytest.raises(SettingsError, match="holds CommitLog offsets 1048576 to 2097151"):
            file.rows(5)
    with open_file(Disk(), root / "consumequeue" / "GoldenC" / "0" / "00000000000000006000") as file:
        assert next(file.rows(302)).position == 40
        with pytest.raises(SettingsError, match="holds queue offsets 300 to 599"):
            file.rows(299)
    with open_file(Disk(), root / "index" / "20261121071241079") as file:
        assert next(file.rows(17)).fields[0].value == 17


def test_an_index_file_whose_sizes_are_wrong_asks_for_the_settings(
    golden: Mapping[str, Path], tmp_path: Path
) -> None:
    path = golden["store-clean"] / "index" / "20261121071241079"
    with (
        open_file(Disk(), path, StoreSettings()) as file,
        pytest.raises(SettingsError, match="not the 420000040 of 5000000 slots"),
    ):
        file.rows()
    odd = tmp_path / "index" / path.name
    odd.parent.mkdir()
    odd.write_bytes(path.read_bytes()[:-4])
    with open_file(Disk(), odd) as file, pytest.raises(SettingsError, match="--config"):
        file.rows()


def test_a_table_that_is_broken_is_shown_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_bytes(b'{"a":')
    with open_file(Disk(), tmp_path / "topics.json") as file:
        (row,) = file.rows()
    assert (row.what, row.fields[0].value) == ("damaged", '{"a":')
