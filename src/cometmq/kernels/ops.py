"""The bulk operations, their values, and what they promise, whoever carries them out.

``plain`` says in readable Python what each operation means; ``compiled`` does the same with Numba. Both
modules are an ``Ops``. Results are structs of arrays: one numpy array per field, one place per record.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cometmq.format.checksum import Crc
from cometmq.format.delay_level import DelayLevels
from cometmq.format.queue_entry import SIZE as ENTRY_SIZE
from cometmq.format.scan import StopReason
from cometmq.message import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

    from cometmq.kernels.pulls import PullOps
    from cometmq.kernels.queries import QueryOps
    from cometmq.kernels.sends import SendOps

Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

PAGE_SIZE: Final = 4096


class Scan(NamedTuple):
    """The records that a scan met. Positions are bytes in the scanned buffer.

    Attributes:
        physical_offset: as the record has it, which is ``base_offset + position`` unless that is None.
        topic_position, body_position, properties_position: where these bytes begin; ``…_length`` of them.
        born_host_position, store_host_position: address (4 or 16 bytes), then port (4 bytes).
        stop_position: the first byte that was not scanned.
        stop_reason: why it was not.
    """

    position: Longs
    queue_offset: Longs
    physical_offset: Longs
    born_time: Longs
    store_time: Longs
    prepared_transaction_offset: Longs
    topic_position: Longs
    body_position: Longs
    properties_position: Longs
    born_host_position: Longs
    store_host_position: Longs
    size: Ints
    queue_id: Ints
    flag: Ints
    sys_flag: Ints
    reconsume_times: Ints
    body_crc: Ints
    topic_length: Ints
    body_length: Ints
    properties_length: Ints
    born_host_length: Ints
    store_host_length: Ints
    stop_position: int
    stop_reason: StopReason

    @property
    def count(self) -> int:  # type: ignore[override]  # a tuple's own count() is of no use here
        """How many records there are."""
        return len(self.position)


class Dispatch(NamedTuple):
    """What scanned records put into the ConsumeQueues and the Index: see ``format.dispatch``.

    Attributes:
        queues: topic and queue id of each queue met, in the order of their first records.
        queue: by record, which of ``queues`` it belongs to.
        tags_code: by record, the queue entry's tags code.
        in_queue: by record, whether it gets a queue entry.
        in_index: by record, whether it is indexed.
        key_hash: by key, in the order in which the index takes them.
        key_record: by key, its record's place in the scan; only records that are indexed occur.
    """

    queues: list[tuple[str, int]]
    queue: Ints
    tags_code: Longs
    in_queue: Flags
    in_index: Flags
    key_hash: Ints
    key_record: Longs


class Keys(NamedTuple):
    """What records put into the Index, key by key in its order.

    Attributes:
        key_hash: as ``format.java_hash.index_key_hash`` gives it.
        physical_offset: of the key's record.
        store_time: of the key's record, ms.
        stop_position: where the first record begins whose keys were not read.
    """

    key_hash: Ints
    physical_offset: Longs
    store_time: Longs
    stop_position: int


RUN_QUEUE, RUN_FIRST, RUN_COUNT, RUN_END, RUN_PREVIOUS = range(5)
"""What the numbers of a run's row are."""


class Runs(NamedTuple):
    """A ring of runs, each some entries of one queue that follow one another.

    Runs are numbered as they begin; run ``n`` is at place ``n % len(rows)``, a power of two of places.

    Attributes:
        length: the most entries of a run.
        rows: for each place, of its run the queue's number, the queue offset of the first entry, how many
            entries there are, where the record of the last one ends in the CommitLog, and the run that the
            queue began before, or -1: see ``RUN_QUEUE`` and the others.
        entries: for each place ``length`` entries, as they are in ConsumeQueue files.
        newest: by a queue's number the last run that it began, or -1.
        window: the first run that is still there, and the next one to begin.
    """

    length: int
    rows: Longs
    entries: Bytes
    newest: Longs
    window: Longs

    @classmethod
    def empty(cls, places: int, length: int, queues: int) -> Self:
        """Make a ring of so many places, for queues whose numbers are below ``queues``."""
        return cls(
            length,
            np.empty((places, 5), np.int64),
            np.empty(places * length * ENTRY_SIZE, np.uint8),
            np.full(queues, -1, np.int64),
            np.zeros(2, np.int64),
        )


class Ops(Protocol):
    """The bulk operations. Buffers are only read, unless said otherwise.

    Attributes:
        sends: those on sends, or None.
        pulls: those on reads of queues, or None.
        queries: those on queries by id and key, or None.
    """

    @property
    def sends(self) -> "SendOps | None":
        """The bulk operations on sends, which only the compiled ones have."""
        ...

    @property
    def pulls(self) -> "PullOps | None":
        """The bulk operations on reads of queues, which only the compiled ones have."""
        ...

    @property
    def queries(self) -> "QueryOps | None":
        """The bulk operations on queries by id and key, which only the compiled ones have."""
        ...

    def crc32(self, buffer: Buffer | Bytes) -> int:
        """Give the CRC-32 that ``zlib.crc32`` gives."""
        ...

    def java_hash_many(self, blob: Buffer | Bytes, offsets: Longs) -> Ints:
        """Give Java's hash of many texts: text ``i`` is UTF-8 in ``blob[offsets[i]:offsets[i + 1]]``."""
        ...

    def scan(
        self,
        buffer: Buffer | Bytes,
        *,
        base_offset: int | None,
        start: int = 0,
        end: int | None = None,
        crc: Crc = Crc.BODY,
        max_records: int | None = None,
    ) -> Scan:
        """Scan the records of a buffer by the rules of ``format.scan``.

        A result takes about 130 bytes per record, so a caller bounds its memory by ``max_records``: a scan
        that ends with so many records has reason LIMIT, and the next one starts at its ``stop_position``.

        Args:
            base_offset: CommitLog offset of the buffer's byte 0; None if the records are from anywhere.
            start: position of the first record.
            end: where to stop as if the buffer ended there.
            crc: which checksum is compared.
        """
        ...

    def dispatch(
        self, buffer: Buffer | Bytes, scan: Scan, delay_levels: DelayLevels, *, named: bool = True
    ) -> Dispatch:
        """Tell what the scanned records of ``buffer`` put into ConsumeQueues and Index.

        Args:
            named: whether the queues are wanted; without, ``queues`` and ``queue`` are empty.
        """
        ...

    def read_keys(self, buffer: Buffer | Bytes, *, base_offset: int, start: int, end: int) -> Keys:
        """Read what records of ``buffer`` put into the Index; checksums are not compared.

        It stops at what is no record, and may stop at one that is unusual: what follows is for ``dispatch``.

        Args:
            base_offset: CommitLog offset of the buffer's byte 0.
            start: position of the first record.
            end: where to stop.
        """
        ...

    def group_entries(self, rows: Longs, runs: Runs) -> int:
        """Add queue entries to their queues' runs, in order; give how many.

        It stops where a run has no place, and at a queue with a number that ``runs`` is not for.

        Args:
            rows: as ``sends`` has them.
            runs: changed.
        """
        ...

    def index_insert(
        self,
        image: Bytes,
        dirty_pages: Flags,
        entries: Bytes,
        key_hashes: Ints,
        physical_offsets: Longs,
        store_times: Longs,
        *,
        entry_count: int,
    ) -> int:
        """Insert keys into an index file, in order, until it or ``entries`` is full; give how many were.

        Args:
            image: the file's header and slots as on the disk; changed.
            dirty_pages: set True for each page of 4,096 bytes of ``image`` that was changed.
            entries: gets the new entries; its first 20 bytes are the next one at the time of the call.
            key_hashes: as ``format.java_hash.index_key_hash`` gives them.
            entry_count: how many entries the file has room for, the unused first one included.
        """
        ...

    def index_find(
        self,
        image: Bytes,
        written: Bytes,
        tail: Bytes,
        key_hash: int,
        *,
        begin_time: int,
        end_time: int,
        max_count: int,
    ) -> list[int]:
        """Find records by key: their physical offsets, newest first, at most ``max_count``.

        Other keys of the same hash are found too: compare the records' own keys.

        Args:
            image: the file's header and slots.
            written: its entries from number 0 on, as far as they are in the file.
            tail: the entries that follow them and are not in the file yet.
            begin_time: the earliest store time wanted, ms; the index knows it to the second.
            end_time: the latest.
        """
        ...

    def select(
        self,
        buffer: Buffer | Bytes,
        scan: Scan,
        *,
        topics: Collection[str] | None = None,
        begin_time: int | None = None,
        end_time: int | None = None,
    ) -> Longs:
        """Choose records: their places in the scan, in order.

        Args:
            topics: which topics; None for all.
            begin_time: earliest store time, ms; None for any, as damage can make it anything.
            end_time: store time before which records are chosen, ms; None for any.
        """
        ...

    def arrow(
        self, buffer: Buffer | Bytes, scan: Scan, rows: Longs, columns: Collection[str]
    ) -> "pa.RecordBatch":
        """Gather columns of the chosen records: ``plain_arrow.TYPES`` names them; needs pyarrow.

        Raises:
            KeyError: there is no such column.
            OverflowError: a column of these records takes more than 2 GiB.
        """
        ...
