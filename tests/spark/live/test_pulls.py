import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.live import in_thread
from tests.spark.live.conftest import Topics, queue

from cometmq.client.requests.queue_requests import PulledRecords, QueueRequests
from cometmq.errors import NetworkError, RemoteError
from cometmq.format.record import decode_many
from cometmq.message import MessageQueue
from cometmq.net.connection import Connection
from cometmq.spark.live import pulls
from cometmq.spark.live.links import linked
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.pulls import PulledPiece, RangePulls
from cometmq.spark.live.ranges import QueueRange
from cometmq.wire.client_request import ClientRequest
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command

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


GENEROUS = {f"max_transfer_count_on_message_in_{where}": 200 for where in ("memory", "disk")}


def test_the_first_response_tells_how_many_a_broker_gives_at_once(tmp_path: Path) -> None:
    for given, at_once in ((GENEROUS, 200), ({}, 32)):
        with in_thread(tmp_path / str(at_once), store=given) as live:
            topics = Topics(live.name_server)
            topics.create("many", queues=1)
            topics.send("many", [b"%d" % n for n in range(4_000)])
            many = QueueRange(queue("many"), 3, 3_990)
            (pieces,) = pull(topics.options(subscribe="many"), many, bytes_max=10_000_000)
        assert bodies(pieces) == [b"%d" % n for n in range(3, 3_990)]
        counts = [len(list(decode_many(body))) for piece in pieces for body in piece.bodies]
        assert counts[0] == at_once and len(counts) <= 3_987 / at_once + 4
        assert sum(len(piece.bodies) > 1 for piece in pieces) <= 3  # larger slices are rarely tried


def test_slices_grow_again_behind_large_messages(tmp_path: Path) -> None:
    with in_thread(tmp_path, store=GENEROUS) as live:
        topics = Topics(live.name_server)
        topics.create("many", queues=1)
        topics.send("many", [bytes(100_000)] * 5)
        for begin in (0, 10_000):
            topics.send("many", [b"%d" % n for n in range(begin, begin + 10_000)])
        (pieces,) = pull(
            topics.options(subscribe="many"), QueueRange(queue("many"), 0, 20_005), bytes_max=10_000_000
        )
    assert bodies(pieces)[5:] == [b"%d" % n for n in range(20_000)]
    counts = [len(list(decode_many(body))) for piece in pieces for body in piece.bodies]
    assert counts[0] < 5 and max(counts) > 32  # 200 is out of reach: files are short here, and end responses


@contextmanager
def counted_under_way() -> Iterator[list[int]]:
    """Record at each request how many have no response yet."""
    request, responses, found = Connection.request, list[asyncio.Future[Command]](), list[int]()

    def count(connection: Connection, command: ClientRequest, timeout_ms: int) -> asyncio.Future[Command]:
        responses.append(response := request(connection, command, timeout_ms))
        found.append(sum(not one.done() for one in responses))
        return response

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Connection, "request", count)
        yield found


def test_ranges_of_a_message_each_are_asked_for_together_but_not_all_at_once(scattered: Topics) -> None:
    """By the first read of a link, which has to connect, and by those after it."""
    numbers = [3 * (number % 20) for number in range(300)]
    singles = [QueueRange(queue("scattered", number), 0, 1) for number in numbers]
    options = scattered.options(subscribe="scattered")
    with linked(options.cluster) as link:
        for _ in range(2):
            pulling = RangePulls(options, link)
            pulling.add(singles)
            with counted_under_way() as under_way:
                pieces = link.run(pulling.next(1_000_000))
            assert bodies(pieces) == [b"%d" % number for number in numbers]
            assert max(under_way) == pulls.SLICES_MAX


def test_ranges_of_some_messages_are_asked_for_together_in_slices(tmp_path: Path) -> None:
    with in_thread(tmp_path) as live:
        topics = Topics(live.name_server)
        topics.create("some", queues=4)
        for queue_id in range(4):
            topics.send("some", [b"%d" % n for n in range(320)], queue_id)
        options = topics.options(subscribe="some")
        ranges = [QueueRange(queue("some", 0), 0, 3)]
        ranges += [QueueRange(queue("some", queue_id), 0, 320) for queue_id in range(4)]
        with counted_under_way() as under_way:
            (pieces,) = pull(options, *ranges)
    assert bodies(pieces) == [b"%d" % n for n in (*range(3), *(4 * list(range(320))))]
    assert 36 <= max(under_way) <= 39 and len(under_way) < 50  # all slices of 32 but for the first one


def test_what_a_lost_connection_leaves_is_requested_again(orders: Topics) -> None:
    options = orders.options(subscribe="orders")
    with linked(options.cluster) as link:
        link.run(RangePulls(options, link).next(1))
        pulling = RangePulls(options, link)
        pulling.add([QueueRange(PAID, 0, 40), QueueRange(NEW, 0, 40)])
        address = link.run(link.routes.master(PAID))

        async def lose() -> list[PulledPiece]:
            asyncio.get_running_loop().call_soon(
                (await link.connections.connect(address)).abort, "its wire is cut"
            )
            return await pulling.next(1_000_000)

        pieces = link.run(lose())
    assert bodies(pieces) == [*(b"paid %d" % n for n in range(40)), *(b"new %d" % n for n in range(40))]


def test_what_comes_before_a_refused_range_is_returned_first(
    orders: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = orders.options(subscribe="orders")
    pulled = QueueRequests.pulled

    def refuse(
        requests: QueueRequests, of: MessageQueue, queue_offset: int, answer: Command
    ) -> PulledRecords | None:
        if of == NEW:
            raise RemoteError(ResponseCode.NO_PERMISSION, "not yours")
        return pulled(requests, of, queue_offset, answer)

    monkeypatch.setattr(QueueRequests, "pulled", refuse)
    with linked(options.cluster) as link:
        pulling = RangePulls(options, link)
        pulling.add([QueueRange(PAID, 0, 32), QueueRange(NEW, 0, 32)])
        assert bodies(link.run(pulling.next(1))) == [b"paid %d" % n for n in range(32)]
        with pytest.raises(RemoteError, match="queue 1, offsets 0 to 31: not yours"):
            link.run(pulling.next(1))
        link.run(pulling.close())


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
    assert [gone for piece in pieces for gone in piece.gone] == [QueueRange(NEW, 40, 45)]


def test_a_broker_that_is_not_there_is_named(orders: Topics) -> None:
    missing = NEW._replace(broker_name="broker-x")
    with pytest.raises(NetworkError, match=r"broker broker-x, queue 1, offsets 0 to 1: no success in 1 s"):
        pull(orders.options(subscribe="orders"), QueueRange(missing, 0, 2))
