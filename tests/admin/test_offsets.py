from pathlib import Path

import pytest
from tests.consuming import Basket, hanging
from tests.live import BROKER
from tests.shop import QUEUE, Shop, shop

from cometmq.admin import offsets
from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.offsets import END, GroupAtWork, OffsetChange, QueueProgress, ResetTarget
from cometmq.client import Model, PullConsumer, Start
from cometmq.client.consumer.consumption import Consumption
from cometmq.errors import IllegalName, NoRoute, NotFound, SettingsError
from cometmq.message import MessageQueue

SECOND = QUEUE._replace(queue_id=1)


async def commit(here: Shop, group: str, queue: MessageQueue, offset: int) -> None:
    async with PullConsumer(here.live.name_server, group) as reader:
        await reader.commit(queue, offset)


async def test_lag_is_what_is_not_committed(tmp_path: Path) -> None:
    async with shop(tmp_path, queues=2) as here, ClusterAdmin(here.live.name_server) as cluster:
        await here.send(b"0", b"1", b"2", queue=QUEUE)
        await commit(here, "readers", QUEUE, 1)
        found = await offsets.lag(cluster, "readers")
        first, second = found.queues
        assert first == QueueProgress("Orders", BROKER, 0, 3, 1, 1, first.last_time) and first.last_time > 0
        assert (first.lag, first.in_flight) == (2, 0)
        assert second == QueueProgress("Orders", BROKER, 1, 0, 0, 0, 0, 0, False, 0)
        assert await offsets.lag(cluster, "readers", "Orders") == found
        (line,) = await offsets.lags(cluster)
        assert (line.group, line.members, line.lag) == ("readers", 0, 2)
        with pytest.raises(NotFound, match=r"no group 'reader': .*, nearest 'readers'"):
            await offsets.lag(cluster, "reader")


async def test_a_group_that_hangs_before_its_first_commit_lags_from_where_it_begins(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, ClusterAdmin(here.live.name_server) as cluster:
        await here.send(b"0", b"1", b"2")
        async with hanging(here.live.name_server, "stuck", "Orders"):
            found = await offsets.lag(cluster, "stuck", "Orders")
            (queue,) = found.queues
            assert queue == QueueProgress("Orders", BROKER, 0, 3, 0, 3, 0, 0, False, 0)
            assert (queue.lag, queue.in_flight, queue.ready) == (3, 3, 0) and not found.has_committed
            (line,) = await offsets.lags(cluster)
            assert (line.lag, line.in_flight, line.has_committed) == (3, 3, False)


async def test_a_group_that_broadcasts_has_no_lag(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, ClusterAdmin(here.live.name_server) as cluster:
        await here.send(b"0")
        basket = Basket()
        consumer = here.consumer(
            start=Start.FIRST, model=Model.BROADCASTING, offsets_directory=tmp_path / "offsets"
        )
        consumer.on("Orders")(basket.put)
        async with consumer:
            await basket.has(1)
            (line,) = await offsets.lags(cluster)
            assert (line.lag, line.has_committed, line.is_broadcasting) == (0, False, True)
            (queue,) = (await offsets.lag(cluster, line.group, "Orders")).queues
            assert (queue.lag, queue.in_flight, queue.ready, queue.is_known) == (0, 0, 0, False)


def test_what_waits_counts_from_where_a_group_begins_if_that_is_known() -> None:
    begun = QueueProgress("T", BROKER, 0, 9, 0, 6, 0, 0, False, 4)
    assert (begun.lag, begun.in_flight, begun.ready, begun.ahead) == (5, 2, 3, 0)
    removed = begun._replace(begin=12)
    assert (removed.lag, removed.in_flight, removed.ready, removed.ahead) == (0, 0, 0, 0)
    unknown = begun._replace(begin=None)
    assert (unknown.lag, unknown.in_flight, unknown.ready, unknown.ahead) == (0, 0, 0, 0)


async def test_a_group_that_is_off_line_goes_on_where_it_is_told(tmp_path: Path) -> None:
    async with shop(tmp_path, queues=2) as here, ClusterAdmin(here.live.name_server) as cluster:
        await here.send(b"0", b"1", b"2", queue=QUEUE)
        await commit(here, "readers", QUEUE, 1)

        async def reset(target: ResetTarget, queue: tuple[str, int] | None = None) -> list[OffsetChange]:
            return await offsets.reset(cluster, "readers", "Orders", target, queue=queue)

        assert await reset(ResetTarget(time=END)) == [
            OffsetChange(QUEUE, 1, 3),
            OffsetChange(SECOND, None, 0),
        ]
        assert await here.committed() == 3
        assert await reset(ResetTarget(), (BROKER, 0)) == [OffsetChange(QUEUE, 3, 0)]
        assert await reset(ResetTarget(offset=2), (BROKER, 0)) == [OffsetChange(QUEUE, 0, 2)]
        assert (await here.requests.pull(QUEUE, 1)).next_offset == 2  # a pull hears of a reset, once
        (message,) = (await here.requests.pull(QUEUE, 1, max_count=1)).messages
        assert (await reset(ResetTarget(time=message.store_time), (BROKER, 0)))[0].after <= 1
        dry = await offsets.reset(cluster, "readers", "Orders", ResetTarget(time=END), dry_run=True)
        assert dry[0].after == 3 and (await here.committed() or 0) <= 1
        with pytest.raises(SettingsError, match="no offset 4: it has 0 to 3"):
            await reset(ResetTarget(offset=4), (BROKER, 0))
        with pytest.raises(SettingsError, match="cometmq topic route Orders"):
            await reset(ResetTarget(), (BROKER, 7))
        with pytest.raises(NoRoute):
            await offsets.reset(cluster, "readers", "Nothing", ResetTarget())
        with pytest.raises(NotFound, match="no group"):
            await offsets.reset(cluster, "nobody", "Orders", ResetTarget())


async def test_members_at_work_go_on_at_once_where_they_are_told(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, ClusterAdmin(here.live.name_server) as cluster:
        basket = Basket()
        consumer = here.consumer()
        consumer.on("Orders")(basket.put)
        await here.send(b"0", b"1", b"2")
        async with consumer:
            await basket.has(3)
            assert isinstance(consumer._running, Consumption)
            await consumer._running.rebalancing.commit()
            await offsets.reset(cluster, "readers", "Orders", ResetTarget(offset=1))
            assert (await basket.has(5))[3:] == [b"1", b"2"]
        assert await here.committed() == 3


async def test_a_group_begins_where_another_one_stands(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, ClusterAdmin(here.live.name_server) as cluster:
        await here.send(b"0", b"1")
        await commit(here, "readers", QUEUE, 2)
        assert await offsets.clone(cluster, "readers", "writers") == ["Orders"]
        assert await here.committed("writers") == 2
        with pytest.raises(NotFound, match="no group 'nobody'"):
            await offsets.clone(cluster, "nobody", "writers")
        with pytest.raises(IllegalName):
            await offsets.clone(cluster, "readers", "a b")
        consumer = here.consumer("writers")
        consumer.subscribe("Orders", print)
        async with consumer:
            with pytest.raises(GroupAtWork, match="writers has 1 running members: stop them first"):
                await offsets.clone(cluster, "readers", "writers")
