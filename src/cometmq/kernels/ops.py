"""The interface of the bulk operations, and their values.

``plain`` defines each operation in readable Python; ``compiled`` does the same with Numba. Both modules
satisfy ``Ops``. Results are structs of arrays: one numpy array per field, one item per record.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np

from cometmq.format.checksum import Crc
from cometmq.format.delay_level import DelayLevels
from cometmq.format.queue_entry import SIZE as ENTRY_SIZE
from cometmq.format.scan import StopReason
from cometmq.kernels.arrays import Bytes, Flags, Ints, Longs
from cometmq.message import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

    from cometmq.kernels.acks.rows import AckOps
    from cometmq.kernels.frames.rows import FrameOps
    from cometmq.kernels.pulls.rows import PullOps
    from cometmq.kernels.queries.rows import QueryOps
    from cometmq.kernels.sends.rows import SendOps


class Scan(NamedTuple):
    """The records that a scan found, as arrays with one item for each record in the buffer's order.

    Arrays are int64[records] or int32[records] as declared. Positions are byte positions in the scanned
    buffer, sizes and lengths are in bytes, and times are ms since 1970. Fields not listed here are the
    record's own numbers (``format.record.Record``).

    Attributes:
        physical_offset: as the record has it; equal to ``base_offset + position`` unless that is None.
        topic_position, body_position, properties_position: where these bytes begin.
        topic_length, body_length, properties_length: how many bytes they are.
        born_host_position, store_host_position: where address (4 or 16 bytes) and port (4 bytes) begin.
        born_host_length, store_host_length: 8 or 20.
        stop_position: the first byte that was not scanned.
        stop_reason: why the scan stopped there.
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
        """The number of records."""
        return len(self.position)


class Dispatch(NamedTuple):
    """What scanned records contribute to ConsumeQueues and Index: see ``format.dispatch``.

    Attributes:
        queues: topic and queue id of each queue, in the order of their first records.
        queue: int32[records], the index in ``queues`` of each record's queue.
        tags_code: int64[records], the tags code for each record's queue entry.
        in_queue: bool[records], whether each record gets a queue entry.
        in_index: bool[records], whether each record is indexed.
        is_light: bool[records], whether each record has the property INNER_MULTI_QUEUE_OFFSET: it may be in
            light queues, too.
        key_hash: int32[keys], the hash of each key, in the order in which they are inserted into the index.
        key_record: int64[keys], the index in the scan of each key's record; only indexed records occur.
    """

    queues: list[tuple[str, int]]
    queue: Ints
    tags_code: Longs
    in_queue: Flags
    in_index: Flags
    is_light: Flags
    key_hash: Ints
    key_record: Longs


class IndexKeys(NamedTuple):
    """The index keys of records, in the order in which they are inserted into the index.

    Attributes:
        key_hash: int32[keys], as ``format.java.java_hash.index_key_hash`` computes it.
        physical_offset: int64[keys], of each key's record.
        store_time: int64[keys], of each key's record, ms since 1970.
        stop_position: where in the buffer the first record begins whose keys were not read.
    """

    key_hash: Ints
    physical_offset: Longs
    store_time: Longs
    stop_position: int


RUN_QUEUE, RUN_FIRST, RUN_COUNT, RUN_END, RUN_PREVIOUS = range(5)
"""The columns of ``Runs.rows``."""


class Runs(NamedTuple):
    """A ring buffer of runs; a run is a sequence of consecutive entries of one consume queue.

    Runs are numbered in the order in which they begin; run ``n`` is at place ``n % len(rows)`` of the ring.
    The number of places is a power of two.

    Attributes:
        length: the most entries of a run.
        rows: int64[places, 5]: number of the run's queue, queue offset of its first entry, number of its
            entries, CommitLog offset where its last entry's record ends, and number of the queue's run
            before, or -1. The columns are ``RUN_QUEUE`` to ``RUN_PREVIOUS``.
        entries: uint8[places × length × 20]: for each place ``length`` entries, as in ConsumeQueue files.
        newest: int64[queues]: for each queue's number its newest run, or -1.
        window: int64[2]: the oldest run that is still in use, and the number of the next one.
    """

    length: int
    rows: Longs
    entries: Bytes
    newest: Longs
    window: Longs

    @classmethod
    def empty(cls, places: int, length: int, queues: int) -> Self:
        """Create an empty ring of ``places`` runs, for queues whose numbers are below ``queues``."""
        return cls(
            length,
            np.empty((places, 5), np.int64),
            np.empty(places * length * ENTRY_SIZE, np.uint8),
            np.full(queues, -1, np.int64),
            np.zeros(2, np.int64),
        )


class Ops(Protocol):
    """The bulk operations. Buffers are only read where nothing else is stated.

    Attributes:
        sends: the operation on sends.
        pulls: the operations on pulls.
        queries: the operations on queries by id and key.
        acks: the operation on acknowledgements of popped messages.
        frames: the operation that reads frames, for which those of the others that read rows are made.
        body: which body of them this is: what is read by rows is counted by it.
    """

    @property
    def body(self) -> str:
        """Which body of the operations this is."""
        ...

    @property
    def frames(self) -> "FrameOps":
        """The operation that reads frames."""
        ...

    @property
    def sends(self) -> "SendOps":
        """The operation on sends."""
        ...

    @property
    def pulls(self) -> "PullOps":
        """The operations on pulls."""
        ...

    @property
    def queries(self) -> "QueryOps":
        """The operations on queries by id and key."""
        ...

    @property
    def acks(self) -> "AckOps":
        """The operation on acknowledgements of popped messages."""
        ...

    def crc32(self, buffer: Buffer | Bytes) -> int:
        """Compute the CRC-32 of a buffer, as ``zlib.crc32`` does."""
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
        that stops after that many records has reason LIMIT, and the next one starts at its ``stop_position``.

        Args:
            base_offset: CommitLog offset of the buffer's byte 0; None if physical offsets are not checked.
            start: position of the first record.
            end: position where the buffer is taken to end; None for its end.
            crc: which checksum is compared.
            max_records: the most records that are scanned; None for all.
        """
        ...

    def dispatch(
        self, buffer: Buffer | Bytes, scan: Scan, delay_levels: DelayLevels, *, named: bool = True
    ) -> Dispatch:
        """Compute what the scanned records of ``buffer`` contribute to ConsumeQueues and Index.

        Args:
            named: whether to name the queues; if False, ``queues`` and ``queue`` of the result are empty.
        """
        ...

    def read_keys(self, buffer: Buffer | Bytes, *, base_offset: int, start: int, end: int) -> IndexKeys:
        """Hash the index keys of the records in ``buffer``, without comparing checksums.

        It stops at bytes that are no record, and may stop at an unusual record: read on from there with
        ``scan`` and ``dispatch``.

        Args:
            base_offset: CommitLog offset of the buffer's byte 0.
            start: position of the first record.
            end: position to stop at.
        """
        ...

    def group_entries(self, rows: Longs, runs: Runs) -> int:
        """Append queue entries to the runs of their queues, in order; return how many were appended.

        It stops where a new run has no place, and at a queue whose number is ``len(runs.newest)`` or above.

        Args:
            rows: int64[entries, 5], with the columns ``QUEUE`` to ``TAGS_CODE`` of ``sends.rows``.
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
        """Insert keys into an index file, in order, until it or ``entries`` is full; return how many.

        Args:
            image: uint8[40 + 4 × slots], the file's header and slots as on the disk; changed.
            dirty_pages: bool[pages], set True for each page of PAGE_SIZE bytes of ``image`` that was changed.
            entries: uint8[20 × n], where the new entries are written; the first 20 bytes are for the file's
                next entry.
            key_hashes: int32[keys], as ``format.java.java_hash.index_key_hash`` computes them.
            physical_offsets: int64[keys], of the keys' records.
            store_times: int64[keys], of the keys' records, ms since 1970.
            entry_count: how many entries the file has room for, including the first one, which stays unused.
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
        """Select records by topic and store time; return their indices in the scan, int64[], in order.

        Args:
            topics: the topics wanted; None for all.
            begin_time: the earliest store time, ms since 1970; None for any, even those that damage made.
            end_time: the store time from which on none is selected, ms since 1970; None for any.
        """
        ...

    def arrow(
        self, buffer: Buffer | Bytes, scan: Scan, rows: Longs, columns: Collection[str]
    ) -> "pa.RecordBatch":
        """Gather records into Arrow columns, which ``kernels.arrow.plain.TYPES`` names; needs pyarrow.

        Args:
            rows: int64[], the indices in the scan of the records, such as ``select`` returns.
            columns: the names of the columns, in the batch's order.

        Raises:
            KeyError: there is no such column.
            OverflowError: a column of these records takes more than 2 GiB.
        """
        ...
