from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.format.dispatch import KeyKind
from cometmq.format.java.java_hash import index_key_hash
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.message import Message
from cometmq.store.read.query import COMPARED_AT_ONCE, QueryResult, query_records
from cometmq.store.reading import PAUSE, Run, run
from cometmq.store.store import MessageStore
from cometmq.testing.memory_disk import MemoryDisk


def test_records_come_oldest_first_and_the_newest_if_there_are_too_many(
    open_store: OpenStore, clock: ManualClock
) -> None:
    store = open_store()
    for n in range(5):
        clock.advance(1_000)
        store.append([new_message(body=b"%d" % n, keys="k")])
    end = clock.now_ms()
    store.query("Orders", "k")  # lets the index catch up

    def asked(max_count: int, begin_time: int = 0) -> QueryResult:
        assert store._index is not None
        return run(
            query_records(
                store._log,
                store._index,
                "Orders",
                "k",
                max_count=max_count,
                begin_time=begin_time,
                end_time=end,
            )
        )

    assert [decode(record).body for record in asked(9).records] == [b"0", b"1", b"2", b"3", b"4"]
    assert [decode(record).body for record in asked(2).records] == [b"3", b"4"]
    assert [decode(record).body for record in asked(9, end).records] == [b"4"]
    assert asked(9).index_last_update_time == end
    assert asked(9).index_last_update_offset == decode(asked(1).records[0]).physical_offset


def found(store: MessageStore, topic: str, key: str, count: int = 32, **more: Any) -> list[int]:
    return [int(decode(record).body) for record in store.query(topic, key, count, **more).records]


def test_a_record_of_another_topic_or_key_with_the_same_hash_is_not_found(open_store: OpenStore) -> None:
    assert index_key_hash("shard1a", "k") == index_key_hash("shard2B", "k")
    store = open_store()
    store.append([new_message("shard1a", body=b"1", keys="k Aa")])
    store.append([new_message("shard2B", body=b"2", keys="k BB")])
    store.append([new_message("shard1a", body=b"3", keys="BB")])
    assert [found(store, topic, "k") for topic in ("shard1a", "shard2B")] == [[1], [2]]
    assert [found(store, "shard1a", key) for key in ("Aa", "BB")] == [[1], [3]]
    assert found(store, "shard1a", "other") == []


@given(
    messages=st.lists(
        st.tuples(st.sampled_from(["shard1a", "shard2B"]), st.sampled_from(["Aa", "BB", "Aa Aa", "x"])),
        max_size=40,
    ),
    limit=st.integers(1, 30),
)
@settings(deadline=None)
def test_the_limit_counts_records_that_have_the_key_and_each_once(
    messages: list[tuple[str, str]], limit: int
) -> None:
    with MessageStore.open(ROOT, SMALL, files=MemoryDisk()) as store:
        for n, (topic, keys) in enumerate(messages):
            store.append([new_message(topic, body=b"%d" % n, keys=keys)])
        for topic in ("shard1a", "shard2B"):
            for key in ("Aa", "BB"):
                right = [n for n, (of, keys) in enumerate(messages) if of == topic and key in keys.split()]
                assert found(store, topic, key, limit) == right[-limit:]


def test_which_keys_count_can_be_said(open_store: OpenStore) -> None:
    store = open_store()
    store.append_messages([Message("Orders", b"1", tags="paid", keys=("k",))])
    unique_id = next(store.messages("Orders")).message_id
    store.append([new_message(body=b"2", keys=unique_id)])
    assert found(store, "Orders", unique_id) == [1, 2]
    assert found(store, "Orders", unique_id, kind=KeyKind.UNIQUE) == [1]
    assert found(store, "Orders", unique_id, kind=KeyKind.KEY) == [2]
    assert found(store, "Orders", "T#paid") == [1], "as RocketMQ finds tags since 5.4"
    assert found(store, "Orders", "T#paid", kind=KeyKind.KEY) == []


def test_a_long_comparison_pauses(open_store: OpenStore) -> None:
    store = open_store()
    store.append([new_message("shard1a", body=b"0", keys="k")])
    for _ in range(2 * COMPARED_AT_ONCE):
        store.append([new_message("shard2B", keys="k")])
    run, pauses, fetched = Run(store.readings.query("shard1a", "k", 1)), 0, None
    while not run.go_on(fetched):
        pauses += run.step is PAUSE
        fetched = run.step.fetch()
    assert pauses == 2
    assert [decode(record).body for record in run.answer.records] == [b"0"]


def test_a_store_without_an_index_finds_nothing(open_store: OpenStore) -> None:
    store = open_store(replace(SMALL, message_index_enable=False))
    store.append([new_message(keys="k")])
    assert store.query("Orders", "k") == QueryResult([], 0, 0)
