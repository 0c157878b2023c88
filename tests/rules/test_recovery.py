"""What a start must find, and must not do, after a kill, a loss of power, or a flipped bit."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, damaged

from cometmq.format import layout
from cometmq.format.checkpoint import Checkpoint
from cometmq.io.clock import ManualClock
from cometmq.store import Message, MessageStore, StoredMessage
from cometmq.store.recovery.rebuild import rebuild
from cometmq.testing.memory_disk import MemoryDisk

SELDOM = replace(SMALL, flush_interval_commit_log=1_000_000)
SECTOR_SIZE = 512
SECOND_MS = 1_000
ROUND_MS = SMALL.flush_consume_queue_thorough_interval


def put(store: MessageStore, number: int, topic: str = "Orders") -> None:
    """Append the message of a number, which its body and its key say."""
    store.append_message(Message(topic, b"%06d" % number * 20, keys=(f"k{number}",)))


def numbers(store: MessageStore, topic: str = "Orders") -> list[int]:
    """The numbers of the messages that consumers of a topic get, in their order."""
    return [number_of(message) for message in store.messages(topic)]


def make_round(store: MessageStore, clock: ManualClock) -> None:
    """Bring all to the disk, and have the checkpoint vouch for it."""
    store.wait_flushed().result()
    clock.advance(ROUND_MS)
    paths = store.tick()
    store.sync_files(paths)
    store.vouch(store.dispatched_time)


def number_of(message: StoredMessage) -> int:
    number = int(message.body[:6])
    assert message.body == b"%06d" % number * 20
    return number


def with_keys(store: MessageStore, count: int) -> list[int]:
    """How many messages each key finds."""
    return [len(store.messages_by_key("Orders", f"k{number}")) for number in range(count)]


def paths_below(disk: MemoryDisk, directory: Path) -> Iterator[Path]:
    for name in disk.names(directory):
        if disk.is_directory(directory / name):
            yield from paths_below(disk, directory / name)
        else:
            yield directory / name


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_no_message_is_skipped_because_the_log_was_further_than_its_queue_at_the_crash(
    open_store: OpenStore, disk: MemoryDisk, seed: int, *, index: bool
) -> None:
    """RocketMQ #1434 (and #7355).

    After a crash only the last file of the log was dispatched again. What lay in the file before it, and had
    not come into the files of its own queue, never was: messages that nobody could consume.
    """
    chance = random.Random(seed)
    settings = replace(SMALL, message_index_enable=index)
    store = open_store(settings)
    sent: dict[str, list[int]] = {"Orders": [], "Payments": [], "Rare": []}
    for number in range(120):
        (topic,) = chance.choices(list(sent), (20, 10, 1))
        put(store, number, topic)
        sent[topic].append(number)
        busiest = store._queues.find("Orders", 0)
        if busiest is not None and chance.random() < 0.2:
            busiest.write_back()  # as once a second, if enough has gathered
    state = disk.after_kill()
    for _ in range(2):  # and dispatched again, no message is there twice
        again = open_store(settings, files=state)
        assert {topic: numbers(again, topic) for topic in sent} == sent
        state = state.after_kill()


def test_the_index_never_vouches_for_the_queues(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    """RocketMQ #678.

    Flushing an index file moved the checkpoint's time of the ConsumeQueues too, which were not on the disk.
    After a crash recovery began behind their unwritten entries.
    """
    store = open_store(SELDOM)
    for number in range(200):  # rolls the index several times
        put(store, number)
    store.query("Orders", "k0")
    assert len(disk.names(layout.index_dir(ROOT))) > 2
    store.wait_flushed().result()
    clock.advance(SECOND_MS)
    store.tick()
    at_loss = disk.after_power_loss()
    at_loss.put(
        layout.checkpoint_path(ROOT), disk.load(layout.checkpoint_path(ROOT))
    )  # it happened to be there
    vouched = Checkpoint.unpack(at_loss.load(layout.checkpoint_path(ROOT)))
    assert vouched.logics_msg_timestamp == 0
    assert numbers(open_store(files=at_loss)) == list(range(200))


def test_the_checkpoint_is_never_ahead_of_what_it_vouches_for(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    """etcd 3.5.

    How far the log had been applied was saved apart from what it had been applied to, and could be saved
    before. After a crash at the wrong moment what lay between the two was never applied.
    """
    settings = replace(SELDOM, message_index_enable=False)  # which would tell where to begin, too
    chance = random.Random(1)
    store = open_store(settings, run_soon=lambda _: None)  # rounds are the test's business

    def check_loss_of_power() -> None:
        """Check that nothing is missing if the checkpoint happens to be on the disk."""
        state = disk.after_power_loss(chance)  # of what is unsynced any blocks are there
        if disk.exists(layout.checkpoint_path(ROOT)):
            state.put(layout.checkpoint_path(ROOT), disk.load(layout.checkpoint_path(ROOT)))
        again = open_store(settings, files=state)
        assert numbers(again)[:flushed] == list(range(flushed))
        assert sorted(numbers(again, f"Rare{n}")[0] for n in range(rare)) == list(range(rare))
        again.close()

    count = flushed = rare = 0
    for rare in range(1, 4):
        put(store, rare - 1, f"Rare{rare - 1}")  # the only message of its queue: no later one tells of a loss
        for _ in range(40):
            clock.advance(5 * SECOND_MS)
            put(store, count)
            count += 1
        store.wait_flushed().result()
        flushed = count
        clock.advance(ROUND_MS)
        paths = store.tick()
        dispatched_time = store.dispatched_time
        check_loss_of_power()
        for path in paths:
            clock.advance(5 * SECOND_MS)
            put(store, count)
            count += 1
            store.sync_files([path])
            check_loss_of_power()
        store.vouch(dispatched_time)
        check_loss_of_power()


def test_a_torn_record_neither_stays_nor_hides_what_is_appended_next(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    """RocketMQ #467 (mended by #501).

    A record that the crash had torn was not cut off: the next message was appended behind it, and at the next
    start could not be found.
    """
    store = open_store(SELDOM)
    for number in range(10):
        put(store, number)
    state = disk.after_kill()
    last = next(store.messages("Orders", begin=9)).physical_offset
    damaged(state, layout.commitlog_path(ROOT, 0), last + 100, bytes(20))
    again = open_store(SELDOM, files=state)
    assert again.written_offset == last
    for number in range(10, 15):
        put(again, number)
    assert numbers(open_store(SELDOM, files=state.after_kill())) == [*range(9), *range(10, 15)]


def test_a_record_whose_properties_were_not_written_is_not_taken_for_whole(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    """RocketMQ #7437.

    Of the last record a loss of power had left out the sectors with its properties. The checksum is over the
    body alone, so it was taken for whole; what works by properties stood before it for ever.
    """
    store = open_store(SELDOM)
    for number in range(5):
        put(store, number)
    half_at = store.written_offset
    store.append_message(Message("Orders", b"half" * 20, keys=("half",), properties={"note": "n" * 600}))
    store.wait_flushed().result(60)
    state = disk.after_power_loss()
    sector = store.written_offset - store.written_offset % SECTOR_SIZE
    damaged(state, layout.commitlog_path(ROOT, 0), sector, bytes(store.written_offset - sector))
    again = open_store(SELDOM, files=state)
    assert again.written_offset == half_at and again.recovered.set_aside is not None
    assert numbers(again) == list(range(5))
    put(again, 5)
    assert numbers(again) == list(range(6))
    assert again.messages_by_key("Orders", "half") == []


@pytest.mark.parametrize("junk", [b"\0", b"\xff"])
def test_with_the_property_crc_a_record_is_whole_or_it_is_not_taken(
    open_store: OpenStore, disk: MemoryDisk, junk: bytes
) -> None:
    """RocketMQ #7437, and what it led to.

    A checksum over the whole record tells all that a loss of power can leave of one, and not only what looks
    torn: here its last bytes one by one.
    """
    settings = replace(SELDOM, enabled_append_prop_crc=True, force_verify_prop_crc=True)
    store = open_store(settings)
    for number in range(3):
        put(store, number)
    last_at = store.written_offset
    put(store, 3)
    store.wait_flushed().result(60)
    for missing in range(1, store.written_offset - last_at, 5):
        state = disk.after_power_loss()
        damaged(state, layout.commitlog_path(ROOT, 0), store.written_offset - missing, junk * missing)
        again = open_store(settings, files=state)
        assert again.written_offset == last_at
        assert numbers(again) == [0, 1, 2]
        assert again.messages_by_key("Orders", "k3") == []


def test_a_kill_costs_no_key_in_the_last_index_file(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    """RocketMQ #8007.

    After a crash the newest index file was deleted. It went further back than the files of the log that were
    dispatched again: the oldest of its messages could not be found by key any more.
    """
    settings = replace(SMALL, max_hash_slot_num=500, max_index_num=1_000)  # one index file for all
    store = open_store(settings)
    for number in range(100):
        clock.advance(SECOND_MS)
        put(store, number)
        if number == 90:
            make_round(store, clock)
    again = open_store(settings, files=disk.after_kill())
    assert again.recovered.begin > 0
    assert with_keys(again, 100) == [1] * 100


def test_a_clean_stop_brings_the_index_to_the_disk(open_store: OpenStore, disk: MemoryDisk) -> None:
    """RocketMQ #4463.

    The index was not flushed when the broker was shut down in order; a loss of power later cost keys, and
    nothing made a start look for them: the store had been closed.
    """
    store = open_store(SELDOM)
    for number in range(30):
        put(store, number)
    store.close()
    again = open_store(SELDOM, files=disk.after_power_loss())
    assert again.recovered.clean and again.recovered.messages == 0
    assert with_keys(again, 30) == [1] * 30


def test_every_pointer_moves_back_when_the_tail_of_the_log_is_lost(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    """RocketMQ #6703.

    A kill cost the log its tail; the confirm offset was not moved back, and lay beyond the log's end.
    """
    store = open_store()
    for number in range(20):
        put(store, number)
    end = store.written_offset
    make_round(store, clock)  # all derived files know the tail that will be lost
    half = next(store.messages("Orders", begin=10)).physical_offset
    state = disk.after_kill()
    checkpoint = Checkpoint.unpack(state.load(layout.checkpoint_path(ROOT)))
    state.put(layout.checkpoint_path(ROOT), checkpoint._replace(confirm_phy_offset=end).pack())
    start = half - half % SMALL.mapped_file_size_commit_log
    log_file = layout.commitlog_path(ROOT, start)
    damaged(state, log_file, half - start, bytes(SMALL.mapped_file_size_commit_log - (half - start)))
    for path in state.names(layout.commitlog_dir(ROOT)):
        if int(path) > start:
            state.remove(layout.commitlog_dir(ROOT) / path)
    again = open_store(SELDOM, files=state)
    assert again.pointers == (0, half, half, half, half, half)
    assert again.max_queue_offset("Orders", 0) == 10
    put(again, 10)
    assert again.pointers.dispatched == again.written_offset
    assert numbers(again) == list(range(11))
    assert with_keys(again, 20) == [1] * 11 + [0] * 9


@pytest.mark.parametrize("kind", ["commitlog", "consumequeue", "index", "checkpoint"])
def test_a_kill_while_a_file_is_made_does_not_keep_the_broker_from_starting(
    tmp_path: Path, clock: ManualClock, kind: str
) -> None:
    """RocketMQ #6904.

    A file was made and given its length in two steps. A kill between the two left one of length 0, and every
    later start refused the store for its length.
    """
    with MessageStore.open(tmp_path, SMALL, clock=clock) as store:
        for number in range(10):
            put(store, number)
    (tmp_path / "abort").touch()
    torn = {
        "commitlog": layout.commitlog_path(tmp_path, SMALL.mapped_file_size_commit_log),
        "consumequeue": layout.consume_queue_path(tmp_path, "Orders", 0, SMALL.queue_file_size),
        "index": layout.index_dir(tmp_path) / layout.index_name(clock.now_ms() + 1),
        "checkpoint": layout.checkpoint_path(tmp_path),
    }[kind]
    torn.write_bytes(b"")
    with MessageStore.open(tmp_path, SMALL, clock=clock) as store:
        for number in range(10, 100):
            put(store, number)
        assert numbers(store) == list(range(100))
        assert with_keys(store, 100) == [1] * 100


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_one_flipped_bit_in_the_log_costs_no_other_message(
    open_store: OpenStore, disk: MemoryDisk, seed: int, *, clean: bool
) -> None:
    """NATS JetStream (Jepsen, 2.12.1), nats-server #7549.

    One flipped bit in a block file made the server take the rest for torn and throw it away: up to half of
    all acknowledged messages. A checksum that is only used to truncate makes damage worse.
    """
    chance = random.Random(seed)
    store = open_store()
    for number in range(100):
        put(store, number)
    places = [message.physical_offset for message in store.messages("Orders")]
    end = store.written_offset
    store.close()
    at = chance.randrange(end)
    start = at - at % SMALL.mapped_file_size_commit_log
    path = layout.commitlog_path(ROOT, start)
    state = disk.after_kill()
    byte = state.load(path)[at - start]
    damaged(state, path, at - start, bytes([byte ^ 1 << chance.randrange(8)]))
    if not clean:
        state.put(layout.abort_path(ROOT), b"1")
    names = state.names(layout.commitlog_dir(ROOT))
    again = open_store(files=state)
    hit = max((n for n, place in enumerate(places) if place <= at), default=0)
    others = [n for n in range(100) if n != hit]
    assert [number_of(next(again.messages("Orders", begin=n))) for n in others] == others
    assert [len(again.messages_by_key("Orders", f"k{n}")) for n in others] == [1] * 99
    assert state.names(layout.commitlog_dir(ROOT)) == names
    put(again, 100)
    assert number_of(next(again.messages("Orders", begin=again.max_queue_offset("Orders", 0) - 1))) == 100


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_one_flipped_bit_beside_the_log_deletes_nothing(
    open_store: OpenStore, disk: MemoryDisk, seed: int, *, clean: bool
) -> None:
    """NATS JetStream (Jepsen, 2.12.1), nats-server #7556.

    One flipped bit in a snapshot's file made the server judge a stream an orphan, and delete it with all its
    messages.
    """
    chance = random.Random(seed)
    store = open_store()
    for number in range(60):
        put(store, number)
    store.close()
    state = disk.after_kill()
    logs = {path: state.load(path) for path in paths_below(state, layout.commitlog_dir(ROOT))}
    derived = [
        path for path in paths_below(state, ROOT) if path not in logs and state.load(path).strip(b"\0")
    ]
    path = chance.choice(derived)
    data = state.load(path)
    at = chance.choice([at for at, byte in enumerate(data) if byte])
    damaged(state, path, at, bytes([data[at] ^ 1 << chance.randrange(8)]))
    if not clean:
        state.put(layout.abort_path(ROOT), b"1")
    again = open_store(files=state)
    assert {path: state.load(path) for path in logs} == logs
    if {layout.consume_queues_dir(ROOT), layout.index_dir(ROOT)} & set(path.parents):
        # What a start trusts, ``cometmq store verify`` does not, and a rebuild mends.
        again.close()
        rebuild(ROOT, SMALL, layer=state)
        again = open_store(files=state)
    assert numbers(again) == list(range(60))
    assert with_keys(again, 60) == [1] * 60


def test_a_queue_offset_once_acknowledged_never_comes_to_mean_another_message(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    """Redpanda (Jepsen, 21.10.1): offsets that producers were told were found with other messages later."""
    chance = random.Random(1)
    state = disk
    acknowledged: dict[int, int] = {}
    for _ in range(10):
        store = open_store(files=state)
        for _ in range(chance.randint(1, 20)):
            number = len(acknowledged)
            message = Message("Orders", b"%06d" % number * 20)
            acknowledged[store.append_message(message).queue_offset] = number
            if chance.random() < 0.1:
                clock.advance(chance.choice([SECOND_MS, ROUND_MS]))
                store.tick()
        state = state.after_kill()
        again = open_store(files=state.after_kill())
        found = {message.queue_offset: number_of(message) for message in again.messages("Orders")}
        assert found == acknowledged
