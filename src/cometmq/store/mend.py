"""Check derived files before a store is opened, and set damaged queues and indexes aside to be rebuilt.

A store of at most CHECKED_BYTES is checked as ``cometmq store verify`` does, in some tenths of a second.
Queues and index files that differ from the log are moved to ``setaside/``, and recovery then dispatches the
log to new ones. Damage in the log itself is left to recovery, which reports and skips it. Larger stores are
not checked: ``store verify`` does that on demand, and each message is checked as it is read.

Where an entry and its record differ, the record may be the damaged one, in a field without a checksum. So the
entry counts as damaged unless no other entry claims its record.
"""

from pathlib import Path
from typing import Final

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.format.delay_level import SCHEDULE_TOPIC, may_be_due
from cometmq.format.dispatch import LIGHT_QUEUE_ID, DispatchEntry, dispatch_of
from cometmq.format.queue_entry import SIZE, QueueEntry, unpack
from cometmq.format.record import record_at
from cometmq.format.scan import Stop, check
from cometmq.io.files import FileLayer
from cometmq.logs import get_logger
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.finding import Finding, Severity
from cometmq.store.files.folders import topics_in
from cometmq.store.files.set_aside import move_aside
from cometmq.store.files.spread import spread_of
from cometmq.store.log.torn import stored_without_crc
from cometmq.store.settings import StoreSettings
from cometmq.store.verify import verify

log = get_logger(__name__)

CHECKED_BYTES: Final = 64 * 1024 * 1024
CHECKED_QUEUES: Final = 1_000


def mend(root: Path, settings: StoreSettings, layer: FileLayer) -> bool:
    """Set aside damaged derived files; return whether there were any: the whole log must be dispatched then.

    Raises OSError on a disk error.
    """
    spread = spread_of(root, settings)
    if not any(True for _ in spread.files(layer)):
        return False
    try:
        with StoreDirectory(root, settings, layer) as store:
            if not _is_small(store) or any(found.severity is Severity.DAMAGE for found in store.findings):
                return False
            verified = verify(root, settings, layer=layer)
            if stored_without_crc(store.log, store.log.min_offset + verified.bytes) is not None:
                return False  # recovery raises an error for it
            places = [found for found in verified.findings if found.position is not None]
            damages = [found for found in places if found.severity is Severity.DAMAGE]
            queues = {found.path.parent for found in damages if _is_damaged_entry(store, found)}
            index = _damaged_index(store, {found.path for found in places})
    except SettingsError:
        return False
    for found in damages:
        log.error("%s", found)
    if any(found.path.parent in spread.directories and found.size is not None for found in damages):
        index = set()  # the index is sound: its keys point to a damaged record
    for path in sorted(queues | index):
        aside = move_aside(layer, root, path)
        log.warning("%s is set aside as %s, and rebuilt from the CommitLog", path, aside.name)
    return bool(queues or index)


def _is_small(store: StoreDirectory) -> bool:
    topics = layout.consume_queues_dir(store.root)
    queues = sum(len(store.layer.names(topics / topic)) for topic in topics_in(store.layer, topics))
    return store.data_bytes() <= CHECKED_BYTES and queues <= CHECKED_QUEUES


def _is_damaged_entry(store: StoreDirectory, found: Finding) -> bool:
    """Check whether a finding is about a queue's file, and the entry is damaged, not its record."""
    if layout.consume_queues_dir(store.root) not in found.path.parents or found.position is None:
        return False
    topic, queue_id = found.path.parent.parent.name, layout.parse_queue_id(found.path.parent.name)
    position = layout.parse_offset_name(found.path.name) + found.position
    place = (topic, queue_id, position // SIZE)
    entry = _entry(store, *place)
    if entry is None or (record := _dispatched(store, entry)) is None:
        return True  # it points to no record
    claimed = (record.topic, record.queue_id, record.queue_offset)
    if claimed == place or (queue_id == LIGHT_QUEUE_ID and record.light_offsets.get(topic) == place[2]):
        if topic == SCHEDULE_TOPIC and may_be_due(record.tags_code, record.store_time):
            return not may_be_due(entry.tags_code, record.store_time)
        return entry.tags_code != record.tags_code  # else another record claims this place by mistake
    other = _entry(store, *claimed)
    if other is not None and other[:2] == entry[:2]:
        return True  # it points to a record that has its own entry
    log.error(
        "%s: a field of its record is damaged: by the record it is %s-%d, queue offset %d", found, *claimed
    )
    return False


def _damaged_index(store: StoreDirectory, damaged: set[Path]) -> set[Path]:
    """Return all index files if one of them is damaged, since keys are indexed in the order of the log.

    A file's place in that order is in its header, which may be damaged. An index left by a kill looks the
    same as a damaged one, and is rebuilt too.
    """
    paths = {view.path for view in store.index([])}
    return set() if paths.isdisjoint(damaged) else paths


def _entry(store: StoreDirectory, topic: str, queue_id: int, queue_offset: int) -> QueueEntry | None:
    """Return the entry at a queue offset as it is in the file; None if there is none."""
    directory = layout.consume_queues_dir(store.root) / topic / str(queue_id)
    if queue_offset < 0 or not store.layer.exists(directory):
        return None
    chain = store.queue(topic, queue_id).chain
    chain.find_files()
    data = chain.read(queue_offset * SIZE, SIZE)
    return unpack(data) if len(data) == SIZE else None


def _dispatched(store: StoreDirectory, entry: QueueEntry) -> DispatchEntry | None:
    """Return what the dispatch of an entry's record gives; None if the entry points to no record."""
    chain = store.log.chain
    start = chain.start_of(entry.physical_offset)
    if start is None:
        return None
    view = chain.file(start).view()
    head = check(view, entry.physical_offset - start, len(view), base_offset=start, crc=store.settings.crc)
    if isinstance(head, Stop) or head.size != entry.size:
        return None
    return dispatch_of(record_at(view, head), store.delay_levels)
