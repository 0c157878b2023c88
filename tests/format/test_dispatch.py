from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.format import properties, sys_flag
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.dispatch import DispatchEntry, dispatch_of, light_offsets, without_light_offsets
from cometmq.format.host import pack_host
from cometmq.format.index import IndexEntry, IndexHeader, entry_position
from cometmq.format.java.java_hash import index_key_hash, java_hash
from cometmq.format.layout import commitlog_dir, consume_queue_dir, index_dir, parse_offset_name
from cometmq.format.queue_entry import QueueEntry, unpack_many
from cometmq.format.record import MAGIC_V2, Record, encode, record_at
from cometmq.format.scan import scan

LEVELS = DelayLevels.parse()
LIGHT_NAMES = st.text(st.characters(codec="utf-8", exclude_characters=",/\0\1\2"), max_size=40).map(
    "%LMQ%{}".format
)
LIGHT_QUEUES = st.dictionaries(LIGHT_NAMES, st.integers(0, 2**63 - 1), max_size=5)
HOST = pack_host("127.0.0.1", 10911)
PLAIN = Record(
    topic="TopicA",
    body=b"a body",
    properties=b"",
    queue_id=1,
    queue_offset=2,
    physical_offset=3,
    flag=0,
    sys_flag=0,
    born_time=1,
    born_host=HOST,
    store_time=1_700_000_000_000,
    store_host=HOST,
)


def with_properties(data: bytes, topic: str = "TopicA") -> DispatchEntry:
    return dispatch_of(PLAIN._replace(topic=topic, properties=data), LEVELS)


def dispatched(store: Path) -> Iterator[DispatchEntry]:
    for path in sorted(commitlog_dir(store).iterdir()):
        data = path.read_bytes()
        for head in scan(data, base_offset=parse_offset_name(path.name)):
            yield dispatch_of(record_at(data, head), LEVELS)


@pytest.mark.parametrize("store", ["store-clean", "store-killed-recovered"])
def test_makes_the_consume_queues_of_a_real_broker(golden: Mapping[str, Path], store: str) -> None:
    queues: dict[tuple[str, int], list[QueueEntry]] = defaultdict(list)
    for entry in dispatched(golden[store]):
        if entry.in_queue:
            queue = queues[entry.topic, entry.queue_id]
            assert entry.queue_offset == len(queue)
            queue.append(QueueEntry(entry.physical_offset, entry.size, entry.tags_code))
    assert len(queues) > 10
    for (topic, queue_id), entries in queues.items():
        files = sorted(consume_queue_dir(golden[store], topic, queue_id).iterdir())
        written = list(unpack_many(b"".join(path.read_bytes() for path in files)))
        assert written[: len(entries)] == entries
        assert all(entry.is_end for entry in written[len(entries) :])


def test_makes_the_index_of_a_real_broker(golden: Mapping[str, Path]) -> None:
    assert index_made(golden["store-clean"]) == index_written(golden["store-clean"])


def test_makes_the_index_of_a_recovered_broker_but_for_the_record_it_indexed_twice(
    golden: Mapping[str, Path],
) -> None:
    made = index_made(golden["store-killed-recovered"])
    written = index_written(golden["store-killed-recovered"])
    assert list(dict.fromkeys(written)) == made
    assert len(written) - len(made) == 3


def index_made(store: Path) -> list[tuple[int, int]]:
    return [
        (index_key_hash(entry.topic, key), entry.physical_offset)
        for entry in dispatched(store)
        if entry.in_index
        for key in entry.keys
    ]


def index_written(store: Path) -> list[tuple[int, int]]:
    written = []
    for path in sorted(index_dir(store).iterdir()):
        data = path.read_bytes()
        for number in range(1, IndexHeader.unpack(data).next_entry):
            entry = IndexEntry.unpack(data, entry_position(number, slot_count=1000))
            written.append((entry.key_hash, entry.physical_offset))
    return written


@pytest.mark.parametrize(
    ("transaction", "in_queue", "in_index"),
    [
        (sys_flag.TRANSACTION_NOT, True, True),
        (sys_flag.TRANSACTION_PREPARED, False, True),
        (sys_flag.TRANSACTION_COMMIT, True, True),
        (sys_flag.TRANSACTION_ROLLBACK, False, False),
    ],
)
def test_transaction_type_decides_where_it_goes(transaction: int, in_queue: bool, in_index: bool) -> None:
    entry = dispatch_of(PLAIN._replace(sys_flag=0x1 | transaction), LEVELS)
    assert (entry.in_queue, entry.in_index) == (in_queue, in_index)


def test_keys_are_the_unique_one_then_the_others_then_the_tags() -> None:
    entry = with_properties(b"KEYS\x01k1  k2 k1 \x02TAGS\x01TagA\x02UNIQ_KEY\x01U 1\x02")
    assert entry.keys == ("U 1", "k1", "k2", "k1", "T#TagA")


def test_a_message_without_keys_is_indexed_by_nothing() -> None:
    assert with_properties(b"KEYS\x01 \x02a\x01b\x02").keys == ()


def test_the_last_of_several_properties_counts() -> None:
    data = (
        b"UNIQ_KEY\x01a\x02TAGS\x01x\x02KEYS\x01k\x02UNIQ_KEY\x01b\x02TAGS\x01y\x02KEYS\x01l\x02KEYS\x01\x02"
    )
    entry = with_properties(data)
    assert entry.keys == ("b", "l", "T#y")
    assert entry.tags_code == java_hash("y")


def test_tags_code_is_zero_without_tags_and_may_be_negative() -> None:
    assert with_properties(b"").tags_code == 0
    assert with_properties(b"TAGS\x01polygenelubricants\x02").tags_code == -(2**31)


@pytest.mark.parametrize(("delay", "delay_ms"), [("1", 1000), ("18", 7_200_000), ("99", 7_200_000)])
def test_a_delayed_message_has_the_time_it_is_due_for_a_tags_code(delay: str, delay_ms: int) -> None:
    data = properties.encode({"TAGS": "TagA", "DELAY": delay})
    assert with_properties(data, SCHEDULE_TOPIC).tags_code == PLAIN.store_time + delay_ms
    assert with_properties(data).tags_code == java_hash("TagA")


@pytest.mark.parametrize("delay", ["0", "-3", "soon"])
def test_a_delay_that_is_none_leaves_the_tags_code(delay: str) -> None:
    data = properties.encode({"TAGS": "TagA", "DELAY": delay})
    assert with_properties(data, SCHEDULE_TOPIC).tags_code == java_hash("TagA")


@pytest.mark.parametrize(
    "stored", [PLAIN, PLAIN._replace(magic=MAGIC_V2), PLAIN._replace(topic="T\udcff", born_host=bytes(20))]
)
def test_size_is_that_of_the_record(stored: Record) -> None:
    entry = dispatch_of(stored, LEVELS)
    assert entry.size == len(encode(stored))
    assert entry[:4] == (stored.topic, 1, 2, 3)


def named_offsets(names: str, texts: str, topic: str = "Parent") -> dict[str, int]:
    stored = f"TAGS\1t\2INNER_MULTI_DISPATCH\1{names}\2INNER_MULTI_QUEUE_OFFSET\1{texts}\2"
    return light_offsets(topic, properties.decode(stored.encode()))


@given(LIGHT_QUEUES)
def test_each_named_queue_has_the_offset_at_its_place(queues: dict[str, int]) -> None:
    assert named_offsets(",".join(queues), ",".join(map(str, queues.values()))) == queues


@given(st.text(), st.text())
def test_whatever_the_texts_are_only_light_queues_and_offsets_are_found(names: str, texts: str) -> None:
    for name, offset in named_offsets(names, texts).items():
        assert name.startswith("%LMQ%") and name in names.split(",") and 0 <= offset < 2**63


@pytest.mark.parametrize(
    ("names", "texts", "found"),
    [
        ("%LMQ%a,", "3", {"%LMQ%a": 3}),
        ("%LMQ%a,,,", "3,", {"%LMQ%a": 3}),
        ("%LMQ%a", "+3", {"%LMQ%a": 3}),
        ("%LMQ%$parent$lite", "0", {"%LMQ%$parent$lite": 0}),
        ("%LMQ%a.b c", "0", {"%LMQ%a.b c": 0}),
        ("%LMQ%a,%LMQ%b", "3", {}),
        ("%LMQ%a", "3,4", {}),
        (",%LMQ%a", "3", {}),
        ("Other,%LMQ%a", "3,4", {"%LMQ%a": 4}),
        ("%lmq%a", "3", {}),
        ("%LMQ%a/b,%LMQ%c", "3,4", {"%LMQ%c": 4}),
        ("%LMQ%../../etc", "3", {}),
        ("%LMQ%" + "x" * 251, "3", {}),
        ("", "", {}),
    ],
)
def test_lists_mean_what_they_mean_to_rocketmq(names: str, texts: str, found: dict[str, int]) -> None:
    assert named_offsets(names, texts) == found


def test_a_pair_that_stops_rocketmq_for_ever_is_passed_over() -> None:
    assert named_offsets("%LMQ%x,,%LMQ%y", "4,,0") == {"%LMQ%x": 4, "%LMQ%y": 0}
    assert named_offsets("%LMQ%a,%LMQ%b,%LMQ%c,%LMQ%d", f"x,-1,{2**63},7") == {"%LMQ%d": 7}


def test_a_name_that_comes_again_has_one_entry() -> None:
    assert named_offsets("%LMQ%a,%LMQ%a", "3,3") == {"%LMQ%a": 3}


@pytest.mark.parametrize("topic", ["%RETRY%group", "rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX"])
def test_records_of_a_brokers_own_topics_are_in_no_light_queue(topic: str) -> None:
    assert named_offsets("%LMQ%a", "3", topic) == {}


def test_a_record_without_offsets_is_in_no_light_queue() -> None:
    assert light_offsets("Parent", {"INNER_MULTI_DISPATCH": "%LMQ%a"}) == {}
    assert light_offsets("Parent", {"INNER_MULTI_QUEUE_OFFSET": "3"}) == {}


def test_takes_the_offsets_out_and_leaves_all_else() -> None:
    stored = b"TAGS\1t\2INNER_MULTI_QUEUE_OFFSET\0013\2X\1INNER_MULTI_QUEUE_OFFSET\1\2\2Y\1\xff"
    assert without_light_offsets(stored) == b"TAGS\1t\2X\1INNER_MULTI_QUEUE_OFFSET\1\2\2Y\1\xff"
    assert without_light_offsets(b"INNER_MULTI_QUEUE_OFFSET\0013") == b""
