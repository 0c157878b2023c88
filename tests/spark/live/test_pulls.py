from pathlib import Path

import pytest
from tests.live import in_thread
from tests.spark.live.conftest import Topics, queue

from cometmq.client.consumer.queue_requests import PulledRecords
from cometmq.errors import NetworkError
from cometmq.format.record import decode_many
from cometmq.spark.live import pulls
from cometmq.spark.live.links import linked
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.pulls import PulledPiece, RangePulls
from cometmq.spark.live.ranges import QueueRange

PAID, NEW = queue("orders", 0), queue("orders", 1)


def pull(options: LiveOptions, *ranges: QueueRange, bytes_max: int = 1_000_000) -> list[list[PulledPiece]]:
    found = []
    with linked(options.cluster) as link:
        pulling = RangePulls(options, link)
        pulling.add(ranges)
        while pieces := link.run(pulling.next(bytes_max)):
            found.append(pieces)
        link.run(pulling.close())
    return found


def bodies(pieces: list[PulledPiece]) -> list[bytes]:
    return [record.body for piece in pieces for body in piece.bodies for record in decode_many(body)]


def test_ranges_come_in_order_and_in_parts(orders: Topics) -> None:
    options = orders.options(subscribe="orders")
    parts = pull(options, QueueRange(PAID, 10, 95), QueueRange(NEW, 5, 6), bytes_max=5_000)
    assert len(parts) > 1
    assert bodies([piece for part in parts for piece in part]) == [
        *(b"paid %d" % n for n in range(10, 95)),
        b"new 5",
    ]


def test_slices_grow_to_what_a_broker_gives_at_once(tmp_path: Path) -> None:
    generous = {f"max_transfer_count_on_message_in_{where}": 200 for where in ("memory", "disk")}
    with in_thread(tmp_path, store=generous) as live:
        topics = Topics(live.name_server)
        topics.create("many", queues=1)
        topics.send("many", [b"%d" % n for n in range(12_000)])
        many = QueueRange(queue("many"), 3, 11_990)
        (pieces,) = pull(topics.options(subscribe="many"), many, bytes_max=10_000_000)
    assert bodies(pieces) == [b"%d" % n for n in range(3, 11_990)]
    at_once = [len(list(decode_many(body))) for piece in pieces for body in piece.bodies]
    assert at_once[0] == 32 and max(at_once) == 200


def test_ranges_of_a_message_each_are_asked_for_together_but_not_all_at_once(
    scattered: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, under_way, most = RangePulls._ask, 0, 0

    async def count(self: RangePulls, left: QueueRange) -> PulledRecords:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await ask(self, left)
        finally:
            under_way -= 1

    monkeypatch.setattr(RangePulls, "_ask", count)
    singles = [QueueRange(queue("scattered", 3 * (number % 20)), 0, 1) for number in range(100)]
    (pieces,) = pull(scattered.options(subscribe="scattered"), *singles)
    assert bodies(pieces) == [b"%d" % (3 * (number % 20)) for number in range(100)]
    assert most == pulls.SLICES_MAX


def test_brokers_filter(orders: Topics) -> None:
    (pieces,) = pull(
        orders.options(subscribe="orders", tags="paid || other"),
        QueueRange(PAID, 0, 9),
        QueueRange(NEW, 0, 9),
    )
    assert set(bodies(pieces)) >= {b"paid %d" % n for n in range(9)}
    assert not any(body.startswith(b"new") for body in bodies(pieces))


def test_what_is_behind_the_end_is_said_to_be_gone(orders: Topics) -> None:
    (pieces,) = pull(orders.options(subscribe="orders"), QueueRange(NEW, 38, 45))
    assert bodies(pieces) == [b"new 38", b"new 39"]
    assert pieces[0].gone == [QueueRange(NEW, 40, 45)]


def test_a_broker_that_is_not_there_is_named(orders: Topics) -> None:
    missing = NEW._replace(broker_name="broker-x")
    with pytest.raises(NetworkError, match=r"broker broker-x, queue 1, offsets 0 to 1: no success in 1 s"):
        pull(orders.options(subscribe="orders"), QueueRange(missing, 0, 2))
