"""The parts of an open store, which are built and recovered together."""

from dataclasses import dataclass
from pathlib import Path

from cometmq.format import layout
from cometmq.format.delay_level import DelayLevels
from cometmq.io.open_files import OpenFiles
from cometmq.store.checkpoint import CheckpointFile
from cometmq.store.files.spread import spread_of
from cometmq.store.index.index import Index
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.ledger import Ledger
from cometmq.store.queue.queues import Queues
from cometmq.store.settings import StoreSettings


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the store under ``root``; ``index`` is None if messages are not indexed."""

    root: Path
    files: OpenFiles
    log: CommitLog
    queues: Queues
    index: Index | None
    checkpoint: CheckpointFile
    ledger: Ledger
    delay_levels: DelayLevels


def make_parts(root: Path, files: OpenFiles, settings: StoreSettings) -> Parts:
    """Build the parts; nothing is loaded yet."""
    index = None
    if settings.message_index_enable:
        index = Index(files, root, settings.max_hash_slot_num, settings.max_index_num)
    return Parts(
        root,
        files,
        CommitLog(files, spread_of(root, settings), settings.mapped_file_size_commit_log, settings),
        Queues(files, root, settings.queue_file_size, _ext_size(root, files, settings)),
        index,
        CheckpointFile(files, layout.checkpoint_path(root)),
        Ledger(files.layer, root),
        DelayLevels.parse(settings.message_delay_level),
    )


def _ext_size(root: Path, files: OpenFiles, settings: StoreSettings) -> int:
    """Return the length of ConsumeQueueExt files; 0 if the store neither has nor shall get any."""
    has_files = files.layer.is_directory(layout.consume_queue_exts_dir(root))
    is_used = settings.enable_consume_queue_ext or has_files
    return settings.mapped_file_size_consume_queue_ext if is_used else 0
