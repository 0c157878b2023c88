"""The store that is damaged: 2,000 messages in files so small that all of them roll, and what it holds."""

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.format import layout, properties, record
from cometmq.format.host import pack_host
from cometmq.format.java.java_hash import index_key_hash
from cometmq.io.clock import ManualClock
from cometmq.store import MessageStore, NewMessage, StoreSettings
from cometmq.store.tables import JsonTable
from cometmq.testing.memory_disk import MemoryDisk

ROOT: Final = Path("/store")
HOST: Final = pack_host("127.0.0.1", 10911)
SETTINGS: Final = StoreSettings(
    mapped_file_size_commit_log=65_536,
    mapped_file_size_consume_queue=1_200,
    max_hash_slot_num=300,
    max_index_num=1_200,
    max_transfer_count_on_message_in_memory=10_000,
    max_transfer_bytes_on_message_in_memory=2**30,
)
PROPERTY_CRC: Final = "property-crc"
TOPICS: Final = ("Orders", "Payments", "%RETRY%audit")
QUEUES: Final = 6
MESSAGES: Final = 2_000
KEY_OF: Final = 30
"""So many messages of a topic share a key."""
TAGS: Final = (None, "new", "paid", "lost")
TABLES: Final = ("topics", "subscriptionGroup", "consumerOffset")

Key = tuple[str, str]
Queue = tuple[str, int]


class Wanted(NamedTuple):
    """What a sound store gives.

    Attributes:
        records: by CommitLog offset.
        queues: CommitLog offsets by queue, in the order of queue offsets.
        keys: CommitLog offsets by topic and key, ascending; each message shares one, and has one of its own.
        key_hashes: by which the index finds each of the keys.
        tables: contents of the JSON tables.
    """

    records: dict[int, bytes]
    queues: dict[Queue, list[int]]
    keys: dict[Key, list[int]]
    key_hashes: list[int]
    tables: dict[str, object]


class Sample(NamedTuple):
    """A store's files, by path, and what they hold."""

    disk: MemoryDisk
    wanted: Wanted
    settings: StoreSettings


def make_sample(*, closed: bool, count: int = MESSAGES, settings: StoreSettings = SETTINGS) -> Sample:
    """Build a store that was closed, or whose process was killed while its newest entries were in memory."""
    disk, clock = MemoryDisk(), ManualClock()
    wanted = Wanted({}, defaultdict(list), defaultdict(list), [], {})
    tables(disk, wanted)
    store = MessageStore.open(ROOT, settings, files=disk, clock=clock)
    of_topic: dict[str, itertools.count[int]] = defaultdict(itertools.count)
    for number in range(count):
        topic = TOPICS[number * number % 7 % len(TOPICS)]
        message = new_message(number, topic, f"g{next(of_topic[topic]) // KEY_OF}")
        at = store.append([message])[0]
        wanted.records[at.physical_offset] = b""
        wanted.queues[topic, message.queue_id].append(at.physical_offset)
        by_name = properties.decode(message.properties)
        wanted.keys[topic, by_name[properties.KEYS]].append(at.physical_offset)
        wanted.keys[topic, by_name[properties.UNIQ_KEY]].append(at.physical_offset)
        clock.advance(40 + number % 300)
        keep_up(store)
    for offset in wanted.records:
        data = store.read_record(offset)
        assert data is not None
        wanted.records[offset] = data
    wanted.key_hashes[:] = [index_key_hash(*key) for key in wanted.keys]
    if not closed:
        killed = disk.after_kill()
        store.close()
        return Sample(killed, wanted, settings)
    store.close()
    return Sample(disk.after_kill(), wanted, settings)


def keep_up(store: MessageStore) -> None:
    """Run what an owner does each second; all is on the disk first, so that every sample is the same."""
    store.wait_flushed().result(60)
    if paths := store.tick():
        time = store.dispatched_time
        store.sync_files(paths)
        store.vouch(time)


def new_message(number: int, topic: str, key: str) -> NewMessage:
    """Build the message of a number: bodies of 0 to some 400 bytes, one in 50 longer."""
    tags = TAGS[number % len(TAGS)]
    by_name = {properties.UNIQ_KEY: f"{number:032X}", properties.KEYS: key}
    if tags:
        by_name[properties.TAGS] = tags
    size = number * 37 % 400 if number % 50 else 2_000
    body = (b"%d;" % number * 1_000)[:size]
    return NewMessage(
        topic,
        number * 5 % QUEUES,
        body,
        properties.encode(by_name),
        born_time=1_000 + number,
        born_host=HOST,
        store_host=HOST if number % 9 else pack_host("::1", 10911),
        tags=tags,
    )


def tables(disk: MemoryDisk, wanted: Wanted) -> None:
    """Save the broker's tables, twice each: a backup is there then."""
    disk.make_directory(layout.config_dir(ROOT))
    for name in TABLES:
        table = JsonTable(disk, layout.config_path(ROOT, name))
        for version in (1, 2):
            entries = {f"{name}{number}@group": number * 7919 for number in range(9)}
            table.save({"dataVersion": {"counter": version}, "table": entries})
        wanted.tables[name] = table.load()


def fields_of(data: bytes) -> list[tuple[int, str]]:
    """Return where each field of a record ends, with its name, in order."""
    head = record.read_head(data, 0)
    born, stored = len(head.born_host), len(head.store_host)
    widths = [
        ("TOTALSIZE", 4), ("MAGIC", 4), ("BODYCRC", 4), ("QUEUEID", 4), ("FLAG", 4), ("QUEUEOFFSET", 8),
        ("PHYSICALOFFSET", 8), ("SYSFLAG", 4), ("BORNTIMESTAMP", 8), ("BORNHOST", born),
        ("STORETIMESTAMP", 8), ("STOREHOST", stored), ("RECONSUMETIMES", 4), ("PREPARED OFFSET", 8),
        ("BODYLEN", 4), ("body", head.body_length), ("TOPICLEN", 1), ("topic", head.topic_length),
        ("PROPLEN", 2), ("properties", head.properties_length),
    ]  # fmt: skip
    ends = itertools.accumulate(width for _, width in widths)
    return list(zip(ends, (name for name, _ in widths), strict=True))
