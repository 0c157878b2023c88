"""The reads of an open store, as readings: see ``reading``."""

from collections.abc import Callable, Container

from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.dispatch import KeyKind
from cometmq.format.queue_entry import QueueEntry, unpack_many, unpack_tuples
from cometmq.message import Buffer
from cometmq.store.log.seek import NEVER, offset_by_time, store_time_at
from cometmq.store.parts import Parts
from cometmq.store.read.bulk_finds import BulkFinds
from cometmq.store.read.bulk_reads import BulkReads
from cometmq.store.read.ends_and_times import EndsAndTimes
from cometmq.store.read.get import RecordFilter, get_messages, outside
from cometmq.store.read.get_result import GetResult
from cometmq.store.read.limits import GetLimits
from cometmq.store.read.log_bytes import record_at
from cometmq.store.read.query import QueryResult, query_records
from cometmq.store.read.resident_reads import ResidentReads
from cometmq.store.reading import Reading
from cometmq.store.settings import StoreSettings

TIME_MAX = 2**63 - 1


class Readings:
    """Creates the readings of one store.

    Args:
        catch_up: indexes all dispatched records.
        confirm_offset: returns the CommitLog offset before which records may be read.

    Attributes:
        bulk: answers batches of reads of queues.
        finds: answers batches of queries by id and key.
        ends_and_times: reads the ends of a topic's queues.
    """

    def __init__(
        self,
        parts: Parts,
        settings: StoreSettings,
        catch_up: Callable[[], None],
        confirm_offset: Callable[[], int],
    ) -> None:
        self._log = parts.log
        self._queues = parts.queues
        self._index = parts.index
        self._settings = settings
        limits = GetLimits.of(settings)
        self._resident = ResidentReads(parts.log, limits)
        self.bulk = BulkReads(parts.log, parts.queues, limits, reads_later=settings.reads_later)
        self.ends_and_times = EndsAndTimes(parts.log, parts.queues)
        self._catch_up = catch_up
        self._confirm_offset = confirm_offset
        self.finds = BulkFinds(parts.log, parts.index, settings.max_msgs_num_batch, catch_up, confirm_offset)

    def configure(self, settings: StoreSettings) -> None:
        """Read within the limits of these settings from now on; readings under way keep theirs."""
        limits = GetLimits.of(settings)
        self._resident = ResidentReads(self._log, limits)
        self.bulk.set_limits(limits)

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = TIME_MAX,
        tags_codes: Container[int] | None = None,
        record_filter: RecordFilter | None = None,
    ) -> Reading[GetResult]:
        """Read messages of one queue as it is now: see ``get.get_messages``."""
        return get_messages(
            self._resident,
            self._queues.find(topic, queue_id),
            queue_offset,
            max_count=max_count,
            max_bytes=max_bytes,
            tags_codes=tags_codes,
            record_filter=record_filter,
        )

    def get_at_once(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        tags_codes: Container[int] | None,
    ) -> GetResult | None:
        """Read as ``get`` does, by a leaf operation alone; None if that takes more, or the disk."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            return outside(queue, queue_offset)
        found = self._resident.read(queue, queue_offset, max_count, max_bytes, tags_codes)
        return found if isinstance(found, GetResult) else None

    def is_young(self, topic: str, queue_id: int) -> Reading[bool]:
        """Check that a queue's first message counts as being in memory, or that it never had one."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or queue.max_offset == 0:
            return True
        if queue.min_offset > 0:
            return False
        first = yield from self.get(topic, queue_id, 0, 1)
        return bool(first.runs) and not first.is_far_behind

    def entries(self, topic: str, queue_id: int, queue_offset: int, count: int) -> Reading[list[QueueEntry]]:
        """Read ``count`` entries of a queue, fewer at its end; none if the offset is before its beginning."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or count <= 0 or queue_offset < queue.min_offset:
            return []
        return list(unpack_many((yield from queue.entries(queue_offset, count))))

    def tags_codes(self, topic: str, queue_id: int, queue_offset: int, count: int) -> Reading[list[int]]:
        """Read the tags codes of ``count`` entries of a queue, fewer at its end.

        If an entry's extension unit is lost, its address is returned in place of the code.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None or count <= 0:
            return []
        data = yield from queue.entries(queue_offset, count)
        codes = [code for *_, code in unpack_tuples(data)]
        addresses = [code for code in codes if code <= ADDRESS_MAX]
        if queue.ext is None or not addresses:
            return codes
        units = yield from queue.ext.units(addresses)
        return [units[code].tags_code if code in units else code for code in codes]

    def record(self, physical_offset: int) -> Reading[bytes | None]:
        """Read the record at a CommitLog offset; None if no readable record begins there."""
        if physical_offset >= self._confirm_offset():
            return None
        return (yield from record_at(self._log, physical_offset))

    def is_far_behind(self, physical_offset: int) -> bool:
        """Return whether a record counts as on disk: it lies so far before the end of the log."""
        return physical_offset < self._log.written_offset - self._resident.limits.memory_bytes

    def log_bytes(self, offset: int, size_max: int) -> Reading[Buffer | None]:
        """Read the log's bytes from an offset to the file's end at most; None if there are none."""
        stretch = self._log.stretch(offset)
        if stretch is None or offset >= stretch[1]:
            return None
        return (yield from self._log.bytes_at(offset, min(size_max, stretch[1] - offset)))

    def query(
        self,
        topic: str,
        key: str,
        max_count: int = 32,
        begin_time: int = 0,
        end_time: int = TIME_MAX,
        kind: KeyKind = KeyKind.ANY,
    ) -> Reading[QueryResult]:
        """Find messages of a topic by a key, stored within a time range (ms)."""
        if self._index is None:
            return QueryResult([], 0, 0)
        self._catch_up()
        return (
            yield from query_records(
                self._log,
                self._index,
                topic,
                key,
                max_count=min(max_count, self._settings.max_msgs_num_batch),
                begin_time=begin_time,
                end_time=end_time,
                kind=kind,
            )
        )

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int, *, upper: bool = False) -> Reading[int]:
        """Find a queue offset by store time: see ``seek.offset_by_time``; 0 for a queue without messages."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        return (yield from offset_by_time(self._log, queue, time_ms, upper=upper))

    def store_time_at(self, topic: str, queue_id: int, queue_offset: int) -> Reading[int]:
        """Return the store time of a message, ms; -1 if it does not exist."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return NEVER
        return (yield from store_time_at(self._log, queue, queue_offset))
