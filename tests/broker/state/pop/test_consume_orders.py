from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.broker.state.pop.consume_orders import KEEP_MS, ConsumeOrders
from cometmq.cluster.pop.order import QueueOrder
from cometmq.errors import StoreDamaged
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.testing.memory_disk import MemoryDisk

KEY = "TFIFO@gfifo"
POP_TIME_MS = 1_795_602_428_484
REAL = (
    f'{{"orderInfoCount":1,"orderedConsumptionLevel":"QUEUE","table":{{"{KEY}":{{0:{{"a":"B0","cm":3,"i":10000,'
    f'"l":{POP_TIME_MS},"o":[3,1],"oc":{{}},"popTime":{POP_TIME_MS}}}}}}}}}'
)
WRITTEN = f"""{{
	"table":{{
		"{KEY}":{{
			0:{{
				"a":"B0",
				"cm":3,
				"i":10000,
				"l":{POP_TIME_MS},
				"o":[
					3,
					1
				],
				"popTime":{POP_TIME_MS}
			}}
		}}
	}}
}}"""
ORDER = QueueOrder(POP_TIME_MS, 10_000, (3, 4), "B0", frozenset({3, 4}))


def load(directory: Path, clock: ManualClock | None = None, *, queue_count: int = 4) -> ConsumeOrders:
    table = JsonTable(Disk(), directory / "consumerOrderInfo.json")
    orders = ConsumeOrders(table, clock or ManualClock(POP_TIME_MS))
    orders.load(
        lambda group, topic, queue_id: (topic, group) == ("TFIFO", "gfifo") and queue_id < queue_count
    )
    return orders


def test_what_a_real_broker_has_written_is_read_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "consumerOrderInfo.json"
    path.write_text(REAL)
    orders = load(tmp_path)
    assert orders.find(KEY, 0) == ORDER
    assert not orders.changed
    orders.update(KEY, 0, ORDER)
    orders.save()
    assert path.read_text() == WRITTEN


def test_the_file_of_a_real_broker_without_pops_in_order_has_none(
    golden: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "consumerOrderInfo.json"
    path.write_text((golden["store-clean"] / "config" / path.name).read_text())
    orders = load(tmp_path)
    assert orders.places() == [] and not orders.changed


offsets = st.integers(0, 2**62)
times = st.integers(0, 2**62)
orders_of_queues = st.builds(
    QueueOrder,
    st.just(POP_TIME_MS),
    times,
    st.lists(offsets, min_size=1, max_size=32, unique=True).map(lambda found: tuple(sorted(found))),
    st.none() | st.text(st.characters(codec="utf-8"), max_size=20),
    st.just(frozenset[int]()),
    st.dictionaries(offsets, times, max_size=3),
    st.dictionaries(offsets, st.integers(1, 2**31 - 1), max_size=3),
)


@settings(max_examples=25, deadline=None)
@given(orders_of_queues, st.data())
def test_all_that_is_known_of_a_queue_is_there_after_a_restart(
    order: QueueOrder, data: st.DataObject
) -> None:
    acknowledged = data.draw(st.frozensets(st.sampled_from(order.offsets)))
    order = order._replace(acknowledged=acknowledged)
    table = JsonTable(MemoryDisk(), Path("/store/config/consumerOrderInfo.json"))
    first = ConsumeOrders(table, ManualClock(POP_TIME_MS))
    first.update(KEY, 5, order)
    first.save()
    again = ConsumeOrders(table, ManualClock(POP_TIME_MS))
    again.load(lambda *_: True)
    assert again.find(KEY, 5) == order and again.places() == [(KEY, 5)]


def test_queues_groups_and_topics_that_are_gone_are_not_read(tmp_path: Path) -> None:
    first = load(tmp_path)
    for key, queue_id in ((KEY, 0), (KEY, 3), ("TFIFO@gone", 0), ("Gone@gfifo", 0)):
        first.update(key, queue_id, ORDER)
    first.save()
    again = load(tmp_path, queue_count=3)
    assert again.places() == [(KEY, 0)]
    again.save()
    assert on_disk(tmp_path) == {"TFIFO@gfifo": [0]}


def on_disk(directory: Path) -> dict[str, list[int]]:
    """Return the queue ids in the file, by the keys of groups and topics."""
    content = JsonTable(Disk(), directory / "consumerOrderInfo.json").load()
    assert content is not None
    return {key: list(queues) for key, queues in content["table"].items()}


def test_what_was_popped_a_day_ago_is_forgotten(tmp_path: Path) -> None:
    clock = ManualClock(POP_TIME_MS)
    orders = load(tmp_path, clock)
    orders.update(KEY, 0, ORDER)
    orders.update(KEY, 1, ORDER)
    clock.advance(KEEP_MS)
    orders.update(KEY, 1, ORDER._replace(pop_time_ms=clock.now_ms()))
    orders.save()
    assert orders.places() == [(KEY, 0), (KEY, 1)]
    clock.advance(1)
    orders.save()
    assert orders.places() == [(KEY, 1)]
    assert on_disk(tmp_path) == {KEY: [1]}


def test_a_queue_and_all_queues_of_a_group_can_be_forgotten(tmp_path: Path) -> None:
    orders = load(tmp_path)
    for key, queue_id in ((KEY, 0), (KEY, 1), ("T@g", 0), ("T@g", 1)):
        orders.update(key, queue_id, ORDER)
    orders.save()
    orders.remove(KEY, 0)
    orders.remove(KEY, 7)
    orders.delete(["T@g", "Unknown@g"])
    assert orders.places() == [(KEY, 1)]
    orders.save()
    assert on_disk(tmp_path) == {KEY: [1]}
    orders.remove(KEY, 1)
    assert orders.find(KEY, 1) is None
    orders.save()
    assert on_disk(tmp_path) == {}


def test_entries_of_older_brokers_without_messages_or_times_are_read(tmp_path: Path) -> None:
    entries = f'{{"0":{{"popTime":5}},"1":{{"popTime":{POP_TIME_MS},"o":[7],"ot":null,"oc":null}}}}'
    (tmp_path / "consumerOrderInfo.json").write_text(f'{{"table":{{"{KEY}":{entries}}}}}')
    orders = load(tmp_path)
    assert orders.places() == [(KEY, 1)]
    assert orders.find(KEY, 1) == QueueOrder(POP_TIME_MS, 0, (7,))


def test_a_file_of_something_else_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "consumerOrderInfo.json").write_text('{"table":{"T@g":{"0":{"popTime":"soon"}}}}')
    with pytest.raises(StoreDamaged, match="repair the file"):
        load(tmp_path)
