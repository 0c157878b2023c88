from msgspec.structs import replace
from tests.store.conftest import SMALL, OpenStore, new_message

from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.store.query import QueryResult, query_records
from cometmq.store.reading import run


def test_records_come_oldest_first_and_the_newest_if_there_are_too_many(
    open_store: OpenStore, clock: ManualClock
) -> None:
    store = open_store()
    for n in range(5):
        clock.advance(1_000)
        store.append([new_message(body=b"%d" % n, keys="k")])
    end = clock.now_ms()
    store.query("Orders", "k")  # lets the index catch up

    def found(max_count: int, begin_time: int = 0) -> QueryResult:
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

    assert [decode(record).body for record in found(9).records] == [b"0", b"1", b"2", b"3", b"4"]
    assert [decode(record).body for record in found(2).records] == [b"3", b"4"]
    assert [decode(record).body for record in found(9, end).records] == [b"4"]
    assert found(9).index_last_update_time == end
    assert found(9).index_last_update_offset == decode(found(1).records[0]).physical_offset


def test_a_store_without_an_index_finds_nothing(open_store: OpenStore) -> None:
    store = open_store(replace(SMALL, message_index_enable=False))
    store.append([new_message(keys="k")])
    assert store.query("Orders", "k") == QueryResult([], 0, 0)
