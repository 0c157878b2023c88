"""Where a group begins, and that it misses nothing from then on."""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.consuming import Basket
from tests.shop import QUEUE, shop

from cometmq.client import LitePullConsumer, Model, SimpleConsumer
from cometmq.client.group import membership
from cometmq.client.handling.start import Start
from cometmq.client.requests.offset_store import RemoteOffsets
from cometmq.errors import NetworkError
from cometmq.io.clock import ManualClock
from cometmq.message import Message, StoredMessage
from cometmq.store.read.readings import Readings

OLD = [b"old"] * 8
NEW = {b"%d" % number for number in range(20)}


async def test_a_start_is_a_place_in_a_queue(tmp_path: Path) -> None:
    clock = ManualClock()
    async with shop(tmp_path, clock=clock) as here:
        await here.send(b"0")
        clock.advance(1_000)
        await here.send(b"1", b"2")
        starts = [Start.FIRST, Start.LAST, Start.at(clock.now_ms()), Start.at(0)]
        assert [await start.offset(here.requests, QUEUE) for start in starts] == [0, 3, 1, 0]
        assert await Start.LAST.offset(here.requests, QUEUE, since_ms=clock.now_ms()) == 1


def never_young(*_: object) -> Generator[Any, Any, bool]:
    """Answer as a store whose queues' first messages are long out of memory."""
    yield from ()
    return False


@pytest.fixture
def old_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Readings, "is_young", never_young)


async def bodies_of(poll: Callable[[], Awaitable[list[StoredMessage]]]) -> set[bytes]:
    found: set[bytes] = set()
    while len(found) < len(NEW):
        found |= {message.body for message in await poll()}
    return found


@pytest.mark.usefixtures("old_queues")
@pytest.mark.parametrize(
    "kind", [{}, {"pop": True}, {"model": Model.BROADCASTING}, {"ordered": True}, {"late": True}], ids=str
)
async def test_a_push_consumer_misses_nothing_that_was_sent_after_its_start(
    kind: dict[str, Any], tmp_path: Path
) -> None:
    ordered, late = kind.pop("ordered", False), kind.pop("late", False)
    basket = Basket()
    async with shop(tmp_path / "store", queues=4) as here:
        await here.send(*OLD)
        consumer = here.consumer(start=Start.LAST, offsets_directory=tmp_path, **kind)
        consumer.subscribe("Others" if late else "Orders", basket.put, ordered=ordered)
        async with consumer:
            if late:
                consumer.subscribe("Orders", basket.put)
            for body in NEW:
                await here.producer.send(Message("Orders", body))
            assert set(await basket.has(len(NEW))) == NEW


@pytest.mark.usefixtures("old_queues")
@pytest.mark.parametrize("kind", ["subscribed", "assigned", "popped"])
async def test_a_consumer_that_is_polled_misses_nothing_that_was_sent_after_it_subscribed(
    kind: str, tmp_path: Path
) -> None:
    async with (
        shop(tmp_path, queues=4) as here,
        LitePullConsumer(here.live.name_server, "readers") as lite,
        SimpleConsumer(here.live.name_server, "readers") as simple,
    ):
        await here.send(*OLD)
        if kind == "subscribed":
            await lite.subscribe("Orders")
        elif kind == "assigned":
            await lite.assign(here.queues)
        else:
            await simple.subscribe("Orders")
        for body in NEW:
            await here.producer.send(Message("Orders", body))
        poll = partial(simple.receive, wait_ms=1_000) if kind == "popped" else lite.poll
        assert await bodies_of(poll) == NEW


@pytest.mark.usefixtures("old_queues")
@pytest.mark.parametrize("pop", [False, True])
async def test_where_a_group_begins_is_committed_before_the_start_returns(pop: bool, tmp_path: Path) -> None:
    async with shop(tmp_path) as here:
        await here.send(*OLD)
        consumer = here.consumer(start=Start.LAST, pop=pop)
        consumer.subscribe("Orders", print)
        async with consumer:
            assert await here.committed() == len(OLD)


async def test_a_start_does_not_wait_long_for_a_broker_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> int:
        raise NetworkError("gone")

    monkeypatch.setattr(membership, "BEGIN_S_MAX", 0.1)
    monkeypatch.setattr(Start, "offset", fail)
    monkeypatch.setattr(RemoteOffsets, "read", none)
    async with shop(tmp_path) as here:
        consumer = here.consumer(start=Start.LAST)
        consumer.subscribe("Orders", print)
        async with consumer:
            assert "messages stored from now on are not missed" in caplog.text


async def none(*_: object) -> None:
    """Return the offset of a group that has none."""
