"""Looking at what is derived before a store is opened: a queue or an index that is damaged is made anew.

A store that is not larger than CHECKED_BYTES is checked as ``cometmq store verify`` does, in some tenths of a
second. Queues and index files that are not what the log says are moved to ``setaside/``, and recovery then
dispatches the log to new ones. Damage in the log itself is left to recovery, which reports it and passes it
over. Of larger stores ``store verify`` tells, and each message is looked at as it is read.

Where an entry and its record differ, it may be the record that is damaged, in a field without a checksum. The
entry is damaged unless its record is claimed by no other.
"""

import logging
from pathlib import Path
from typing import Final

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.format.delay_level import SCHEDULE_TOPIC, may_be_due
from cometmq.format.dispatch import DispatchEntry, dispatch_of
from cometmq.format.queue_entry import SIZE, QueueEntry, unpack
from cometmq.format.record import record_at
from cometmq.format.scan import Stop, check
from cometmq.io.files import FileLayer
from cometmq.store.finding import Finding, Severity
from cometmq.store.folders import files_in, topics_in
from cometmq.store.offline.directory import StoreDirectory
from cometmq.store.recovery.torn import stored_without_crc
from cometmq.store.settings import StoreSettings
from cometmq.store.verify import verify

log = logging.getLogger(__name__)

CHECKED_BYTES: Final = 64 * 1024 * 1024
CHECKED_QUEUES: Final = 1_000
SET_ASIDE: Final = "setaside"


def mend(root: Path, settings: StoreSettings, layer: FileLayer) -> bool:
    """Set aside what is derived and damaged; tell whether there was any: the log must be walked as a whole.

    Raises OSError if the disk refuses.
    """
    if not files_in(layer, layout.commitlog_dir(root)):
        return False
    try:
        with StoreDirectory(root, settings, layer) as store:
            if not _is_small(store) or any(found.severity is Severity.DAMAGE for found in store.findings):
                return False
            verified = verify(root, settings, layer=layer)
            if stored_without_crc(store.log, store.log.min_offset + verified.bytes) is not None:
                return False  # recovery says so
            places = [found for found in verified.findings if found.position is not None]
            damages = [found for found in places if found.severity is Severity.DAMAGE]
            queues = {found.path.parent for found in damages if _is_unsound_queue(store, found)}
            index = _unsound_index(store, {found.path for found in places})
    except SettingsError:
        return False
    for found in damages:
        log.error("%s", found)
    if any(found.path.parent == layout.commitlog_dir(root) and found.size is not None for found in damages):
        index = set()  # that keys point to a damaged record is no fault of the index
    for path in sorted(queues | index):
        _set_aside(root, path, layer)
    return bool(queues or index)


def _is_small(store: StoreDirectory) -> bool:
    topics = layout.consume_queues_dir(store.root)
    queues = sum(len(store.layer.names(topics / topic)) for topic in topics_in(store.layer, topics))
    return store.data_bytes() <= CHECKED_BYTES and queues <= CHECKED_QUEUES


def _is_unsound_queue(store: StoreDirectory, found: Finding) -> bool:
    """Tell whether a finding is of a queue's file, and it is the entry that is damaged, not its record."""
    if layout.consume_queues_dir(store.root) not in found.path.parents or found.position is None:
        return False
    topic, queue_id = found.path.parent.parent.name, layout.parse_queue_id(found.path.parent.name)
    position = layout.parse_offset_name(found.path.name) + found.position
    place = (topic, queue_id, position // SIZE)
    entry = _entry(store, *place)
    if entry is None or (record := _dispatched(store, entry)) is None:
        return True  # it points to no record
    claimed = (record.topic, record.queue_id, record.queue_offset)
    if claimed == place:
        if topic == SCHEDULE_TOPIC and may_be_due(record.tags_code, record.store_time):
            return not may_be_due(entry.tags_code, record.store_time)
        return entry.tags_code != record.tags_code  # else another record says by mistake that it is there
    other = _entry(store, *claimed)
    if other is not None and other[:2] == entry[:2]:
        return True  # to one that has its own entry
    log.error(
        "%s: a field of its record is damaged, which says that it is %s-%d, queue offset %d", found, *claimed
    )
    return False


def _unsound_index(store: StoreDirectory, damaged: set[Path]) -> set[Path]:
    """Give all index files if one of them is damaged: keys go in by the order of the log.

    Where in that order a file belongs says its header, which may be what is damaged. What a kill leaves of an
    index cannot be told from damage, and is made anew too.
    """
    paths = {view.path for view in store.index([])}
    return set() if paths.isdisjoint(damaged) else paths


def _entry(store: StoreDirectory, topic: str, queue_id: int, queue_offset: int) -> QueueEntry | None:
    """Give the entry at a queue offset as it lies in the file; None if there is none."""
    directory = layout.consume_queues_dir(store.root) / topic / str(queue_id)
    if queue_offset < 0 or not store.layer.exists(directory):
        return None
    chain = store.queue(topic, queue_id).chain
    chain.look()
    data = chain.read(queue_offset * SIZE, SIZE)
    return unpack(data) if len(data) == SIZE else None


def _dispatched(store: StoreDirectory, entry: QueueEntry) -> DispatchEntry | None:
    """Give what the record that an entry points to puts into its queue; None if it points to none."""
    chain = store.log.chain
    start = chain.start_of(entry.physical_offset)
    if start is None:
        return None
    view = chain.file(start).view()
    head = check(view, entry.physical_offset - start, len(view), base_offset=start, crc=store.settings.crc)
    if isinstance(head, Stop) or head.size != entry.size:
        return None
    return dispatch_of(record_at(view, head), store.delay_levels)


def _set_aside(root: Path, path: Path, layer: FileLayer) -> None:
    """Move a queue's directory, or an index file, out of the way."""
    target = root / SET_ASIDE / "-".join(path.relative_to(root).parts)
    number = 0
    while layer.exists(free := target.with_name(f"{target.name}.{number}")):
        number += 1
    layer.make_directory(free.parent)
    layer.rename(path, free)
    log.warning("%s is set aside as %s, and made anew from the CommitLog", path, free.name)
