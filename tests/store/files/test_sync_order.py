from pathlib import Path

from cometmq.store.files.sync_order import files_then_directories


def test_directories_come_after_their_files_and_inner_ones_first() -> None:
    root = Path("/store")
    first, second = root / "consumequeue/A/0/0", root / "consumequeue/A/1/0"
    assert list(files_then_directories([first, second], root))[:2] == [first, second]
    directories = list(files_then_directories([first, second], root))[2:]
    assert set(directories[:2]) == {root / "consumequeue/A/0", root / "consumequeue/A/1"}
    assert directories[2:] == [root / "consumequeue/A", root / "consumequeue", root]


def test_nothing_above_the_root_is_synced_and_of_nothing_nothing() -> None:
    assert list(files_then_directories([], Path("/store"))) == []
    assert list(files_then_directories([Path("/store/a")], Path("/store"))) == [
        Path("/store/a"),
        Path("/store"),
    ]
