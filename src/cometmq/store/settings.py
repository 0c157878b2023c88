"""The store's settings: RocketMQ's names and defaults, checked when they are read.

One default differs: ``writeWithoutMmap`` is true, as writing through the file channel is the safe way here.
Files and the wire use RocketMQ's name (``mappedFileSizeCommitLog``), code the same words in snake case.
"""

import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, field

from cometmq.errors import SettingsError
from cometmq.format.checksum import Crc
from cometmq.format.queue_entry import SIZE as QUEUE_ENTRY_SIZE
from cometmq.format.timer.wheel import SLOTS
from cometmq.settings.values import SettingsGroup, settings_from

Positive = Annotated[int, Meta(ge=1)]
FILE_SIZE_MIN: Final = 4096
FileSize = Annotated[int, Meta(ge=FILE_SIZE_MIN, le=2**31 - 1)]
QueueFileSize = Annotated[int, Meta(ge=QUEUE_ENTRY_SIZE, le=2**31 // QUEUE_ENTRY_SIZE * QUEUE_ENTRY_SIZE)]
"""Rounded up to whole entries, Java must still be able to map it."""
Ratio = Annotated[int, Meta(ge=1, le=100)]
Hours = Annotated[
    str,
    Meta(pattern=r"^\s*([01]?\d|2[0-3])\s*(;\s*([01]?\d|2[0-3])\s*)*;?\s*$", examples=["04", "04;16"]),
]
"""Hours of the day, joined by ``;``."""

EXT_SIZE_MIN: Final = 256
"""Least length of a ConsumeQueueExt file, in bytes."""
PAGE_SIZE: Final = 4096
"""Bytes of a page of the settings, whatever the machine's pages (RocketMQ: ``OS_PAGE_SIZE``)."""
TIMER_BLANK_SLOTS: Final = 60
"""Slots by which the longest roll window is shorter than half a wheel (RocketMQ: ``TimerMessageStore``)."""
TIMER_PRECISIONS_MS: Final = (100, 200, 500, 1_000)

MEMORY_BYTES: Final = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
"""The machine's memory."""


_LOG: Final = "storePathCommitLog"
_READ_ONLY_LOG: Final = "readOnlyCommitLogStorePaths"


class FlushDiskType(Enum):
    """When a send is acknowledged: in the page cache (ASYNC_FLUSH) or on the disk (SYNC_FLUSH)."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class StoreSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """The store's settings. Sizes in bytes, intervals in ms (RocketMQ: ``MessageStoreConfig``).

    Attributes:
        store_path_commit_log: the directory of the CommitLog, if that is not ``commitlog`` in the store's; or
            several, joined by commas: new files go to them by turns.
        read_only_commit_log_store_paths: more of these, to which no new files go. If the log's last file is
            there, it is filled; expired files are removed there, too.
        mapped_file_size_commit_log: length of a CommitLog file.
        mapped_file_size_consume_queue: length of a ConsumeQueue file, rounded up to whole entries.
        enable_consume_queue_ext: whether queue entries get an extension: which filters their messages pass.
        mapped_file_size_consume_queue_ext: length of a ConsumeQueueExt file.
        max_hash_slot_num: slots of an index file.
        max_index_num: entries of an index file.
        message_index_enable: whether messages can be found by key.
        flush_disk_type: whether a send waits for the disk.
        sync_flush_timeout: longest time that a send waits for the disk.
        flush_interval_commit_log: interval of syncs of the CommitLog under ASYNC_FLUSH …
        flush_commit_log_least_pages: … if at least this many 4 KiB pages are unsynced …
        flush_commit_log_thorough_interval: … or this much time has passed.
        flush_commit_log_timed: sleep each interval through, or else end it as soon as so many pages are
            unsynced, when a commit of the transient store pool shows it …
        wake_flush_when_put_message: … or, without the pool, an append.
        duplication_enable: whether another program replicates the store: messages can be read once it has
            confirmed them, by ``MessageStore.confirm``, and after a restart.
        write_without_mmap: write the CommitLog through the file channel, or else through a mapped file …
        transient_store_pool_enable: … or into buffers of the process first: see ``store/log/write_path.py``.
        transient_store_pool_size: number of these buffers, each of a CommitLog file's length.
        fast_fail_if_no_buffer_in_store_pool: refuse messages rather than create another buffer.
        commit_interval_commit_log: interval of commits from the buffers to the CommitLog's files …
        commit_commit_log_least_pages: … if at least this many 4 KiB pages are uncommitted …
        commit_commit_log_thorough_interval: … or this much time has passed.
        wake_commit_when_put_message: commit without waiting for the interval once there are so many pages.
        warm_maped_file_enable: touch each page of a CommitLog file before the file is used …
        flush_least_pages_when_warm_maped_file: … so many pages at a time, under SYNC_FLUSH synced each time.
        flush_interval_consume_queue: the same three for ConsumeQueues and Index.
        flush_consume_queue_least_pages: see above.
        flush_consume_queue_thorough_interval: see above.
        file_reserved_time: hours that a CommitLog file is kept after the last write to it.
        delete_when: the hours of the day, local time, at which older files are deleted: ``04`` or ``04;16``.
        disk_max_used_space_ratio: disk use, in percent, above which older files are deleted at any hour …
        disk_space_clean_forcibly_ratio: … above which younger ones are deleted too …
        disk_space_warning_level_ratio: … above which messages are refused: see ``DiskSpace``.
        clean_file_forcibly_enable: whether younger files are ever deleted.
        clean_resource_interval: interval of these checks.
        delete_file_batch_max: most CommitLog files deleted by one check.
        delete_commit_log_files_interval: the pause after each of them …
        delete_consume_queue_files_interval: … and after each queue that loses files with them.
        enabled_append_prop_crc: end each record in a checksum over all of it: see ``format/property_crc.py``.
        force_verify_prop_crc: check it in each record that is read, in place of the body's.
        os_page_cache_busy_time_out_mills: an append that takes longer shows that the page cache is busy.
        max_message_size: largest body.
        message_delay_level: the delays of the delay levels, from level 1 on.
        access_message_in_memory_max_ratio: share of the machine's memory, in percent, that the newest part of
            the log takes: this part counts as being in memory.
        max_transfer_count_on_message_in_memory: most messages that one read returns from there …
        max_transfer_bytes_on_message_in_memory: … and most bytes.
        max_transfer_count_on_message_in_disk: the same two for older messages.
        max_transfer_bytes_on_message_in_disk: see above.
        max_filter_message_size: most bytes of ConsumeQueue that one filtered read scans.
        max_msgs_num_batch: most messages that one query by key returns.
        timer_wheel_enable: whether messages may be timed, that is delivered at any later time …
        timer_precision_ms: … which is rounded to so much …
        timer_max_delay_sec: … and may be so far off, s.
        timer_roll_window_slot: messages due later than this, in units of the precision, wait in stages.
        append_topic_for_timer_delete_key: whether a recall names its message's topic, too: RocketMQ 5.3.2 and
            5.3.3 understand only that. Stored recalls are understood either way.
        timer_flush_interval_ms: interval of syncs of the timer's files.
        mapped_file_size_timer_log: length of a timer log's file.
    """

    store_path_commit_log: str = ""
    read_only_commit_log_store_paths: str = ""
    mapped_file_size_commit_log: FileSize = 1024 * 1024 * 1024
    mapped_file_size_consume_queue: QueueFileSize = 6_000_000
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: Annotated[int, Meta(ge=EXT_SIZE_MIN, le=2**31 - 1)] = 48 * 1024 * 1024
    max_hash_slot_num: Annotated[int, Meta(ge=1, le=100_000_000)] = 5_000_000
    max_index_num: Annotated[int, Meta(ge=2, le=100_000_000)] = 20_000_000
    message_index_enable: bool = True
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    sync_flush_timeout: Positive = 5_000
    flush_interval_commit_log: Positive = 500
    flush_commit_log_least_pages: Annotated[int, Meta(ge=0)] = 4
    flush_commit_log_thorough_interval: Positive = 10_000
    flush_commit_log_timed: bool = True
    wake_flush_when_put_message: bool = False
    duplication_enable: bool = False
    write_without_mmap: bool = True
    transient_store_pool_enable: bool = False
    transient_store_pool_size: Annotated[int, Meta(ge=1, le=1_000)] = 5
    fast_fail_if_no_buffer_in_store_pool: bool = False
    commit_interval_commit_log: Positive = 200
    commit_commit_log_least_pages: Annotated[int, Meta(ge=0)] = 4
    commit_commit_log_thorough_interval: Positive = 200
    wake_commit_when_put_message: bool = True
    warm_maped_file_enable: bool = False
    flush_least_pages_when_warm_maped_file: Positive = 4_096
    flush_interval_consume_queue: Positive = 1_000
    flush_consume_queue_least_pages: Annotated[int, Meta(ge=0)] = 2
    flush_consume_queue_thorough_interval: Positive = 60_000
    file_reserved_time: Annotated[int, Meta(ge=0, le=1_000_000)] = 72
    delete_when: Hours = "04"
    disk_max_used_space_ratio: Ratio = 75
    disk_space_clean_forcibly_ratio: Ratio = 85
    disk_space_warning_level_ratio: Ratio = 90
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: Positive = 10_000
    delete_file_batch_max: Positive = 10
    delete_commit_log_files_interval: Annotated[int, Meta(ge=0)] = 100
    delete_consume_queue_files_interval: Annotated[int, Meta(ge=0)] = 100
    enabled_append_prop_crc: bool = field(default=False, name="enabledAppendPropCRC")
    force_verify_prop_crc: bool = field(default=False, name="forceVerifyPropCRC")
    os_page_cache_busy_time_out_mills: Positive = 1_000
    max_message_size: Annotated[int, Meta(ge=1, le=16 * 1024 * 1024)] = 4 * 1024 * 1024
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    access_message_in_memory_max_ratio: Ratio = 40
    max_transfer_count_on_message_in_memory: Positive = 32
    max_transfer_bytes_on_message_in_memory: Positive = 256 * 1024
    max_transfer_count_on_message_in_disk: Positive = 8
    max_transfer_bytes_on_message_in_disk: Positive = 64 * 1024
    max_filter_message_size: Positive = 16_000
    max_msgs_num_batch: Positive = 64
    timer_wheel_enable: bool = True
    timer_precision_ms: Annotated[int, Meta(ge=100, le=1_000)] = 1_000
    timer_max_delay_sec: Positive = 3 * 24 * 3600
    timer_roll_window_slot: int = 2 * 24 * 3600
    append_topic_for_timer_delete_key: bool = False
    timer_flush_interval_ms: Positive = 1_000
    mapped_file_size_timer_log: FileSize = 100 * 1024 * 1024

    def __post_init__(self) -> None:
        """Check settings that exclude each other. Raises SettingsError."""
        if self.sync_flush and self.transient_store_pool_enable:
            raise SettingsError(
                "transientStorePoolEnable = true with flushDiskType = SYNC_FLUSH: the pool acknowledges a "
                "message before it is on the disk; change one of them"
            )
        if self.force_verify_prop_crc and not self.enabled_append_prop_crc:
            raise SettingsError(
                "forceVerifyPropCRC = true without enabledAppendPropCRC = true: stored records would count "
                "as damaged; set both, or neither"
            )
        if self.timer_precision_ms not in TIMER_PRECISIONS_MS:
            raise SettingsError(
                f"timerPrecisionMs = {self.timer_precision_ms}: use one of "
                f"{', '.join(map(str, TIMER_PRECISIONS_MS))}"
            )

    @property
    def names_log(self) -> bool:
        """Whether the settings name directories of the CommitLog, rather than leave it in the store's own."""
        return bool(self.store_path_commit_log.strip() or self.read_only_commit_log_store_paths.strip())

    @property
    def sync_flush(self) -> bool:
        """Whether a send waits for the disk."""
        return self.flush_disk_type is FlushDiskType.SYNC_FLUSH

    @property
    def crc(self) -> Crc:
        """The checksum that is checked in a record."""
        return Crc.RECORD if self.force_verify_prop_crc else Crc.BODY

    @property
    def reads_later(self) -> bool:
        """Whether appended messages can be read only after a sync or a commit."""
        return self.sync_flush or self.transient_store_pool_enable

    @property
    def wakes_flush(self) -> bool:
        """Whether an append under ASYNC_FLUSH wakes the flusher."""
        return self.wake_flush_when_put_message and not (self.flush_commit_log_timed or self.reads_later)

    @property
    def in_memory_bytes(self) -> int:
        """Size of the log's newest part, which counts as being in memory; the rest counts as on the disk."""
        return MEMORY_BYTES * self.access_message_in_memory_max_ratio // 100

    @property
    def timer_roll_window(self) -> int:
        """``timer_roll_window_slot``, where values out of range mean nearly a week, as in RocketMQ."""
        most = SLOTS // 2 - TIMER_BLANK_SLOTS
        return self.timer_roll_window_slot if 2 <= self.timer_roll_window_slot <= most else most

    @property
    def queue_file_size(self) -> int:
        """Length of a ConsumeQueue file: whole entries only, as RocketMQ rounds it."""
        return -(-self.mapped_file_size_consume_queue // QUEUE_ENTRY_SIZE) * QUEUE_ENTRY_SIZE


def known_names() -> frozenset[str]:
    """Return the names of the settings in files."""
    return frozenset(StoreSettings.__struct_encode_fields__)


def for_store(values: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return a file's names and values as they hold for the store under ``root``, maybe a copy of its own.

    Raises SettingsError if the file is another store's, and that one's CommitLog is elsewhere: a copy must
    not be served, or changed, with it.
    """
    held = dict(values)
    own = str(values.get("storePathRootDir", "")).strip()
    if not own or Path(own).resolve() == root.resolve():
        return held
    if str(held.get(_LOG, "")).strip() == f"{own.rstrip('/')}/commitlog":
        del held[_LOG]
    named = next((name for name in (_LOG, _READ_ONLY_LOG) if str(held.get(name, "")).strip()), None)
    if named is not None:
        raise SettingsError(
            f"setting {named} = {held[named]} is that of the store {own}, and would be the CommitLog of "
            f"{root}, too: for a copy of that store, give a file whose storePathRootDir is {root}, and whose "
            f"{named} names the copy of its log"
        )
    return held


def from_properties(values: Mapping[str, Any]) -> StoreSettings:
    """Build settings from a file's names and values; names that are not the store's are ignored.

    Raises SettingsError, which names the setting, its value and its limit.
    """
    return settings_from(StoreSettings, values)
