"""The store against lists and dicts: appends, reads, restarts, kills, losses of power and full disks, mixed.

A few seconds by default. ``pytest tests/model --hypothesis-profile long --timeout 0`` makes thousands.
"""

import queue
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.model import bulk

from cometmq.errors import MessageIllegal, StoreNotWritable
from cometmq.format import layout, properties
from cometmq.format.host import pack_host
from cometmq.format.java.java_hash import tags_code
from cometmq.format.record import Record, decode
from cometmq.format.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from cometmq.io.clock import ManualClock
from cometmq.store import FlushDiskType, GetStatus, MessageStore, NewMessage, StoreSettings
from cometmq.testing.memory_disk import BLOCK_SIZE, MemoryDisk

ROOT = Path("/store")
HOST = pack_host("127.0.0.1", 10911)
TOPICS = ("A", "B")
QUEUES = 2
TAGS = (None, "red", "green")
KEYS = ("k1", "k2", "k3")
SIZES = (0, 1, 100, 700, 3_000, 8_000)
IN_QUEUE = (0, TRANSACTION_COMMIT)
PATHS = ("file channel", "mapped file", "pool")
ROUND_MS = StoreSettings().flush_consume_queue_thorough_interval
STEPS = 50

Place = tuple[str, int]
PLACES: list[Place] = [(topic, queue_id) for topic in TOPICS for queue_id in range(QUEUES)]

messages = st.tuples(
    st.sampled_from(TOPICS),
    st.integers(0, QUEUES - 1),
    st.sampled_from(SIZES),
    st.sampled_from(TAGS),
    st.lists(st.sampled_from(KEYS), max_size=3, unique=True).map(tuple),
    st.sampled_from((*IN_QUEUE, 0, 0, 0, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)),
)
usual = st.tuples(
    st.sampled_from(TOPICS),
    st.integers(0, QUEUES - 1),
    st.sampled_from(SIZES[1:4]),
    st.sampled_from(TAGS),
    st.lists(st.sampled_from(KEYS), max_size=3, unique=True).map(tuple),
    st.just(0),
)
"""Messages that can go the bulk way."""
places = st.sampled_from(PLACES)


class Sent(NamedTuple):
    """A message that was acknowledged."""

    body: bytes
    tags: str | None
    keys: tuple[str, ...]
    store_time: int
    physical_offset: int


class GatedDisk(MemoryDisk):
    """A disk that syncs the CommitLog only while its gate is open."""

    def __init__(self, space_bytes: int = 2**40) -> None:
        super().__init__(space_bytes)
        self.gate = threading.Event()
        self.gate.set()

    def sync(self, path: Path) -> None:
        assert path.parent != layout.commitlog_dir(ROOT) or self.gate.wait(60)
        super().sync(path)


class Waiting(NamedTuple):
    """A message that was appended but is not on the disk yet; ``place`` is None if it is in no queue."""

    place: Place | None
    sent: Sent
    indexed: list[tuple[str, str]]


class StoreMachine(RuleBasedStateMachine):
    """A store, and beside it what it must hold.

    With a loop the store does not wait for the disk within an append: while the disk's gate is closed, what
    is appended waits, cannot be read, survives a kill and is lost with the power. With the transient store
    pool it waits for a commit, and does not survive a kill.
    """

    @initialize(sync=st.booleans(), loop=st.booleans(), path=st.sampled_from(PATHS))
    def begin(self, *, sync: bool, loop: bool, path: str) -> None:
        sync = sync and path != "pool"
        self.settings = StoreSettings(
            write_without_mmap=path == "file channel",
            transient_store_pool_enable=path == "pool",
            flush_interval_commit_log=10**9,
            commit_interval_commit_log=10**9,
            wake_commit_when_put_message=False,
            file_reserved_time=0,
            mapped_file_size_commit_log=8_192,
            mapped_file_size_consume_queue=100,
            max_hash_slot_num=3,
            max_index_num=20,
            flush_disk_type=FlushDiskType.SYNC_FLUSH if sync else FlushDiskType.ASYNC_FLUSH,
        )
        self.disk = GatedDisk()
        self.waits_for_commit = path == "pool" and loop
        self.loop: queue.SimpleQueue[Callable[[], None]] | None = queue.SimpleQueue() if loop else None
        self.waiting: list[Waiting] = []
        self.clock = ManualClock()
        self.disk.now_ms = self.clock.now_ms
        self.count = 0
        self.queues: dict[Place, list[Sent]] = defaultdict(list)
        self.indexed: dict[tuple[str, str], list[Sent]] = defaultdict(list)
        self.begins: dict[Place, int] = defaultdict(int)  # queue offsets that are first, older ones expired
        self.unsure = b""
        self.sync_failed = False
        self.store = self.open()

    def open(self) -> MessageStore:
        run_soon = None if self.loop is None else self.loop.put
        return MessageStore.open(ROOT, self.settings, files=self.disk, clock=self.clock, run_soon=run_soon)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.free()
            self.open_the_gate()
            self.check_all()
            self.store.close()

    # Appending

    @rule(message=messages)
    def append_one(self, message: Any) -> None:
        self.append([message])

    @rule(batch=st.lists(messages, max_size=12))
    def append_many(self, batch: list[Any]) -> None:
        self.append(batch)

    @rule(batch=st.lists(messages, max_size=3))
    def append_what_no_file_takes(self, batch: list[Any]) -> None:
        too_long = self.new_message(("C", 0, 8_100, None, (), 0))
        if self.store.not_writable is None:
            with pytest.raises(MessageIllegal):
                self.store.append([*map(self.new_message, batch), too_long])

    def append(self, batch: list[Any]) -> None:
        new = [self.new_message(message) for message in batch]
        try:
            appended = self.store.append(new)
        except StoreNotWritable:
            assert self.disk.space_bytes < 2**40 or self.sync_failed
            return
        for message, body, at in zip(batch, (one.body for one in new), appended, strict=True):
            self.wait(message, body, at.physical_offset, at.queue_offset)
        self.settle_if_synced()

    @rule(batch=st.lists(usual, min_size=1, max_size=20))
    def append_in_bulk(self, batch: list[Any]) -> None:
        new = [self.new_message(message) for message in batch]
        try:
            appended = bulk.append(self.store, new, QUEUES)
        except StoreNotWritable:
            assert self.disk.space_bytes < 2**40 or self.sync_failed
            return
        for message, one, at in zip(batch, new, appended, strict=False):  # those that fit into the file
            self.wait(message, one.body, *at)
        self.settle_if_synced()

    def wait(self, message: Any, body: bytes, physical_offset: int, queue_offset: int) -> None:
        """Record what was appended."""
        topic, queue_id, _, tags, keys, flag = message
        place = (topic, queue_id) if flag in IN_QUEUE else None
        before = sum(waiting.place == place for waiting in self.waiting)
        assert queue_offset == (0 if place is None else len(self.queues[place]) + before)
        names = [*keys, *([f"T#{tags}"] if tags else [])] if flag != TRANSACTION_ROLLBACK else []
        sent = Sent(body, tags, keys, self.clock.now_ms(), physical_offset)
        self.waiting.append(Waiting(place, sent, [(topic, name) for name in names]))

    def settle_if_synced(self) -> None:
        """Publish what waits to be readable, unless it waits for the disk."""
        if self.settings.sync_flush and self.loop is not None and not self.sync_failed:
            if not self.disk.gate.is_set():
                return
            self.store.wait_flushed().result(60)
            self.run_loop()
        if not self.waits_for_commit:
            self.settle()

    def run_loop(self) -> None:
        """Run what the store's threads have asked for."""
        while self.loop is not None and not self.loop.empty():
            self.loop.get()()

    @precondition(lambda self: self.waits_for_commit)
    @rule()
    def commit(self) -> None:
        committer = self.store.flusher._committer
        assert committer is not None
        assert committer.commit()
        self.run_loop()
        self.settle()

    @precondition(lambda self: self.disk.gate.is_set() and not self.sync_failed)
    @rule()
    def flush(self) -> None:
        self.store.wait_flushed().result(60)
        assert self.store.flushed_offset == self.store.committed_offset == self.store.written_offset
        self.run_loop()
        self.settle()

    def settle(self) -> None:
        """What waits is there."""
        for place, sent, indexed in self.waiting:
            if place is not None:
                self.queues[place].append(sent)
            for name in indexed:
                self.indexed[name].append(sent)
        self.waiting.clear()

    def new_message(self, message: Any) -> NewMessage:
        topic, queue_id, size, tags, keys, flag = message
        self.count += 1
        by_name = {properties.KEYS: " ".join(keys)} | ({properties.TAGS: tags} if tags else {})
        body = b"%d;" % self.count + bytes(size)
        text = properties.encode(by_name)
        return NewMessage(topic, queue_id, body, text, 1_000, HOST, HOST, tags, sys_flag=flag)

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic: str) -> None:
        try:
            self.store.delete_topic(topic)
        except StoreNotWritable:
            assert self.disk.space_bytes < 2**40
            return
        for queue_id in range(QUEUES):
            self.queues.pop((topic, queue_id), None)
            self.begins.pop((topic, queue_id), None)
        self.waiting = [
            waiting._replace(place=None) if waiting.place and waiting.place[0] == topic else waiting
            for waiting in self.waiting
        ]

    # Reading

    @rule(place=places, data=st.data(), tags=st.none() | st.sets(st.sampled_from(TAGS[1:]), min_size=1))
    def get(self, place: Place, data: st.DataObject, tags: set[str] | None) -> None:
        queue = self.queues.get(place, [])
        begin = data.draw(st.integers(self.begins[place], len(queue)))
        wanted = [sent.body for sent in queue[begin:] if tags is None or sent.tags in tags]
        assert [record.body for record in self.read(place, begin, tags)] == wanted

    def read(self, place: Place, begin: int, tags: set[str] | None = None) -> list[Record]:
        """Read a queue to its end, as a consumer does."""
        codes = None if tags is None else {tags_code(tag) for tag in tags}
        found: list[Record] = []
        while begin < self.store.max_queue_offset(*place):
            result = self.store.get(*place, begin, tags_codes=codes)
            assert result.next_offset > begin
            assert result.status in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE)
            found += map(decode, result.records)
            begin = result.next_offset
        return found

    @rule(topic=st.sampled_from(TOPICS), key=st.sampled_from([*KEYS, "T#red", "T#green"]))
    def query(self, topic: str, key: str) -> None:
        records = map(decode, self.store.query(topic, key, max_count=64).records)
        found = [record.body for record in records if record.topic == topic]
        known = [sent.body for sent in self.indexed[topic, key] if self.is_there(sent)]
        if self.store.not_writable is not None:
            known = known[: len(found)]  # on a full disk the index stays behind
        assert found == known[-64:]

    def is_there(self, sent: Sent) -> bool:
        """Return whether a message has not expired."""
        return sent.physical_offset >= self.store.min_offset

    @rule(place=places, data=st.data())
    def offset_by_time(self, place: Place, data: st.DataObject) -> None:
        begin = self.begins[place]
        times = [sent.store_time for sent in self.queues.get(place, [])[begin:]]
        if times and times == sorted(times):
            time = data.draw(st.sampled_from(times)) + data.draw(st.integers(-1, 1))
            lower = next((n for n, at in enumerate(times) if at >= time), len(times))
            assert self.store.offset_by_time(*place, time) == begin + lower
            upper = max((n for n, at in enumerate(times) if at <= time), default=0)
            assert self.store.offset_by_time(*place, time, upper=True) == begin + upper

    @invariant()
    def ends_are_right(self) -> None:
        if hasattr(self, "store"):
            for place in PLACES:
                assert self.store.max_queue_offset(*place) == len(self.queues.get(place, []))
                assert self.store.min_queue_offset(*place) == self.begins[place]

    def check_all(self) -> None:
        for place in PLACES:
            queue, begin = self.queues[place], self.begins[place]
            records = self.read(place, begin)
            for record in records[len(queue) - begin :]:
                assert record.body == self.unsure
                queue.append(Sent(record.body, None, (), record.store_time, record.physical_offset))
            assert [record.body for record in records] == [sent.body for sent in queue[begin:]]
            assert [record.queue_offset for record in records] == list(range(begin, len(queue)))
        for topic, key in list(self.indexed):
            self.query(topic, key)

    # Time

    @rule(ms=st.sampled_from([1, 500, 1_000, 4_000, ROUND_MS]))
    def let_time_pass(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(ms=st.sampled_from([1, 2_000, 10_000, 3_600_000]))
    def put_the_clock_back(self, ms: int) -> None:
        self.clock.set_wall(self.clock.now_ms() - ms)

    @precondition(lambda self: self.disk.gate.is_set())
    @rule()
    def tick(self) -> None:
        paths = self.store.tick()
        time = self.store.dispatched_time
        self.store.sync_files(paths)
        self.store.vouch(time)

    @precondition(lambda self: self.disk.gate.is_set() and self.disk.space_bytes == 2**40)
    @rule()
    def remove_what_has_expired(self) -> None:
        """All files have, but what is not on the disk, and the one that is written to, stay."""
        before = self.store.min_offset
        self.store.retention.ask()
        removed = self.store.retention.run()
        assert before <= self.store.min_offset <= self.store.flushed_offset
        assert not any(map(self.disk.exists, removed))
        for place, all_sent in self.queues.items():
            there = (number for number, sent in enumerate(all_sent) if self.is_there(sent))
            self.begins[place] = next(there, len(all_sent))

    # The end, and how it goes on

    @rule(lost=st.none() | places)
    def restart(self, lost: Place | None) -> None:
        self.close()
        if lost is not None:
            directory = layout.consume_queue_dir(ROOT, *lost)
            for name in self.disk.names(directory):
                self.disk.remove(directory / name)
            self.disk.remove_directory(directory)
        self.go_on(self.disk.after_kill())

    @rule(from_file=st.integers(0, 3))
    def restart_without_some_of_the_index(self, from_file: int) -> None:
        self.close()
        for name in self.disk.names(layout.index_dir(ROOT))[from_file:]:
            self.disk.remove(layout.index_dir(ROOT) / name)
        if from_file == 0:
            self.disk.remove_directory(layout.index_dir(ROOT))
        self.go_on(self.disk.after_kill())

    def close(self) -> None:
        self.free()
        self.open_the_gate()
        self.store.close()
        self.settle()

    @rule(seed=st.none() | st.integers(0, 2**16))
    def kill(self, seed: int | None) -> None:
        """A kill; with a seed a loss of power comes after the start that follows it."""
        disk = self.disk.after_kill()
        if self.waits_for_commit:
            self.waiting.clear()
        self.settle()
        self.abandon(disk)
        if seed is not None:
            self.abandon(self.disk.after_power_loss(Random(seed)))

    @precondition(lambda self: self.settings.sync_flush)
    @rule(seed=st.none() | st.integers(0, 2**16))
    def lose_power(self, seed: int | None) -> None:
        disk = self.disk.after_power_loss(None if seed is None else Random(seed))
        if seed is not None and self.waiting:
            disk = self.disk.after_power_loss()  # which of them are lost then is open
        self.waiting.clear()
        self.abandon(disk)

    def abandon(self, disk: GatedDisk) -> None:
        """Leave the store as it is, and go on with what is on ``disk``."""
        self.disk.gate.set()
        self.store.close()
        self.go_on(disk)

    def go_on(self, disk: GatedDisk) -> None:
        if self.loop is not None:
            self.loop = queue.SimpleQueue()
        self.disk = disk
        self.disk.now_ms = self.clock.now_ms
        self.free()
        self.store = self.open()
        assert self.store.recovered.gaps == []
        assert self.sync_failed or self.store.recovered.damages == []
        self.sync_failed = False
        self.check_all()

    # A bad disk

    @rule(blocks=st.integers(0, 3))
    def fill_the_disk(self, blocks: int) -> None:
        used = sum(len(content.blocks) for content in self.disk._files.values())
        self.disk.space_bytes = (used + blocks) * BLOCK_SIZE

    @rule()
    def free(self) -> None:
        self.disk.space_bytes = 2**40

    @precondition(lambda self: self.settings.sync_flush and self.loop is not None and not self.sync_failed)
    @rule()
    def close_the_gate(self) -> None:
        self.disk.gate.clear()

    @rule()
    def open_the_gate(self) -> None:
        self.disk.gate.set()
        self.settle_if_synced()

    @precondition(lambda self: self.settings.sync_flush and self.loop is None and not self.sync_failed)
    @rule(place=places)
    def fail_a_sync(self, place: Place) -> None:
        """One message is neither acknowledged nor surely refused: the next start may find it or not."""
        self.free()
        message = self.new_message((*place, 100, None, (), 0))
        self.disk.fail_sync = True
        with pytest.raises(StoreNotWritable) as refused:
            self.store.append([message])
        self.disk.fail_sync = False
        if "sync failed" in str(refused.value):  # and not that of the checkpoint, before anything was written
            self.sync_failed, self.unsure = True, message.body


def test_the_store_holds_what_a_list_would() -> None:
    examples = settings.default.max_examples if settings.default is not None else 100
    limits = settings(max_examples=max(examples // 3, 1), stateful_step_count=STEPS, deadline=None)
    run_state_machine_as_test(StoreMachine, settings=limits)
