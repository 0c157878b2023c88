"""Refuse a store that holds what CometMQ does not read, or no CommitLog, before anything of it is changed.

Recovery cuts queues and index where the log ends. Without the log they would be cut to nothing: a wrong path
in a settings file, or a volume that is not mounted, must not do that.
"""

from collections.abc import Iterator
from pathlib import Path

from cometmq.errors import FormatError, SettingsError
from cometmq.format import layout
from cometmq.format.checkpoint import Checkpoint
from cometmq.io.files import FileLayer
from cometmq.io.regular import NotRegularFile
from cometmq.store import foreign
from cometmq.store.files.folders import files_in, queues_in, topics_in
from cometmq.store.files.spread import spread_of
from cometmq.store.settings import StoreSettings


def check_can_open(layer: FileLayer, root: Path, settings: StoreSettings) -> None:
    """Check that a store may be opened for writing: nothing in it is foreign, and its CommitLog is there.

    Raises SettingsError: see ``foreign.check`` and ``check_has_log``; nothing is written.
    """
    foreign.check(layer, root)
    check_has_log(layer, root, settings)


def check_has_log(layer: FileLayer, root: Path, settings: StoreSettings) -> None:
    """Check that a store which has held messages has a CommitLog; one that has held none needs none.

    Raises SettingsError, with what is there, what is missing, and the two ways on; nothing is written.
    """
    spread = spread_of(root, settings)
    has_files = any(True for _ in spread.files(layer))
    missing = [directory for directory in spread.directories if not layer.is_directory(directory)]
    if has_files and not missing:
        return
    sign = next(_signs_of_messages(layer, root), None)
    if missing and len(spread.directories) > 1 and (has_files or sign is not None):
        raise SettingsError(
            f"{missing[0]}: there is no such directory, and the CommitLog of {root} may have files in it: "
            "mount it, or correct storePathCommitLog or readOnlyCommitLogStorePaths; if it is new, create "
            "it. Nothing was changed"
        )
    if sign is not None and not has_files:
        raise SettingsError(
            f"{root}: has {sign}, but no CommitLog in {', '.join(map(str, spread.directories))}: where is "
            "its log? If it is elsewhere, name its directories as the broker that wrote it does: "
            "storePathCommitLog and readOnlyCommitLogStorePaths in a settings file, given with --config. If "
            "it is not mounted, mount it. To begin anew without these messages, move consumequeue, index and "
            "checkpoint out of the store first. Nothing was changed"
        )


def _signs_of_messages(layer: FileLayer, root: Path) -> Iterator[str]:
    topics = layout.consume_queues_dir(root)
    for topic in topics_in(layer, topics):
        if not layer.is_directory(topics / topic):
            continue
        for queue in queues_in(layer, topics / topic):
            folder = topics / topic / queue
            if layer.is_directory(folder) and files_in(layer, folder, layout.is_offset_name):
                yield f"the ConsumeQueue {folder.relative_to(root)}"
    for name in files_in(layer, layout.index_dir(root)):
        yield f"the index file {name}"
    try:
        checkpoint = Checkpoint.unpack(layer.load(layout.checkpoint_path(root)))
    except (FileNotFoundError, NotRegularFile, FormatError):
        return
    if checkpoint.physic_msg_timestamp > 0:
        yield f"a checkpoint of messages stored up to {checkpoint.physic_msg_timestamp} ms"
